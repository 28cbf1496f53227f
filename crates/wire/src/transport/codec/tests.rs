//! Steps on the wire, and what is read of it.

use std::num::{NonZeroU16, NonZeroU64};

use super::{super::template::parameter, *};
use crate::proto::{
    ModelInferRequest, infer_parameter::ParameterChoice, model_infer_request::InferInputTensor,
    model_infer_request::InferRequestedOutputTensor,
};
use workload::{
    arithmetic::Arithmetic,
    controls::{Controls, Told},
    model::Model,
    number::{Datatype, Number},
    sequence::{CorrelationId, Flaw, IdForm, Pattern, RequestId, Special, WireId},
    tensor::TensorSpec,
};

/// A model that adds up numbers of this type.
fn model(datatype: Datatype, shape: Vec<i64>) -> Model {
    let tensor = |name: &str| TensorSpec { name: name.to_owned(), ..TensorSpec::default() };
    let (input, output) = (tensor("INPUT"), tensor("OUTPUT"));
    let arithmetic = Arithmetic { datatype, ..Arithmetic::default() };
    Model { name: "m".to_owned(), input, output, shape: shape.into(), arithmetic, ..Model::default() }
}

#[test]
fn an_encoded_step_is_the_request_that_the_generated_code_reads() {
    let id = CorrelationId(NonZeroU64::new(u64::MAX - 1).expect("not zero"));
    let seen = Controls { output: "SEEN".to_owned(), shape: vec![1, 5], told: Told::default(), slots: None };
    let model = Model { name: "a_model".to_owned(), controls: Some(seen), ..model(Datatype::Int32, vec![1, 1]) };
    let template = RequestTemplate::of(&model, id.on_the_wire(IdForm::Integer));
    let mut encoder = StepCodec::of_streams(template).encoder();
    for (start, end) in [(true, false), (false, false), (false, true), (true, true)] {
        let request = RequestId { worker: u32::MAX, context: u32::MAX, sequence: u32::MAX, step: u32::MAX };
        let step = Step { request, pattern: Pattern::Valid, start, end, value: (-5).into(), of: 3, special: None };
        let mut bytes = Vec::new();
        encoder.put(&step, &mut bytes);
        let expected = ModelInferRequest {
            model_name: "a_model".into(),
            id: "4294967295-4294967295-4294967295-4294967295".into(),
            parameters: [
                parameter("sequence_id", ParameterChoice::Int64Param(-2)),
                parameter("sequence_start", ParameterChoice::BoolParam(start)),
                parameter("sequence_end", ParameterChoice::BoolParam(end)),
            ]
            .into(),
            inputs: vec![InferInputTensor {
                name: "INPUT".into(),
                datatype: "INT32".into(),
                shape: vec![1, 1],
                ..Default::default()
            }],
            outputs: ["OUTPUT", "SEEN"]
                .map(|name| InferRequestedOutputTensor { name: name.into(), ..Default::default() })
                .into(),
            raw_input_contents: vec![vec![0xfb, 0xff, 0xff, 0xff]],
            ..Default::default()
        };
        assert_eq!(ModelInferRequest::decode(bytes.as_slice()).expect("a request"), expected);
    }
}

/// What a step is on the wire, and what it would be without what sets it apart.
fn with_and_without(special: Special) -> (ModelInferRequest, ModelInferRequest) {
    let id = WireId::Text("seven".into());
    let template = RequestTemplate::of(&model(Datatype::Int32, vec![1, 1]), id);
    let mut encoder = StepCodec::of_streams(template).encoder();
    let request = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };
    let step =
        Step { request, pattern: Pattern::Valid, start: true, end: false, value: 5.into(), of: 6, special: None };
    let mut read = |step: Step| {
        let mut bytes = Vec::new();
        encoder.put(&step, &mut bytes);
        ModelInferRequest::decode(bytes.as_slice()).expect("a request")
    };
    (read(Step { special: Some(special), ..step }), read(step))
}

#[test]
fn each_flaw_makes_a_request_of_its_own_and_a_timeout_adds_a_parameter() {
    let mut seen = Vec::new();
    for flaw in Flaw::ALL {
        let (with, without) = with_and_without(Special::Flaw(flaw));
        assert_eq!((&with.id, &with.model_name), (&without.id, &without.model_name), "{flaw}");
        assert!(with != without && !seen.contains(&with), "{flaw}: {with:?}");
        seen.push(with);
    }
    let (mut with, without) = with_and_without(Special::TimeoutUs(20));
    let timeout = with.parameters.remove("timeout").and_then(|parameter| parameter.parameter_choice);
    assert_eq!((timeout, with), (Some(ParameterChoice::Int64Param(20)), without));
}

#[test]
fn answers_are_read_in_both_encodings_and_errors_with_their_request() {
    use crate::proto::model_infer_response::InferOutputTensor;
    let output =
        InferOutputTensor { name: "OUTPUT".into(), datatype: "INT32".into(), shape: vec![1, 1], ..Default::default() };
    let response = ModelInferResponse {
        model_name: "m".into(),
        id: "0-1-2".into(),
        outputs: vec![output.clone()],
        ..Default::default()
    };
    let sum_of = |response: ModelInferResponse| {
        let message = ModelStreamInferResponse { infer_response: Some(response), ..Default::default() };
        received(message).received.result.expect("a response").outputs[0].data.alike(Datatype::Int32, 1)
    };
    assert_eq!(
        sum_of(ModelInferResponse { raw_output_contents: vec![vec![1, 1, 0, 0]], ..response.clone() }),
        Some(Ok(257.into()))
    );
    assert_eq!(sum_of(ModelInferResponse { raw_output_contents: vec![vec![1, 1, 0]], ..response.clone() }), None);
    let contents = Some(InferTensorContents { int_contents: vec![-7], ..Default::default() });
    assert_eq!(
        sum_of(ModelInferResponse { outputs: vec![InferOutputTensor { contents, ..output }], ..response.clone() }),
        Some(Ok((-7).into()))
    );
    assert_eq!(sum_of(response.clone()), None);

    let error = ModelStreamInferResponse { error_message: "no".into(), infer_response: Some(response) };
    assert_eq!(
        received(error).received,
        Received { id: "0-1-2".into(), result: Err("no".into()), code: None, outputs: 1 }
    );
    let bare = ModelStreamInferResponse { error_message: "no".into(), infer_response: None };
    assert_eq!(
        received(bare).received,
        Received { id: String::new(), result: Err("no".into()), code: None, outputs: 0 }
    );
}

#[test]
fn numbers_of_every_type_go_out_as_they_are_and_come_back_in_both_encodings() {
    use crate::proto::model_infer_response::InferOutputTensor;
    let id = || WireId::Number(7);
    for datatype in Datatype::of_the_protocol() {
        let value = datatype.number(-5);
        let template = RequestTemplate::of(&model(datatype, vec![1, 1]), id());
        let request = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };
        let step = Step { request, pattern: Pattern::Valid, start: true, end: false, value, of: 6, special: None };
        let mut bytes = Vec::new();
        StepCodec::of_streams(template).encoder().put(&step, &mut bytes);
        let request = ModelInferRequest::decode(bytes.as_slice()).expect("a request");
        assert_eq!(request.inputs[0].datatype, datatype.name());
        assert_eq!(request.raw_input_contents, [value.to_bytes()]);

        let mut contents = InferTensorContents::default();
        match datatype {
            Datatype::Int8 | Datatype::Int16 | Datatype::Int32 => contents.int_contents = vec![-5],
            Datatype::Int64 => contents.int64_contents = vec![-5],
            Datatype::Uint8 => contents.uint_contents = vec![251],
            Datatype::Uint16 => contents.uint_contents = vec![65531],
            Datatype::Uint32 => contents.uint_contents = vec![u32::MAX - 4],
            Datatype::Uint64 => contents.uint64_contents = vec![u64::MAX - 4],
            // There is no list for it.
            Datatype::Fp16 => {}
            Datatype::Fp32 => contents.fp32_contents = vec![-5.0],
            Datatype::Fp64 => contents.fp64_contents = vec![-5.0],
            Datatype::Bytes => contents.bytes_contents = vec![b"-5".to_vec()],
            Datatype::State => unreachable!("it is none of the protocol"),
        }
        let output = |contents| InferOutputTensor { datatype: datatype.name().into(), contents, ..Default::default() };
        let raw = ModelInferResponse {
            outputs: vec![output(None)],
            raw_output_contents: vec![value.to_bytes()],
            ..Default::default()
        };
        let typed = ModelInferResponse { outputs: vec![output(Some(contents))], ..Default::default() };
        let in_list = Some(Ok(value)).filter(|_| datatype != Datatype::Fp16);
        for (response, expected) in [(raw, Some(Ok(value))), (typed, in_list)] {
            let message = ModelStreamInferResponse { infer_response: Some(response), ..Default::default() };
            let received = received(message).received.result.expect("a response");
            assert_eq!(received.outputs[0].data.alike(datatype, 1), expected, "{datatype}");
        }
    }
}

#[test]
fn elements_in_a_list_that_their_type_does_not_have_are_none() {
    let ints = |int_contents: &[i32]| InferTensorContents { int_contents: int_contents.into(), ..Default::default() };
    let uints =
        |uint_contents: &[u32]| InferTensorContents { uint_contents: uint_contents.into(), ..Default::default() };
    assert_eq!(typed("INT8", ints(&[-128, 127])), TensorData::Raw(vec![0x80, 0x7f]));
    assert_eq!(typed("UINT16", uints(&[0x0201, 0xffff])), TensorData::Raw(vec![1, 2, 255, 255]));
    for (datatype, contents) in [
        ("INT8", ints(&[1, 128])),
        ("INT16", ints(&[-32769])),
        ("UINT8", uints(&[256])),
        ("UINT16", uints(&[65536])),
        ("INT8", uints(&[1])),
        ("UINT16", ints(&[1])),
        ("FP16", ints(&[1])),
    ] {
        assert_eq!(typed(datatype, contents), TensorData::Absent, "{datatype}");
    }
}

#[test]
fn each_step_has_the_shape_of_its_own_elements() {
    for datatype in Datatype::of_the_protocol() {
        let template = RequestTemplate::of(&model(datatype, vec![1, -1]), WireId::Number(7));
        let mut encoder = StepCodec::of_streams(template).encoder();
        for size in [1, 2, 16, 300, 1024] {
            let elements = NonZeroU16::new(size).expect("not 0");
            let value = datatype.number(-1000).of_elements(elements);
            let request = RequestId { worker: 1, context: 2, sequence: 3, step: 4 };
            let step = Step { request, pattern: Pattern::Valid, start: true, end: false, value, of: 6, special: None };
            let read = |encoder: &mut StepCodec, step: Step| {
                let mut bytes = Vec::new();
                encoder.put(&step, &mut bytes);
                ModelInferRequest::decode(bytes.as_slice()).expect("a request")
            };
            let sent = read(&mut encoder, step);
            let [input] = sent.inputs.as_slice() else { panic!("{sent:?}") };
            assert_eq!((input.name.as_str(), input.datatype.as_str()), ("INPUT", datatype.name()));
            assert_eq!(input.shape, [1, i64::from(size)]);
            let raw: Vec<_> = value.spread(size.into()).flat_map(Number::to_bytes).collect();
            assert_eq!(sent.raw_input_contents, [raw], "{datatype} {size}");
            let flawed = read(&mut encoder, Step { special: Some(Special::Flaw(Flaw::OtherShape)), ..step });
            assert_eq!(flawed.inputs[0].shape, [1, i64::from(size), 1]);
            assert_eq!(flawed.raw_input_contents, sent.raw_input_contents);
        }
    }
}

#[test]
fn a_step_on_a_stream_that_ids_share_has_the_id_of_its_own_context() {
    let template = RequestTemplate::of(&model(Datatype::Int32, vec![1, 1]), WireId::Number(7));
    let others = [7, 8, 9].map(|id| template.with_id(WireId::Number(id)));
    let shared = RequestTemplate::with_each_other(others.into());
    let mut encoder = StepCodec::of_streams(shared[0].clone()).encoder();
    for (context, id) in [(0, 7), (2, 9)] {
        let request = RequestId { worker: 0, context, sequence: 0, step: 0 };
        let step = Step {
            request,
            pattern: Pattern::SharedStream,
            start: true,
            end: false,
            value: 1.into(),
            of: 1,
            special: None,
        };
        let mut bytes = Vec::new();
        encoder.put(&step, &mut bytes);
        let request = ModelInferRequest::decode(bytes.as_slice()).expect("a request");
        let sent = request.parameters["sequence_id"].parameter_choice.clone();
        assert_eq!(sent, Some(ParameterChoice::Int64Param(id)), "context {context}");
    }
}
