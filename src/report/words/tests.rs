//! Every violation and every cause's evidence in words, to be read. Behind each stands what the words are made of.

use std::num::NonZeroU64;

use super::*;
use oracle::{
    Answer, Disorder, Sent, State, Taken,
    diagnosis::{Cause, Clue, Explanation, Left, Relation, SequenceId, WentOn},
    golden::{Answered, Deviation, Differs, FaultKind, Lineage, Misfit, Named},
};
use workload::{
    controls::{Difference, Flag},
    conversation::Transport,
    event::{Code, ContextId, ServerName},
    inputs::ElementType,
    model::Counted,
    sequence::{CorrelationId, Flaw, Pattern, RequestId, Special},
    tensor::{Content, Held, Other, Unlike},
};

fn id(number: u64) -> CorrelationId {
    CorrelationId(NonZeroU64::new(number).expect("not zero"))
}

fn request(step: u32) -> RequestId {
    RequestId { worker: 3, context: 1, sequence: 7, step }
}

fn numbers<const N: usize>(numbers: [i32; N]) -> Vec<Number> {
    numbers.map(Number::from).to_vec()
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn place() -> Place {
    let pattern = Pattern::Valid;
    let step = Step { request: request(1), pattern, start: false, end: true, value: 7.into(), of: 2, special: None };
    Place::new(ContextId { worker: 3, context: 1 }, id(5), Some(step))
}

fn disorder(prefix: &[(u32, Option<Answer>)]) -> Disorder {
    let taken = |&(step, answer): &(u32, Option<Answer>)| Taken { request: request(step), answer };
    let unexplained = vec![taken(&(9, Some(Answer::Sum(9.into())))), taken(&(10, Some(Answer::Rejected)))];
    Disorder { before: State::Absent, prefix: prefix.iter().map(taken).collect(), unexplained }
}

/// Evidence of outputs that no formula says.
fn of_outputs() -> Vec<(ViolationKind, Evidence)> {
    let named = |lineage| Named { sum: 7.into(), lineage, tracks: vec![text("random 7"), text("random 8")] };
    let track = |steps| named(Some(Lineage::Track { track: 7, steps }));
    let misfit = |response, what| Some(Box::new(Misfit::Output(Deviation { response, output: text("OUTPUT"), what })));
    let number = |differing| Differs::Number {
        element: 3,
        expected: text("0.5"),
        seen: text("0.9"),
        apart: text("4.0e-1"),
        tolerance: 1e-5,
        differing,
        of: 16,
    };
    let like =
        |at_ns, transport, is_confirmed| Some(Box::new(Answered { place: place(), at_ns, transport, is_confirmed }));
    let lineages = FaultKind::ALL
        .into_iter()
        .map(|kind| Lineage::Fault { kind, track: 7, steps: 3 })
        .chain([Lineage::Ended { track: 7, steps: 3 }, Lineage::Continued { track: 7, step: 3, other: 8, after: 5 }]);
    let of = |seen, misfit, like| Evidence::Output { expected: vec![track(4)], seen, misfit, like, disorder: None };
    let several = Evidence::Output {
        expected: vec![track(4), named(None)],
        seen: Some(track(3)),
        misfit: None,
        like: None,
        disorder: Some(disorder(&[])),
    };
    let mut all = vec![
        several,
        of(None, None, None),
        of(None, misfit(None, number(Some(1))), None),
        of(None, misfit(Some(2), number(None)), None),
        of(None, misfit(None, Differs::Shape { expected: vec![1, 4], seen: vec![1, 5] }), None),
        of(None, misfit(None, Differs::Element { element: 2 }), None),
        of(None, Some(Box::new(Misfit::Responses { expected: 2, seen: 1 })), None),
        of(None, misfit(None, number(None)), like(0, None, false)),
        of(None, misfit(None, number(None)), like(0, Some(Transport::Http), true)),
        of(None, misfit(None, number(None)), like(9_000_000_000_000, None, true)),
    ];
    all.extend(lineages.map(|lineage| of(Some(named(Some(lineage))), None, None)));
    all.into_iter().map(|evidence| (ViolationKind::WrongOutput, evidence)).collect()
}

/// Each kind of evidence, with its variants.
#[expect(clippy::too_many_lines, reason = "one for each evidence")]
fn all() -> Vec<(ViolationKind, Evidence)> {
    use ViolationKind as Kind;
    let sent = Sent { requests: 20, answered: 19 };
    let bounds = |success_max| CountBounds { success_min: 18, success_max, fail_max: success_max - 18 };
    let counts = |success_max| {
        let seen = Counted { success: 21, fail: 1, inference: 21, execution: 9 };
        Evidence::Counts { requests: 20, expected: bounds(success_max), seen }
    };
    let many: Vec<_> = (0..12).map(|step| (step, Some(Answer::Sum(1.into())))).collect();
    let elements = |first, other| Evidence::Elements {
        datatype: workload::number::Datatype::Fp32,
        count: if other == 0 { 1 } else { 4 },
        seen: Unlike {
            first,
            other: (other > 0).then_some(Other { content: Content::Whole(6.into()), element: other, of: 4 }),
        },
    };
    let fraction = Content::NotWhole(workload::number::NotWhole::Fraction(text("1.5")));
    let words = Content::NotWhole(workload::number::NotWhole::Text(text("five")));
    let rejected = |since_ms| Evidence::Rejected { since_ms, error: text("NO"), disorder: None };
    let flaw = |error| Evidence::Flaw { flaw: Flaw::IdZero, error };
    let failed = |has_to_be_rejected, code| Evidence::Failed { has_to_be_rejected, code, error: text("NO") };
    let stray = |waiting_for, error, sender| Evidence::NotAskedFor { waiting_for, id: text("9-9-9-9"), error, sender };
    let responses = |seen, is_unfinished| Evidence::Responses { expected: 3, seen, is_unfinished };
    let outputs = |expected: &[&str]| Evidence::Outputs {
        expected: expected.iter().map(|name| text(name)).collect(),
        seen: vec![text("OUTPUT"), text("OTHER")],
    };
    let size = |count, seen| Evidence::OutputSize { datatype: ElementType::Int32, count, seen };
    let told = |control, told, said| Difference::Flag { control, told, said };
    let leaked = |seen| Evidence::SlotsLeaked { slots: 8, seen };
    let unanswered = |later| Leak::Unanswered { open: 7, leaked: 1, waited_ms: 900, later };
    let mut all = of_outputs();
    all.extend([
        (Kind::WrongSum, Evidence::Sum { expected: numbers([12]), seen: 107.into(), disorder: None }),
        (
            Kind::WrongSum,
            Evidence::Sum { expected: numbers([12, 14]), seen: 107.into(), disorder: Some(disorder(&[])) },
        ),
        (
            Kind::WrongSum,
            Evidence::Sum {
                expected: numbers([12]),
                seen: 13.into(),
                disorder: Some(disorder(&[(1, Some(Answer::Sum(5.into()))), (2, None)])),
            },
        ),
        (Kind::WrongSum, Evidence::SumOfResponse { response: 2, of: 3, expected: 6.into(), seen: 9.into() }),
        (Kind::WrongSum, Evidence::Sums { expected: numbers([5, 6, 7]), seen: numbers([5, 50, 500]) }),
        (Kind::Reordered, Evidence::Sums { expected: numbers([1, 2, 3, 4, 5, 6, 7, 8, 9]), seen: numbers([9, 1]) }),
        (Kind::WrongSum, elements(fraction, 0)),
        (Kind::WrongSum, elements(words, 0)),
        (Kind::WrongSum, elements(Content::Whole(5.into()), 3)),
        (Kind::MissingStartError, Evidence::NotRejected { seen: 7.into(), disorder: Some(disorder(&many)) }),
        (Kind::SpuriousStartError, rejected(None)),
        (Kind::SpuriousStartError, rejected(Some(40))),
        (Kind::FlawAccepted, flaw(None)),
        (Kind::UnexpectedError, flaw(Some(text("NO")))),
        (Kind::SpuriousTimeout, Evidence::Expired { error: text("NO") }),
        (Kind::UnexpectedError, failed(false, None)),
        (Kind::UnexpectedError, failed(true, Some(Code::Http(500)))),
        (
            Kind::UnexpectedError,
            Evidence::CodeOfRejection { expected: Code::Grpc(3), seen: Code::Grpc(13), error: text("NO") },
        ),
        (Kind::Duplicate, Evidence::AnsweredAgain { id: text("3-1-7-1"), error: None }),
        (Kind::Duplicate, Evidence::AnsweredAgain { id: text("3-1-7-1"), error: Some(text("NO")) }),
        (Kind::Misaddressed, stray(None, None, None)),
        (
            Kind::Misaddressed,
            stray(Some(request(1)), Some(text("NO")), Some(Sender::Context(ContextId { worker: 9, context: 9 }))),
        ),
        (Kind::Misaddressed, stray(Some(request(1)), None, Some(Sender::Stream(2)))),
        (Kind::Reordered, Evidence::Overtaken),
        (Kind::Lost, Evidence::Unanswered { waited_ms: 900, later: 4 }),
        (Kind::Lost, responses(0, false)),
        (Kind::Lost, responses(1, false)),
        (Kind::Lost, responses(3, true)),
        (Kind::Duplicate, responses(4, false)),
        (Kind::WrongModel, Evidence::Model { expected: text("m"), seen: text("n") }),
        (Kind::WrongVersion, Evidence::Version { expected: text("1"), seen: text("2") }),
        (Kind::WrongOutputName, outputs(&["OUTPUT"])),
        (Kind::WrongOutputName, outputs(&["OUTPUT", "SEEN"])),
        (Kind::WrongOutputName, Evidence::OutputName { expected: text("OUTPUT"), seen: text("OTHER") }),
        (Kind::WrongOutputName, Evidence::OutputsBesideError { outputs: 2, error: text("NO") }),
        (Kind::WrongOutputType, Evidence::OutputType { expected: ElementType::Int32, seen: text("FP32") }),
        (Kind::WrongOutputShape, Evidence::OutputShape { expected: vec![1, 1], seen: vec![2] }),
        (Kind::WrongOutputSize, size(1, Held::Bytes(3))),
        (Kind::WrongOutputSize, size(4, Held::Elements(3))),
        (Kind::WrongOutputSize, size(4, Held::Nothing)),
        (
            Kind::WrongControl,
            Evidence::Controls {
                differences: vec![told(Flag::Start, None, true), told(Flag::End, Some(true), false)],
                answer: None,
            },
        ),
        (
            Kind::WrongControl,
            Evidence::Controls {
                differences: vec![told(Flag::Ready, Some(false), true), Difference::Corrid { told: 6, said: 5 }],
                answer: Some(7.into()),
            },
        ),
        (
            Kind::WrongControl,
            Evidence::ControlsUnreadable {
                output: text("SEEN"),
                datatype: text("INT32"),
                shape: vec![1],
                seen: Held::Bytes(4),
            },
        ),
        (Kind::WrongSlot, Evidence::NoSuchSlot { slots: 8, seen: 9 }),
        (Kind::WrongSlot, Evidence::OtherSlot { expected: 7, seen: 2 }),
        (Kind::WrongSlot, Evidence::TakenSlot { slot: 2, holder: id(9), held_ms: 5 }),
        (
            Kind::SequenceSplit,
            Evidence::Split { expected: ServerName::new("a"), first: 1, last: 3, seen: ServerName::new("b") },
        ),
        (
            Kind::SequenceSplit,
            Evidence::Split { expected: ServerName::new("b"), first: 1, last: 1, seen: ServerName::new("a") },
        ),
        (Kind::StreamBroken, Evidence::Broken { reason: text("connection reset") }),
        (Kind::StreamBroken, Evidence::Ended),
        (Kind::StreamNotClosed, Evidence::StillOpen),
        (Kind::StreamNotClosed, Evidence::ErrorWithin { error: "timeout of the sequence".to_owned() }),
        (Kind::MissingTimeout, Evidence::Overdue { limit_ms: 100, answered_ms: 250, waited_ms: 200 }),
        (Kind::SlotWithheld, Evidence::Withheld { holders: 1, slots: 2, answered_ms: 2001, free_ms: 2000 }),
        (Kind::SlotOutOfTurn, Evidence::PassedOver { by: id(9), slots: 2, sent_ms: 3, passed_ms: 11, waited_ms: 12 }),
        (Kind::SlotLeak, leaked(unanswered(None))),
        (Kind::SlotLeak, leaked(unanswered(Some(1)))),
        (Kind::SlotLeak, leaked(Leak::NotHandedOn { waited_ms: 900 })),
        (Kind::SlotReleasedTwice, Evidence::SlotsSurplus { slots: 8, within_ms: 3 }),
        (Kind::MissingReap, Evidence::NoneReaped { sequences: 24, pause_ms: 800, limit_ms: 200 }),
        (Kind::PendingLeft, Evidence::Pending { sent, seen: 2, all_slots_free: true }),
        (Kind::Hang, Evidence::Silence { sent, seconds: 5 }),
        (
            Kind::ServerDied,
            Evidence::Died { sent, endpoint: text("localhost:8001"), reason: text("connection refused") },
        ),
        (Kind::Statistics, counts(18)),
        (Kind::Statistics, counts(20)),
        (Kind::NotReady, Evidence::NotReady { of: Subject::Server, executed: 0 }),
        (Kind::NotReady, Evidence::NotReady { of: Subject::Model, executed: 7 }),
        (Kind::MemoryGrowth, Evidence::Growth { bytes: 1_000_000, sequences: 5000, bytes_per_hour: 36_000_000 }),
        (Kind::MemoryGrowth, Evidence::Growth { bytes: i64::MIN, sequences: u64::MAX, bytes_per_hour: i64::MIN }),
    ]);
    all
}

/// Each clue, with its variants.
#[expect(clippy::too_many_lines, reason = "a line each")]
fn clues() -> Vec<Clue> {
    let (state, sequence, id) = (Number::from(100), SequenceId { worker: 9, context: 0, sequence: 4 }, id(9));
    let context = ContextId { worker: 9, context: 0 };
    let old_state = |relation| Clue::StaleState { state, step: 2, sequence, id, relation };
    let idle = |limit_ms, went_on| Clue::Idle { since_ms: 300, limit_ms, pause_ms: 250, went_on };
    let predecessor = |left| Clue::FromPredecessor { state, sequence, left };
    let went_on = |from| Clue::WentOn { from };
    vec![
        Clue::WrongBy { off_by: 1.into() },
        Clue::TooHighByOwnValue { value: 7.into() },
        Clue::TooHighByEarlierValue { value: 7.into(), back: 2 },
        Clue::TooHighById { id },
        Clue::OneBit { right: state, bit: 3 },
        Clue::AtTheLimit { answer: state },
        Clue::OneElement { element: 3, of: 16 },
        Clue::ShownAlone,
        Clue::AllAlike { steps: 4 },
        Clue::StartDiffers,
        Clue::StartWrongTwice,
        Clue::NextRight,
        Clue::RightBefore { step: 2 },
        Clue::SameStepAgain,
        Clue::NextUnlike,
        Clue::AnswerOfEnd { to_end: true },
        Clue::AnswerOfEnd { to_end: false },
        Clue::StateBefore { state },
        Clue::AfterALaterStep { late: 2, early: 3, sum: state },
        Clue::HasLaterValues { up_to: 4 },
        Clue::LacksEarlierValues { back: 1, missing: state },
        Clue::LacksEarlierValues { back: 3, missing: state },
        Clue::OwnValue,
        Clue::OwnValueAsBehindEnd,
        Clue::NoState,
        Clue::EndFoundTheState,
        Clue::TakenByAnother,
        Clue::NothingExplains { off_by: state },
        Clue::StartWentOn { from: state },
        Clue::StartUnanswered { found: state },
        Clue::StartNotKept { found: state },
        Clue::CountFound { found: state },
        went_on(WentOn::NotKnown),
        went_on(WentOn::WrongSum),
        went_on(WentOn::RightSum),
        went_on(WentOn::StateBefore),
        went_on(WentOn::Other(state)),
        Clue::FromSequence { state, sequence },
        Clue::EndOfAnother { sequence },
        old_state(Relation::Predecessor),
        old_state(Relation::SameId),
        old_state(Relation::OtherId),
        Clue::SameFound { state, times: 3 },
        Clue::BelongsTo { answer: state, request: request(0), stream: 0 },
        Clue::Exchanged,
        Clue::HasValuesOf { requests: vec![request(0), request(1)] },
        Clue::StateOf { state, step: 2, sequence, id },
        Clue::ThatWentOnFromThis,
        Clue::ThatWentOnFromTheAnswer,
        Clue::ThatWentOnUntouched,
        Clue::BothUsedTheState,
        Clue::AfterACancel { context, ms: 83 },
        Clue::CutBefore { context, ms: 70 },
        Clue::ErrorSays { error: text("NO") },
        Clue::UnknownId { id: text("x") },
        Clue::AnswerTo { request: request(0), id, context: Some(context) },
        Clue::AnswerTo { request: request(0), id, context: None },
        Clue::NoOutput { executed: None },
        Clue::NoOutput { executed: Some(true) },
        Clue::NoOutput { executed: Some(false) },
        Clue::CarriesStart,
        Clue::NoAcceptedStep,
        Clue::RejectedForAFlaw { step: 2 },
        Clue::StreamBroke { reason: Some(text("connection reset")) },
        Clue::StreamBroke { reason: None },
        Clue::OtherConnection { rejected: 3, executed: 2 },
        Clue::SeveralServers { servers: 2 },
        Clue::NearIdEnded { sequence, id },
        idle(None, None),
        idle(Some(500), Some(true)),
        idle(Some(500), Some(false)),
        Clue::LimitSinceStart { ms: 510 },
        Clue::Flaw { flaw: Flaw::IdZero },
        Clue::RejectedAfter { ms: 4 },
        Clue::StartAnsweredAfter { ms: 4 },
        Clue::FromZero,
        Clue::FromBeforeARejection { state, step: 2 },
        predecessor(None),
        predecessor(Some(Left::Ended)),
        predecessor(Some(Left::IdleMs(700))),
        Clue::FromState { state, sequence: None },
        Clue::FromState { state, sequence: Some(sequence) },
        Clue::NothingBeside,
        Clue::CameTo { context },
        Clue::OfItsAnswers,
        Clue::SeenAgain,
        Clue::Meanwhile { behind: 1, others: 2, overtook: 3, stuck: 4, begun_in_vain: 5, left: 6, live: 7 },
        Clue::AllSlotsFree { slots: 8 },
        Clue::WaitLonger,
        Clue::SlowingDown { early_ms: 1, late_ms: 50, waited_ms: 900 },
        Clue::HalfClosed,
        Clue::BrokeTogether { contexts: 3 },
        Clue::SteadyGrowth,
        Clue::AskTheLog,
    ]
}

#[test]
fn every_violation_can_be_read() {
    let lines =
        all().into_iter().map(|(kind, evidence)| describe(&Violation::at(place(), kind, 1_234_000_000, evidence)));
    insta::assert_snapshot!("violations", lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_clue_can_be_read() {
    let evidence = Evidence::Sum { expected: numbers([12]), seen: 107.into(), disorder: None };
    let violation = Violation::at(place(), ViolationKind::WrongSum, 0, evidence);
    let phrase = |clue| super::evidence(&violation, &Explanation::new(Cause::Unexplained, [clue]));
    insta::assert_snapshot!("clues", clues().into_iter().map(phrase).collect::<Vec<_>>().join("\n"));
    let of_chance =
        Explanation { by_chance: Some(4), ..Explanation::new(Cause::Unexplained, [Clue::Seen, Clue::FromZero]) };
    let words = "107 (off by 95); the step was executed from zero on; by chance this matches in 1 of 4 cases";
    assert_eq!(super::evidence(&violation, &of_chance), words);
}

/// What was seen reads otherwise behind some causes.
#[test]
fn what_was_seen_reads_as_evidence() {
    let all = all().into_iter().map(|(kind, evidence)| {
        let violation = Violation::at(place(), kind, 0, evidence);
        let told = |clue| super::evidence(&violation, &Explanation::new(Cause::Unexplained, [clue]));
        format!("{kind}: {} | {}", told(Clue::Seen), told(Clue::SeenAndExpected))
    });
    insta::assert_snapshot!("seen", all.collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_had_to_be_counted_is_told_as_a_number_or_a_range() {
    let told = |success_min, success_max, fail_max| bounds(CountBounds { success_min, success_max, fail_max });
    assert_eq!(told(1, 1, 0), "1 success and as many inferences, 0 failures");
    assert_eq!(told(0, 1, 1), "0 to 1 success and as many inferences, 0 to 1 failure");
    assert_eq!(told(2, 4, 2), "2 to 4 successes and as many inferences, 0 to 2 failures");
}

#[test]
fn where_a_violation_was_is_told() {
    let told = |place: Option<Place>, evidence| {
        let violation = Violation { place, ..Violation::of_the_run(ViolationKind::Hang, 0, evidence) };
        Description::of(&violation).sent
    };
    let sequence = |step, aside| Some(Place { step, aside, ..place() });
    assert_eq!(told(place().into(), Evidence::Overtaken), "valid step 2/2 END value 7");
    assert_eq!(told(sequence(None, None), Evidence::StillOpen), "nothing");
    for (purpose, words) in [
        (Purpose::Trial, "nothing, before the run"),
        (Purpose::SlotCheck, "nothing, of the slot check"),
        (Purpose::IdleSearch, "nothing, of the search for the idle limit"),
    ] {
        assert_eq!(told(sequence(None, Some(purpose)), Evidence::StillOpen), words);
    }
    let special = Some(Special::Flaw(Flaw::IdZero));
    let step = place().step.map(|step| Step { special, ..step });
    assert_eq!(told(sequence(step, None), Evidence::Overtaken), "valid step 2/2 END value 7 with id-0");
}

/// What a file has of a violation is the violation.
#[test]
fn a_violation_is_read_back_as_it_was_written() {
    for (kind, evidence) in all() {
        let explanations = vec![Explanation::new(Cause::Unexplained, clues())];
        let violation = Violation { explanations, ..Violation::at(place(), kind, 5, evidence) };
        let written = serde_json::to_string(&violation).expect("JSON");
        let read: Violation = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
        assert_eq!(serde_json::to_string(&read).expect("JSON"), written);
        assert_eq!(describe(&read), describe(&violation));
    }
}
