//! A preflight without a server, and every sentence of the preflight in each of its variants.

use super::serving::some_of;
use super::*;
use workload::{
    answers::Answers,
    arithmetic::Arithmetic,
    model::{Batching, ChainStep, Link},
    number::Number,
    scenario::{Overrides, Source},
    sequence::CorrelationId,
};

/// The scenario of a file with this text.
pub(crate) fn scenario(text: &str) -> Scenario {
    Scenario::resolve(&Source::from_text("test", text), Overrides::default())
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn tensor(name: &str, datatype: &str, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: name.to_owned(), datatype: datatype.to_owned(), shape: shape.to_owned() }
}

/// The preflight of an endpoint that has no configuration of its model.
pub(crate) fn told(scenario: &Scenario, told: Hints) -> Preflight {
    let mut notes = Vec::new();
    let known = configured("m", None, told, &mut notes).expect("a model");
    let (input, output) = (tensor("INPUT", "INT32", &[-1, 1]), tensor("OUTPUT", "INT32", &[-1, 1]));
    let shape = Shape::common(&input, &output, true).expect("a shape");
    let computes = arithmetic("m", None, (Datatype::Int32, &shape), scenario, &mut { told }, &mut notes);
    let model = Model { input, output, shape, arithmetic: computes.expect("an arithmetic"), ..known };
    Preflight {
        limits: RunLimits::new(scenario, &model),
        model,
        parts: Vec::new(),
        has_statistics: false,
        told,
        configuration: None,
        golden: None,
        identity: None,
        notes,
    }
}

fn settings(parameters: &[(&str, &str)]) -> Settings {
    Settings {
        strategy: Some(Strategy::Oldest),
        slots: 1,
        idle_limit: Duration::from_secs(1),
        batching: Batching::default(),
        queue_delay: Duration::ZERO,
        implicit_state: false,
        keeps_count: false,
        told_ids: ToldIds::None,
        told: Told::default(),
        batches: true,
        decoupled: false,
        iterative: false,
        parameters: parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        chain: None,
    }
}

/// What the command line can tell.
const HINTS: Hints = Hints {
    slots: Some(1),
    idle_limit: Some(Duration::from_secs(1)),
    strategy: Some(Strategy::Direct),
    formula: Some(Formula::RunningSum),
    initial_state: Some(1),
    responses: Some(1),
};

/// What the run will do otherwise than asked, and what it cannot check.
fn every_note() -> Vec<String> {
    let plain = scenario("");
    let mut notes = told(&plain, Hints::default()).notes;
    let hinted = |hints| told(&plain, hints).model;
    let mut unused = configured("m", Some(&settings(&[])), HINTS, &mut notes);
    notes.extend(unused.as_mut().err().cloned().map(Note::from));
    let called = ChainStep { model: "c".to_owned(), settings: settings(&[]), tells: true };
    let calling = |slots| Settings { slots, ..settings(&[]) }.with_steps(Link::Call, std::slice::from_ref(&called));
    for slots in [1, 8] {
        let _ = configured("m", Some(&calling(slots)), Hints::default(), &mut notes);
    }
    let one = Shape::common(&tensor("", "FP32", &[1]), &tensor("", "FP32", &[1]), false).expect("a shape");
    let all = [
        (Formula::PARAMETER, "ready-times-input-plus-start"),
        (Arithmetic::INITIAL_STATE, "5"),
        (Answers::RESPONSES, "2"),
    ];
    let decoupled = Settings { decoupled: true, ..settings(&all) };
    let extreme = scenario("values.uniform = { min = -2147483648, max = 2147483647 }");
    let _ = arithmetic("m", Some(&decoupled), (Datatype::Fp32, &one), &extreme, &mut { HINTS }, &mut notes);
    for count in ["1", "2"] {
        for (decoupled, iterative) in [(true, false), (false, true)] {
            let parameters = [(Answers::RESPONSES, count), (Answers::ITERATIONS, count)];
            let its = Settings { decoupled, iterative, ..settings(&parameters) };
            let its = arithmetic("m", Some(&its), (Datatype::Int32, &one), &plain, &mut Hints::default(), &mut notes);
            notes.extend(its.err().map(Note::from));
        }
    }
    let output = |name: &str, size| tensor(name, controls::DATATYPE, &[-1, size]);
    let size = i64::try_from(controls::ELEMENTS).expect("there are few");
    let outputs = [output("SEEN", size), output("SHORT", 1)];
    let mut of_controls = |parameters: &[(&str, &str)], told| {
        let its = Settings { told, ..settings(parameters) };
        let _ = controls(&its, &plain, &outputs, &mut notes);
    };
    of_controls(&[], Told::default());
    for name in ["SHORT", "NONE", "SEEN"] {
        of_controls(&[(controls::PARAMETER, name)], Told::default());
    }
    let but_start = Told { start: false, end: true, ready: true, corrid_bits: Some(32) };
    for told in [but_start, Told { end: false, ..but_start }] {
        of_controls(&[(controls::PARAMETER, "SEEN")], told);
    }
    for patterns in ["half-close = 1", "half-close = 1, stop-reading = 1"] {
        let text = format!("sending.transport = 'http'\npatterns.common = {{ valid = 1, {patterns} }}");
        // A file that says so is rejected; a flag is not.
        let mut its = scenario(&text.replace("'http'", "'grpc-stream'"));
        its.populations[0].sending.transport = Some(Transport::Http);
        notes.extend(calls(&its));
    }
    for strategy in [None, Some(Strategy::Oldest)] {
        notes.extend(sends_after_answers(&plain, &hinted(Hints { strategy, ..Hints::default() })));
    }
    notes.iter().map(ToString::to_string).collect()
}

/// Why a model cannot be tested.
fn every_error() -> Vec<String> {
    let plain = scenario("");
    let int32 = |name: &str| tensor(name, "INT32", &[-1, 1]);
    let tensors = |inputs: &[TensorSpec], outputs: &[TensorSpec]| {
        let declared = Declared { inputs: inputs.to_vec(), outputs: outputs.to_vec(), versions: Vec::new() };
        choose_tensors("m", &declared, true).err()
    };
    let mut errors = vec![
        tensors(&[], &[]),
        tensors(&[int32("A"), int32("B")], &[int32("OUTPUT")]),
        tensors(&[tensor("INPUT", "BF16", &[1])], &[tensor("OUTPUT", "BF16", &[1])]),
        configured("m", Some(&Settings { strategy: None, ..settings(&[]) }), HINTS, &mut Vec::new()).err(),
    ];
    let shape = |size| {
        let its = tensor("INPUT", "INT32", &[size]);
        Shape::common(&its, &its, false).expect("a shape")
    };
    let elements = scenario("values.elements = { min = 3, max = 1024 }");
    for sizes in [&[1][..], &[2], &[2, -1]] {
        let input = tensor("INPUT", "INT32", sizes);
        let shape = Shape::common(&input, &input, false).expect("a shape");
        errors.push(check_elements("m", &input, &shape, &elements).err());
    }
    let computes = |its: Settings, datatype, text: &str| {
        let (its, mut notes) = ((&its, scenario(text)), Vec::new());
        arithmetic("m", Some(its.0), (datatype, &shape(1)), &its.1, &mut Hints::default(), &mut notes).err()
    };
    errors.push(computes(settings(&[(Formula::PARAMETER, "square")]), Datatype::Int32, ""));
    errors.push(computes(settings(&[(Arithmetic::INITIAL_STATE, "one")]), Datatype::Int32, ""));
    for (parameter, decoupled, iterative) in [(Answers::RESPONSES, true, false), (Answers::ITERATIONS, false, true)] {
        errors.push(computes(Settings { decoupled, iterative, ..settings(&[(parameter, "0")]) }, Datatype::Int32, ""));
    }
    let corrid = [(Formula::PARAMETER, "running-sum-plus-corrid-at-end")];
    errors.push(computes(settings(&corrid), Datatype::Int32, "correlation_ids.form = 'text'"));
    let mut over = plain.clone();
    over.populations[0].sending.transport = Some(Transport::Http);
    errors.push(check_answers("m", Answers::Several(2), &over).err());
    errors.push(check_answers("m", Answers::LastOf(2), &plain).err());
    let bits = |arithmetic, text: &str| value_bits("m", &arithmetic, &shape(1), &scenario(text)).err();
    let fp16 = Arithmetic { datatype: Datatype::Fp16, ..Arithmetic::default() };
    errors.push(bits(Arithmetic { initial_state: 1 << 20, ..fp16 }, ""));
    errors.push(bits(Arithmetic { formula: Formula::RunningSumPlusCorrid, ..fp16 }, "correlation_ids.first = 5000"));
    errors.push(bits(fp16, "length.max = 1000000"));
    errors.push(check_json("m", Datatype::Fp16, &over).err());
    let mut mixed = scenario("patterns.common = { valid = 1, mixed-transports = 1 }");
    mixed.target.endpoint = "grpc://localhost:1,http://localhost:2".parse().expect("endpoints");
    errors.push(check_json("m", Datatype::Fp16, &mixed).err());
    for told_ids in [ToldIds::None, ToldIds::Integers, ToldIds::Texts] {
        for form in ["integer", "text", "one-bit"] {
            let its = scenario(&format!("correlation_ids.form = '{form}'"));
            let mut preflight = told(&its, Hints::default());
            preflight.model.told_ids = told_ids;
            errors.push(preflight.cannot_be_sent(&its));
        }
    }
    let answers = [1, 2, 3].map(Number::from);
    let id = CorrelationId(std::num::NonZeroU64::MIN);
    errors.push(Some(told(&plain, Hints::default()).computes_something_else(id, &answers)));
    let names: Vec<_> = (1..=13).map(|number| format!("model_{number}")).collect();
    let has = [1, 12, 13].map(|count| Some(format!("it has {}", some_of(&names[..count], "model_9"))));
    errors.extend(has);
    errors.into_iter().flatten().collect()
}

/// Every sentence, a line each, by what it is about.
pub(crate) fn every_message() -> [(&'static str, Vec<String>); 2] {
    let lines = |sentences: Vec<String>| sentences.into_iter().map(|sentence| sentence + "\n").collect();
    [("notes before the run", lines(every_note())), ("why nothing can be tested", lines(every_error()))]
}

/// Every note that there may be of a part.
pub(crate) fn every_part_note() -> Vec<Note> {
    let why = || "WHY".to_owned();
    let missing = [CallError::Unimplemented, CallError::Restricted(why())];
    let others = [
        CallError::Unreachable(why()),
        CallError::TimedOut(Duration::from_secs(5)),
        CallError::NotSecured(why()),
        CallError::NotThisProtocol("gRPC (WHY)".to_owned()),
        CallError::Rejected(why()),
        CallError::TooLarge(4096),
        CallError::NoEndpoint("HTTP"),
    ];
    // Without these the run goes on only where they are missing.
    let parts = [Wanted::Health, Wanted::Metadata, Wanted::Configuration, Wanted::Statistics];
    let notes = parts.iter().flat_map(|part| missing.iter().map(|error| note(*part, error)));
    notes.chain(others.iter().map(|error| note(Wanted::Statistics, error))).collect()
}
