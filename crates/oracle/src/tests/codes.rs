//! Errors with a code: the text alone does not make a rejection right.

use super::*;
use workload::{
    event::{Code, EventKind},
    sequence::Flaw,
};

fn rejected(flaw: Option<Flaw>, text: &str, code: Code) -> Conversation {
    rejected_by(None, flaw, text, code)
}

/// The same of a model that calls another.
fn rejected_by(calls: Option<&str>, flaw: Option<Flaw>, text: &str, code: Code) -> Conversation {
    rejected_in(Words::Known, calls, flaw, text, code)
}

/// The same of a server with these words.
fn rejected_in(words: Words, calls: Option<&str>, flaw: Option<Flaw>, text: &str, code: Code) -> Conversation {
    let mut c = Conversation::new();
    c.oracle.rules.calls = calls.map(str::to_owned);
    c.oracle.rules.words = words;
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcUnary));
    c.send_special(flaw.is_some(), false, &[1], &[flaw.map(Special::Flaw)]);
    let received = Received { id: "0-0-0-0".into(), result: Err(text.into()), code: Some(code), outputs: 0 };
    // What comes before a step without START is not known at first, so that it may be rejected.
    c.tell(EventKind::Received(Box::new(received)));
    c
}

#[test]
fn a_rejection_has_the_code_of_its_reason() {
    let expired = "timeout of the corresponding sequence has been expired";
    for (flaw, text, grpc, http) in [
        (None, START_ERROR, 3, 400),
        (Some(Flaw::OtherType), Flaw::OtherType.rejection(), 3, 400),
        (Some(Flaw::OtherVersion), Flaw::OtherVersion.rejection(), 5, 404),
        (Some(Flaw::IdTooLong), Flaw::IdTooLong.rejection(), 12, 501),
        (Some(Flaw::ShortData), "Unable to parse 'data': no", 13, 500),
        (Some(Flaw::IdOfOtherType), "Unable to parse 'sequence_id': no", 13, 500),
    ] {
        for (code, other) in [(Code::Grpc(grpc), Code::Grpc(2)), (Code::Http(http), Code::Http(200))] {
            rejected(flaw, text, code).assert(&[]);
            let c = rejected(flaw, text, other);
            c.assert(&[ViolationKind::UnexpectedError]);
            let evidence = Evidence::CodeOfRejection { expected: code, seen: other, error: text.to_owned() };
            assert_eq!(c.first().evidence, evidence);
        }
    }
    // What a called model rejects has the same code for every reason.
    let of_called = format!("in ensemble 'm', Model c - Error when running inference: {START_ERROR}");
    for (code, other) in [(Code::Grpc(13), Code::Grpc(3)), (Code::Http(500), Code::Http(400))] {
        rejected_by(Some("c"), None, &of_called, code).assert(&[]);
        rejected_by(Some("c"), None, &of_called, other).assert(&[ViolationKind::UnexpectedError]);
        // A model that calls none, or another one, has no right to that code.
        for calls in [None, Some("d")] {
            rejected_by(calls, None, &of_called, other).assert(&[]);
            rejected_by(calls, None, &of_called, code).assert(&[ViolationKind::UnexpectedError]);
        }
    }
    let c = rejected(None, expired, Code::Http(400));
    assert!(c.violations().contains(&ViolationKind::UnexpectedError), "{:?}", c.violations());
}

#[test]
fn a_server_that_tells_each_error_with_one_status_of_http_has_the_codes_of_grpc_all_the_same() {
    let of_called = format!("in ensemble 'm', Model c - Error when running inference: {START_ERROR}");
    for (calls, flaw, text, grpc, http) in [
        (None, Some(Flaw::OtherVersion), Flaw::OtherVersion.rejection(), 5, 404),
        (None, Some(Flaw::IdTooLong), Flaw::IdTooLong.rejection(), 12, 501),
        (None, Some(Flaw::IdOfOtherType), "Unable to parse 'sequence_id': no", 13, 500),
        (Some("c"), None, &of_called, 13, 500),
    ] {
        for (code, kinds) in [
            (Code::Http(400), &[][..]),
            (Code::Http(http), &[ViolationKind::UnexpectedError]),
            (Code::Grpc(grpc), &[]),
            (Code::Grpc(2), &[ViolationKind::UnexpectedError]),
        ] {
            rejected_in(Words::KnownWithOneStatus, calls, flaw, text, code).assert(kinds);
        }
        rejected_by(calls, flaw, text, Code::Http(400)).assert(&[ViolationKind::UnexpectedError]);
    }
}
