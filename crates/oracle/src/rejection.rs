//! Why a request is rejected, and the codes that are told with it.

use super::{Evidence, ViolationKind, Words, words};
use workload::{
    event::Code,
    sequence::{Flaw, Step},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It cannot be as it is.
    Invalid,
    /// It asks for what there is not.
    NotFound,
    /// The server has no room for such a thing.
    TooMuch,
    /// It waited for too long.
    Unavailable,
    /// It cannot be read.
    Unreadable,
    /// A model rejected it that the tested one calls.
    Called,
}

impl Reason {
    /// Why a step with a flaw was rejected, where this is what it was rejected with.
    pub(super) fn of_flaw(flaw: Flaw, text: &str) -> Self {
        match flaw {
            _ if text.contains(Flaw::OF_ANOTHER_TYPE) => Self::Invalid,
            Flaw::IdTooLong => Self::TooMuch,
            Flaw::OtherVersion => Self::NotFound,
            // What an HTTP server cannot read it does not look into.
            _ if text.contains(Flaw::UNREADABLE) => Self::Unreadable,
            _ => Self::Invalid,
        }
    }

    /// Whether a step with a flaw may be rejected with this code, or without one, in whatever words.
    pub(super) fn may_be_of_flaw(flaw: Flaw, code: Option<Code>) -> bool {
        // What cannot be read in JSON is Invalid in gRPC.
        let may_be_unreadable = matches!(flaw, Flaw::ShortData | Flaw::IdOfOtherType);
        Self::of_flaw(flaw, "").may_have(code) || may_be_unreadable && Self::Unreadable.may_have(code)
    }

    /// Whether it may be told with this code, or without one.
    pub(super) fn may_have(self, code: Option<Code>) -> bool {
        code.is_none_or(|code| self.code(code) == code)
    }

    /// The code that is told with it: the one that Triton tells, in the same kind.
    fn code(self, like: Code) -> Code {
        let (grpc, http) = match self {
            Self::Invalid => (3, 400),
            Self::NotFound => (5, 404),
            Self::TooMuch => (12, 501),
            Self::Unavailable => (14, 503),
            Self::Unreadable | Self::Called => (13, 500),
        };
        match like {
            Code::Grpc(_) => Code::Grpc(grpc),
            Code::Http(_) => Code::Http(http),
        }
    }
}

impl super::observation::Observation<'_> {
    /// Whether the rejection of this came with another code than its reason has. Of a server that nobody compared with Triton that is told,
    /// and no violation.
    pub(super) fn check_code(
        &mut self,
        step: &Step,
        (reason, of): (Reason, &'static str),
        code: Option<Code>,
        text: &str,
    ) {
        let Some(seen) = code else { return };
        let is_of_called = self.rules.calls.as_ref().is_some_and(|called| words::are_of_a_called_model(text, called));
        let reason = match reason {
            _ if self.rules.words == Words::KnownWithOneStatus && matches!(seen, Code::Http(_)) => Reason::Invalid,
            _ if is_of_called => Reason::Called,
            reason => reason,
        };
        let expected = reason.code(seen);
        if seen != expected && self.rules.words == Words::Unknown {
            self.was_in_other_words(of, format!("{seen}: {text}"));
        } else if seen != expected {
            let evidence = Evidence::CodeOfRejection { expected, seen, error: text.to_owned() };
            self.violation(ViolationKind::UnexpectedError, Some(step), evidence);
        }
    }
}
