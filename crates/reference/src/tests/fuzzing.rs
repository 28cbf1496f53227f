//! What fuzzing feeds with bytes, and the tests with what fuzzing found.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use prost::Message as _;
use tonic::Status;

use super::{
    builtin::configs,
    decode::decode,
    execution::{self, Ticket},
    fault::Faults,
    http,
    number::Number,
    pbtxt,
    repository::read_config,
    scheduler::{Event, Moment, Request, Scheduler},
    spec::{Files, Spec, TensorSpec},
    tensor::{Tensor, texts},
};
use models::ModelOptions;
use wire::proto::{
    InferParameter, ModelInferRequest, infer_parameter::ParameterChoice, model_infer_request::InferInputTensor,
};

/// A model with two sizes of its own that are not fixed, which none of the built-in ones has.
const MATRIX: &str = r#"{"input": [{"name": "INPUT", "data_type": "TYPE_INT32", "dims": [-1, -1]}],
    "output": [{"name": "OUTPUT", "data_type": "TYPE_INT32", "dims": [-1, -1]}], "sequence_batching": {}}"#;

/// Elements of an input with which an accepted configuration is still tried out.
const ELEMENTS_MAX: i64 = 4096;

/// Looks often enough for everything to be executed; then all time limits have passed.
const LOOKS: usize = 100;
const ALL_LIMITS: Duration = Duration::from_micros(u64::MAX).saturating_mul(4);

/// The built-in models, and one more.
static SPECS: LazyLock<Vec<Spec>> = LazyLock::new(|| {
    let matrix = read_config("matrix", MATRIX).expect("it is right");
    let all = configs(&ModelOptions::default()).into_iter().chain([matrix]);
    all.map(|config| Spec::new(config, &Files::new()).expect("it is right")).collect()
});

/// Reads bytes as a request to each of some models; returns how many of them take it.
///
/// # Panics
/// When what was taken is not consistent, besides where the server itself would.
pub fn request(bytes: &[u8]) -> usize {
    let Ok(request) = ModelInferRequest::decode(bytes) else { return 0 };
    let take = |spec| read(request.clone(), spec).inspect(|decoded| check(decoded, spec)).is_ok();
    SPECS.iter().map(take).filter(|is_taken| *is_taken).count()
}

fn read(request: ModelInferRequest, spec: &Spec) -> Result<Request<Ticket<()>>, Status> {
    decode(request, spec, Arc::default(), ())
}

fn check(decoded: &Request<Ticket<()>>, spec: &Spec) {
    let inputs = &decoded.payload.inputs;
    let required = spec.inputs.iter().filter(|declared| !declared.is_optional).count();
    assert!((required..=spec.inputs.len()).contains(&inputs.len()), "{} inputs", inputs.len());
    assert!(inputs.iter().flat_map(|(_, tensor)| &tensor.shape).eq(&*decoded.shape));
    for (name, tensor) in inputs {
        let declared = spec.inputs.iter().find(|declared| declared.name == *name).expect("it is declared");
        check_tensor(tensor, declared, decoded, spec);
    }
}

fn check_tensor(tensor: &Tensor, declared: &TensorSpec, decoded: &Request<Ticket<()>>, spec: &Spec) {
    let (batch, own) = tensor.shape.split_at(usize::from(spec.batches()));
    if let [batch] = batch {
        assert_eq!(batch.to_le_bytes()[..4], decoded.batch_size.to_le_bytes(), "{tensor:?}");
        assert!(decoded.batch_size.cast_signed() <= spec.config.max_batch_size, "{tensor:?}");
    } else {
        assert_eq!(decoded.batch_size, 1);
    }
    assert!(own.iter().all(|size| *size >= 0), "{tensor:?}");
    let elements = own.iter().fold(i128::from(decoded.batch_size.max(1)), |product, size| {
        product.checked_mul((*size).into()).expect("the data has a length")
    });
    assert_eq!(tensor.datatype, declared.datatype);
    let size = tensor.datatype.size().unwrap_or(1);
    let count = tensor.datatype.size().map_or_else(|| texts(&tensor.data).count(), |size| tensor.data.len() / size);
    assert_eq!((i128::try_from(count), tensor.data.len() % size), (Ok(elements), 0), "{:?}", tensor.shape);
}

/// Reads bytes as the body of a request over HTTP, of which so many are JSON where that is told; returns how many of some models take
/// it.
///
/// # Panics
/// When what was taken is not consistent, besides where the server itself would.
pub fn http_body(length: Option<&str>, body: &[u8]) -> usize {
    let take = |spec: &&Spec| {
        let Some(request) = http::request("model", length, body, spec) else { return false };
        // Each input has its bytes, so that none can have another's.
        assert_eq!(request.inputs.len(), request.raw_input_contents.len());
        assert!(request.inputs.iter().all(|input| input.contents.is_none()));
        read(request, spec).inspect(|decoded| check(decoded, spec)).is_ok()
    };
    SPECS.iter().filter(take).count()
}

/// Reads a text as a model's configuration; a model that can be made of it has to serve.
///
/// # Panics
/// When it does not, besides where the server itself would.
pub fn config(json: &str) -> bool {
    let Ok(config) = read_config("model", json) else { return false };
    let Ok(spec) = Spec::new(config, &Files::new()) else { return false };
    serve(&Arc::new(spec));
    true
}

/// Reads a text as a `config.pbtxt`; a model that can be made of it has to serve.
///
/// # Panics
/// When it does not, besides where the server itself would, or where what is left out has no place in the text.
pub fn pbtxt(text: &str) -> bool {
    let Ok((mut config, unknown)) = pbtxt::read(text) else { return false };
    assert!(unknown.iter().all(|remark| (1..=text.split('\n').count()).contains(&remark.line)), "{unknown:?}");
    "model".clone_into(&mut config.name);
    let Ok(spec) = Spec::new(config, &Files::new()) else { return false };
    serve(&Arc::new(spec));
    true
}

/// Has a model serve three sequences, of which one does not end.
fn serve(spec: &Arc<Spec>) {
    let faults = Arc::new(Faults::default());
    let mut scheduler = Scheduler::new(spec.settings.clone(), Arc::clone(&faults));
    let mut instances = HashMap::new();
    let steps =
        [(1, true, false), (2, true, false), (1, false, false), (3, true, false), (2, false, true), (1, false, true)];
    let mut waiting = 0;
    for (id, start, end) in steps {
        let Some(request) = step(spec, id, start, end) else { return };
        assert!(scheduler.enqueue(request, Moment::ZERO).is_ok());
        waiting += 1;
    }
    let mut now = Moment::ZERO;
    for look in 0..2 * LOOKS {
        let mut events = Vec::new();
        scheduler.advance(now, &mut events);
        for event in events {
            let Event::Execute { instance, batch } = event else { panic!("a request is rejected") };
            let requests = batch.iter().filter(|row| row.request.is_some()).count();
            let new = || execution::Instance::new(0, Arc::clone(spec), Arc::clone(&faults));
            let executed = instances.entry(instance).or_insert_with(new).execute(batch);
            assert_eq!(executed.len(), requests);
            waiting -= executed.len();
            scheduler.finished(instance);
        }
        if waiting == 0 && scheduler.live() == 0 {
            return;
        }
        let Some(wake) = scheduler.next_wake() else { continue };
        assert!(Instant::now().checked_add(wake).is_some(), "the clock does not go to {wake:?}");
        now = now.max(wake).max(if look < LOOKS { Moment::ZERO } else { ALL_LIMITS });
    }
    panic!("{waiting} requests wait, {} sequences live, {:?}", scheduler.live(), spec.config);
}

/// A step that the model takes; none where that would be large.
fn step(spec: &Spec, id: i64, start: bool, end: bool) -> Option<Request<Ticket<()>>> {
    let (inputs, raw_input_contents) = spec.inputs.iter().map(|input| input_of(input, spec)).collect::<Option<_>>()?;
    let parameters = [
        ("sequence_id", ParameterChoice::Int64Param(id)),
        ("sequence_start", ParameterChoice::BoolParam(start)),
        ("sequence_end", ParameterChoice::BoolParam(end)),
    ];
    let parameter = |(name, choice): (&str, _)| (name.to_owned(), InferParameter { parameter_choice: Some(choice) });
    let request = ModelInferRequest {
        model_name: spec.config.name.clone(),
        parameters: parameters.map(parameter).into(),
        inputs,
        raw_input_contents,
        ..Default::default()
    };
    Some(read(request, spec).expect("a right request is taken"))
}

/// An input of ones, and its bytes; none where it would be large.
fn input_of(input: &TensorSpec, spec: &Spec) -> Option<(InferInputTensor, Vec<u8>)> {
    let shape: Vec<_> = spec.shape(-1, &input.dims).into_iter().map(i64::abs).collect();
    let elements = shape.iter().try_fold(1_i64, |product, size| product.checked_mul(*size));
    let elements = elements.filter(|elements| *elements <= ELEMENTS_MAX)?;
    let one = Number::of_bits(input.datatype, 1).map(Number::to_le_bytes);
    let one = one.unwrap_or_else(|| vec![1; input.datatype.size().unwrap_or_default()]);
    let (name, datatype) = (input.name.to_string(), input.datatype.name().to_owned());
    let tensor = InferInputTensor { name, datatype, shape, ..Default::default() };
    Some((tensor, one.repeat(usize::try_from(elements).expect("it is small"))))
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::rounds::rounds;
    use workload::seed::Seed;

    fn valid(shape: &[i64], data: Vec<u8>) -> ModelInferRequest {
        let parameters = [
            ("sequence_id", ParameterChoice::Int64Param(7)),
            ("sequence_start", ParameterChoice::BoolParam(true)),
            ("timeout", ParameterChoice::Int64Param(1_000_000)),
        ];
        let parameter =
            |(name, choice): (&str, _)| (name.to_owned(), InferParameter { parameter_choice: Some(choice) });
        ModelInferRequest {
            model_name: "model".to_owned(),
            id: "1-2-3".to_owned(),
            parameters: parameters.map(parameter).into(),
            inputs: vec![InferInputTensor {
                name: "INPUT".to_owned(),
                datatype: "INT32".to_owned(),
                shape: shape.to_vec(),
                ..Default::default()
            }],
            raw_input_contents: vec![data],
            ..Default::default()
        }
    }

    fn takers(shape: &[i64], bytes: usize) -> usize {
        request(&valid(shape, vec![0; bytes]).encode_to_vec())
    }

    #[test]
    fn sizes_whose_product_does_not_fit_are_rejected() {
        assert_eq!((takers(&[1, 1], 4), takers(&[1], 4), takers(&[2, 3], 24)), (53, 6, 39));
        for shape in [&[1, 1 << 62][..], &[1 << 62], &[1, 1 << 32, 1 << 32], &[1, i64::MAX, i64::MAX], &[i64::MIN]] {
            assert_eq!((takers(shape, 0), takers(shape, 4)), (0, 0), "{shape:?}");
        }
        for shape in [&[1, -2, -2][..], &[-2, -2], &[1, -4, 1 << 62]] {
            assert_eq!((takers(shape, 16), takers(shape, 0)), (0, 0), "{shape:?}");
        }
    }

    #[test]
    fn inputs_of_one_request_have_one_batch_size() {
        let spec = SPECS.iter().find(|spec| spec.config.name == "any_tensors").expect("it is built in");
        let mut request = valid(&[], Vec::new());
        let inputs = spec.inputs.iter().map(|input| input_of(input, spec)).collect::<Option<_>>();
        (request.inputs, request.raw_input_contents) = inputs.expect("they are small");
        assert!(read(request.clone(), spec).is_ok());
        request.inputs[2].shape[0] = 2;
        let rejection = read(request, spec).map(|_| ()).expect_err("it is rejected");
        let expected = "[request id: 1-2-3] input 'INPUT_INT16' batch size does not match other inputs for 'model'";
        assert_eq!(rejection.message(), expected);
    }

    /// One mutation of a kind that finds its way into a message: a bit, a byte, a part that is lost, doubled or large.
    fn mutate(bytes: &mut Vec<u8>, random: &mut ChaCha8Rng) {
        let at = random.random_range(0..bytes.len());
        let until = random.random_range(at..bytes.len().min(at + 12)) + 1;
        match random.random_range(0..6) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 if bytes.len() > 16 => _ = bytes.drain(at..until),
            3 => bytes.splice(at..at, bytes[at..until].to_vec()).for_each(drop),
            4 => bytes.splice(at..until, [0xff; 9].into_iter().chain([1])).for_each(drop),
            _ => bytes.splice(at..at, [0x80, 0x80, 0x80, 0x80, 0x10]).for_each(drop),
        }
    }

    #[test]
    fn mutated_requests_do_no_harm() {
        // Parameter by parameter, because the order of a map differs from run to run.
        let mut request_parts = valid(&[1, 1], vec![1, 0, 0, 0]);
        let mut parameters: Vec<_> = std::mem::take(&mut request_parts.parameters).into_iter().collect();
        parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
        let part = |parameter| ModelInferRequest { parameters: [parameter].into(), ..Default::default() };
        let mut whole = request_parts.encode_to_vec();
        whole.extend(parameters.into_iter().flat_map(|parameter| part(parameter).encode_to_vec()));
        assert_eq!(request(&whole), 53);
        let mut random = Seed(42).generator(0);
        let (mut taken, mut rejected) = (0, 0);
        for _ in 0..5000 {
            let mut bytes = whole.clone();
            for _ in 0..random.random_range(1..4) {
                mutate(&mut bytes, &mut random);
            }
            *(if request(&bytes) > 0 { &mut taken } else { &mut rejected }) += 1;
        }
        assert!(taken > 200 && rejected > 2000, "{taken} {rejected}");
    }

    #[test]
    fn mutated_bodies_do_no_harm() {
        const JSON: &[u8] = br#"{"id":"1-2","parameters":{"sequence_id":7,"sequence_start":true,"timeout":9,"x":1.5e3},"inputs":[{"name":"INPUT","datatype":"INT32","shape":[1,1],"data":[[-1]]}],"outputs":[{"name":"OUTPUT","parameters":{"binary_data":false}}]}"#;
        assert!(http_body(None, JSON) > 0);
        // The gate makes each of the six mutations some 200 times. The seed is fixed; the long form and the fuzz target
        // `http_bytes` try other bodies.
        let bodies = rounds(800, 5000);
        let mut random = Seed(43).generator(0);
        let (mut taken, mut rejected) = (0, 0);
        for _ in 0..bodies {
            let mut bytes = JSON.to_vec();
            for _ in 0..random.random_range(1..3) {
                mutate(&mut bytes, &mut random);
            }
            *(if http_body(None, &bytes) > 0 { &mut taken } else { &mut rejected }) += 1;
            let length = random.random_range(-2..300).to_string();
            let _ = http_body(Some(&length), &bytes);
        }
        assert!(taken > bodies / 25 && rejected > bodies * 2 / 5, "{taken} {rejected}");
    }

    /// A configuration with this in its `sequence_batching`, and this besides.
    fn json(batching: &str, besides: &str) -> String {
        format!(
            r#"{{"max_batch_size": 4, "sequence_batching": {{{batching}}},
                "input": [{{"name": "INPUT", "data_type": "TYPE_INT32", "dims": [1]}}],
                "output": [{{"name": "OUTPUT", "data_type": "TYPE_INT32", "dims": [1]}}]{besides}}}"#
        )
    }

    fn problem(json: &str) -> String {
        let config = read_config("model", json).expect("it can be read");
        Spec::new(config, &Files::new()).map(|_| ()).expect_err("it asks for too much")
    }

    #[test]
    fn what_a_model_cannot_have_is_rejected() {
        let oldest = |with: &str| json(&format!(r#""oldest": {{{with}}}"#), "");
        let direct = |with: &str| json(&format!(r#""direct": {{{with}}}"#), "");
        let state = |dims: &str| {
            let state = r#""input_name": "I", "output_name": "O", "data_type": "TYPE_INT32""#;
            json(&format!(r#""state": [{{{state}, "dims": [{dims}]}}]"#), "")
        };
        let group = |count: &str| json("", &format!(r#", "instance_group": [{{"count": {count}}}, {{"count": 1}}]"#));
        let delay =
            |text: &str| json("", &format!(r#", "parameters": {{"execute_delay_ms": {{"string_value": "{text}"}}}}"#));
        for (json, said) in [
            (group("1024"), "1025 instances are too many, at most 1024 are served"),
            (group("2147483647"), "2147483648 instances are too many"),
            (json("", r#", "max_batch_size": 65537"#), "65537 slots are too many, at most 65536 are served"),
            (oldest(r#""max_candidate_sequences": 2147483647"#), "2147483647 slots are too many"),
            (oldest(r#""max_candidate_sequences": -1"#), "max_candidate_sequences is negative"),
            (oldest(r#""preferred_batch_size": [2, 0]"#), "preferred batch size must be positive for model"),
            (oldest(r#""preferred_batch_size": [5]"#), "preferred batch size must be <= max batch size for model"),
            (direct(r#""minimum_slot_utilization": "NaN""#), "must be in range (0.0, 1.0] for model"),
            (direct(r#""minimum_slot_utilization": 1.5"#), "must be in range (0.0, 1.0] for model"),
            (state("4194305"), "its implicit state is too large"),
            (state("4294967296, 4294967296"), "its implicit state is too large"),
            (delay("nan"), "'nan' is no time in ms"),
            (delay("1e300"), "'1e300' is no time in ms"),
            (delay("-1"), "'-1' is no time in ms"),
        ] {
            assert!(problem(&json).contains(said), "{json}: {}", problem(&json));
            assert!(!config(&json));
        }
    }

    #[test]
    fn mutated_configurations_do_no_harm() {
        let text = r#"name: "m" max_batch_size: 4 # a comment
            input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
            output { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 } odd: [ { a: "}" } ]
            sequence_batching { control_input [ { name: "START" control [
              { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0.5, -1 ] } ] } ] }
            parameters { key: "k" value: { string_value: 'v' "w" } } "#;
        assert!(pbtxt(text));
        let mut random = Seed(43).generator(0);
        let (mut taken, mut rejected) = (0, 0);
        for _ in 0..1000 {
            let mut bytes = text.as_bytes().to_vec();
            mutate(&mut bytes, &mut random);
            *(if pbtxt(&String::from_utf8_lossy(&bytes)) { &mut taken } else { &mut rejected }) += 1;
        }
        assert!(taken > 50 && rejected > 200, "{taken} {rejected}");
    }

    #[test]
    fn the_most_that_a_model_can_have_is_served() {
        let far = u64::MAX;
        for json in [
            json(r#""max_sequence_idle_microseconds": 0"#, ""),
            json(r#""max_sequence_idle_microseconds": 1"#, ""),
            json(&format!(r#""max_sequence_idle_microseconds": {far}"#), ""),
            json(&format!(r#""direct": {{"max_queue_delay_microseconds": {far}, "minimum_slot_utilization": 1}}"#), ""),
            json(&format!(r#""oldest": {{"max_queue_delay_microseconds": {far}}}"#), ""),
            json(
                &format!(r#""max_sequence_idle_microseconds": 1, "oldest": {{"max_queue_delay_microseconds": {far}}}"#),
                "",
            ),
            json("", r#", "max_batch_size": 64, "instance_group": [{"count": 1024}]"#),
            json("", r#", "max_batch_size": 0"#),
        ] {
            assert!(config(&json), "{json}");
        }
    }
}
