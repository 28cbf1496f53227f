//! Answers that do not come, that come where or when they should not, or that are not what was asked for.

use super::*;
use workload::{
    arithmetic::Formula,
    number::{Datatype, NotWhole},
    tensor::{Content, Held, Other, Unlike},
};

#[test]
fn a_missing_answer_is_lost_and_the_rest_is_not_known() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).wait(20_000).tell(EventKind::GaveUp);
    c.assert(&[ViolationKind::Lost]);
    assert_eq!(
        c.rulings.last().and_then(|r| r.settled).map(|s| (s.step.request.step, s.outcome)),
        Some((1, Outcome::Indeterminate))
    );
    c.tell(EventKind::Cut(Cut::ByClient));
    assert_eq!(c.rulings.last().map(|r| r.abandoned), Some(1));
    c.assert(&[ViolationKind::Lost]);
}

#[test]
fn a_rejection_in_another_order_is_reordered_and_nothing_else() {
    let mut c = Conversation::new();
    c.send(true, true, &[1]).answer("0-0-0-0", 1).send(false, false, &[5]).send(true, true, &[7, 8]);
    c.answer("0-0-2-0", 7).reject("0-0-1-0").answer("0-0-2-1", 15);
    c.assert(&[ViolationKind::Reordered]);
}

#[test]
fn answers_in_another_order_are_one_violation_each_and_their_sums_are_checked() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-1", 3).answer("0-0-0-0", 1).answer("0-0-0-2", 6);
    c.assert(&[ViolationKind::Reordered]);
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-2", 6).answer("0-0-0-0", 2).answer("0-0-0-1", 3);
    c.assert(&[ViolationKind::Reordered, ViolationKind::WrongSum, ViolationKind::Reordered]);
}

#[test]
fn an_answer_that_was_overtaken_and_never_came_is_lost_and_not_reordered() {
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2, 3]).answer("0-0-0-0", 1).answer("0-0-0-2", 6).wait(20_000).tell(EventKind::GaveUp);
    c.assert(&[ViolationKind::Lost]);
}

#[test]
fn a_second_answer_is_a_duplicate() {
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
        .send(true, true, &[1, 2])
        .answer("0-0-0-0", 1)
        .answer("0-0-0-0", 1);
    c.assert(&[ViolationKind::Duplicate]);
    assert!(c.rulings.last().is_some_and(|ruling| ruling.distrust));
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
        .send(true, true, &[1])
        .answer("0-0-0-0", 1)
        .reject("0-0-0-0");
    c.assert(&[ViolationKind::Duplicate]);
}

#[test]
fn an_answer_to_what_was_not_sent_on_the_stream_is_misaddressed() {
    for id in ["0-0-7-0", "3-0-0-0", "0-1-0-0", "", "nonsense", "0-0-0-1"] {
        let mut c = Conversation::new();
        c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(true, true, &[1]).answer(id, 1);
        c.assert(&[ViolationKind::Misaddressed]);
        assert!(c.rulings.last().is_some_and(|ruling| ruling.distrust && ruling.settled.is_none()));
    }
    // What an earlier stream carried.
    let mut c = Conversation::new();
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream))
        .send(true, true, &[1])
        .answer("0-0-0-0", 1)
        .tell(EventKind::Closed);
    c.tell(EventKind::Opened(Connection::Own, Transport::GrpcStream)).send(true, true, &[1]).answer("0-0-0-0", 1);
    c.assert(&[ViolationKind::Misaddressed]);
}

#[test]
fn a_response_has_to_be_what_was_asked_for() {
    type Spoil = fn(&mut Response);
    let cases: [(Spoil, ViolationKind); 7] = [
        (|r| r.model = "n".into(), ViolationKind::WrongModel),
        (|r| r.outputs[0].name = "OUTPU".into(), ViolationKind::WrongOutputName),
        (|r| r.outputs.clear(), ViolationKind::WrongOutputName),
        (|r| r.outputs[0].datatype = "UINT32".into(), ViolationKind::WrongOutputType),
        (|r| r.outputs[0].shape = vec![1], ViolationKind::WrongOutputShape),
        (|r| r.outputs[0].data = TensorData::Raw(vec![1, 0, 0]), ViolationKind::WrongOutputSize),
        (|r| r.outputs[0].data = TensorData::Absent, ViolationKind::WrongOutputSize),
    ];
    for (spoil, kind) in cases {
        let mut c = Conversation::new();
        let mut spoiled = response(1);
        spoil(&mut spoiled);
        c.send(true, true, &[1, 2]).receive("0-0-0-0", Ok(spoiled));
        c.assert(&[kind]);
        c.answer("0-0-0-1", 3).assert(&[kind]);
    }
}

#[test]
fn an_answer_that_is_no_whole_number_is_a_wrong_sum_and_one_of_another_type_says_so() {
    let fp32 = Arithmetic { datatype: Datatype::Fp32, ..Arithmetic::default() };
    let answer = |datatype: &str, bytes: &[u8]| Response {
        model: "m".into(),
        outputs: vec![Tensor {
            name: "OUTPUT".into(),
            datatype: datatype.into(),
            shape: vec![1, 1],
            data: TensorData::Raw(bytes.into()),
        }],
        ..Response::default()
    };
    let fraction = |number: &str| {
        let first = Content::NotWhole(NotWhole::Fraction(number.to_owned()));
        Evidence::Elements { datatype: Datatype::Fp32, count: 1, seen: Unlike { first, other: None } }
    };
    let sum = Evidence::Sum { expected: vec![fp32.number(5)], seen: fp32.number(6), disorder: None };
    let other_type = Evidence::OutputType { expected: Datatype::Fp32.into(), seen: "FP64".to_owned() };
    let size = Evidence::OutputSize { datatype: Datatype::Fp32.into(), count: 1, seen: Held::Bytes(8) };
    for (datatype, bytes, expected) in [
        ("FP32", 5_f32.to_le_bytes().to_vec(), None),
        ("FP32", 6_f32.to_le_bytes().to_vec(), Some((ViolationKind::WrongSum, sum))),
        ("FP32", 5.5_f32.to_le_bytes().to_vec(), Some((ViolationKind::WrongSum, fraction("5.5")))),
        ("FP32", f32::NAN.to_le_bytes().to_vec(), Some((ViolationKind::WrongSum, fraction("NaN")))),
        ("FP64", 5_f64.to_le_bytes().to_vec(), Some((ViolationKind::WrongOutputType, other_type))),
        ("FP32", 5_f64.to_le_bytes().to_vec(), Some((ViolationKind::WrongOutputSize, size))),
    ] {
        let mut c = Conversation::new();
        c.oracle.rules.arithmetic = fp32;
        let request = RequestId { worker: 0, context: 0, sequence: 0, step: 0 };
        let value = fp32.number(5);
        let step = Step { request, pattern: Pattern::Valid, start: true, end: true, value, of: 1, special: None };
        c.tell(EventKind::Sent(step)).receive("0-0-0-0", Ok(answer(datatype, &bytes)));
        c.assert_evidence(expected);
    }
}

#[test]
fn what_else_is_in_an_answer_is_checked_and_shown_as_it_came() {
    for (formula, initial_state, answers, wrong) in [
        (Formula::RunningSum, 100, [105, 112, 111], 11),
        (Formula::RunningSumPlusCorrid, 0, [5, 12, 16], 11),
        (Formula::RunningSumPlusCorrid, -1, [4, 11, 15], 10),
        // What came before changes nothing.
        (Formula::Stateless, 0, [6, 7, -1], 11),
        (Formula::StatelessPlusCorrid, 0, [6, 7, 4], -1),
    ] {
        let mut c = Conversation::new();
        c.oracle.rules.arithmetic = Arithmetic { formula, initial_state, ..Arithmetic::default() };
        c.send(true, true, &[5, 7, -1]);
        c.answer("0-0-0-0", answers[0]).answer("0-0-0-1", answers[1]).answer("0-0-0-2", answers[2]);
        c.send(false, false, &[3]).reject("0-0-1-0");
        c.assert(&[]);
        assert!(c.judged(), "{formula:?}");
        c.send(true, true, &[5, 7, -1]);
        c.answer("0-0-2-0", answers[0]).answer("0-0-2-1", answers[1]).answer("0-0-2-2", wrong);
        c.assert(&[ViolationKind::WrongSum]);
        let (expected, seen) = (vec![answers[2].into()], wrong.into());
        assert_eq!(c.first().evidence, Evidence::Sum { expected, seen, disorder: None });
        c.send(false, false, &[3]).answer("0-0-3-0", 3);
        c.assert(&[ViolationKind::WrongSum, ViolationKind::MissingStartError]);
    }
}

#[test]
fn every_element_of_an_answer_has_to_be_the_sum() {
    let elements = |sums: &[i32]| Response {
        model: "m".into(),
        outputs: vec![Tensor {
            name: "OUTPUT".into(),
            datatype: "INT32".into(),
            shape: vec![1, 3],
            data: TensorData::Raw(sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()),
        }],
        ..Response::default()
    };
    let size = |bytes| {
        let evidence = Evidence::OutputSize { datatype: Datatype::Int32.into(), count: 3, seen: Held::Bytes(bytes) };
        Some((ViolationKind::WrongOutputSize, evidence))
    };
    let sum = Evidence::Sum { expected: vec![5.into()], seen: 6.into(), disorder: None };
    let other = Some(Other { content: Content::Whole(6.into()), element: 3, of: 3 });
    let seen = Unlike { first: Content::Whole(5.into()), other };
    let unlike = Evidence::Elements { datatype: Datatype::Int32, count: 3, seen };
    for (sums, expected) in [
        (&[5, 5, 5][..], None),
        (&[6, 6, 6], Some((ViolationKind::WrongSum, sum))),
        (&[5, 5, 6], Some((ViolationKind::WrongSum, unlike))),
        (&[5, 5], size(8)),
        (&[5, 5, 5, 5], size(16)),
    ] {
        let mut c = Conversation::new();
        c.oracle.rules.shape = vec![1, 3].into();
        c.send(true, true, &[5]).receive("0-0-0-0", Ok(elements(sums)));
        c.assert_evidence(expected);
    }
}

#[test]
fn an_answer_has_to_have_as_many_elements_as_its_request() {
    let answer = |shape: &[i64], sums: &[i32]| Response {
        model: "m".into(),
        outputs: vec![Tensor {
            name: "OUTPUT".into(),
            datatype: "INT32".into(),
            shape: shape.to_vec(),
            data: TensorData::Raw(sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()),
        }],
        ..Response::default()
    };
    for (shape, sums, expected) in [
        (&[1, 2][..], &[5, 5][..], None),
        (&[1, 1], &[5], Some(ViolationKind::WrongOutputShape)),
        (&[1, 3], &[5, 5], Some(ViolationKind::WrongOutputShape)),
        (&[1, 2], &[5], Some(ViolationKind::WrongOutputSize)),
        (&[1, 2], &[5, 5, 5], Some(ViolationKind::WrongOutputSize)),
        (&[1, 2], &[5, 4], Some(ViolationKind::WrongSum)),
        (&[1, 2], &[4, 4], Some(ViolationKind::WrongSum)),
    ] {
        let mut c = Conversation::new();
        c.oracle.rules.shape = vec![1, -1].into();
        let value = Number::from(5).of_elements(2.try_into().expect("not 0"));
        let request = RequestId { worker: 0, context: 0, sequence: 0, step: 0 };
        let step = Step { request, pattern: Pattern::Valid, start: true, end: true, value, of: 1, special: None };
        c.tell(EventKind::Sent(step)).receive("0-0-0-0", Ok(answer(shape, sums)));
        let kinds = c.violations();
        assert!(kinds.first() == expected.as_ref(), "{shape:?} {sums:?}: {kinds:?}");
    }
}
