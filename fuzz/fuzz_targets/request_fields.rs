//! Requests that are nearly right: a field or two is not as a model wants it.

#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use wire::proto::{
        InferParameter, InferTensorContents, ModelInferRequest,
        infer_parameter::ParameterChoice,
        model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
    };
use reference::fuzzing;

const PARAMETERS: [&str; 11] = [
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "timeout",
    "priority",
    "triton_enable_empty_final_response",
    "triton_other",
    "classification",
    "shared_memory_region",
    "shared_memory_byte_size",
    "other",
];
const DATATYPES: [&str; 4] = ["INT32", "FP32", "BYTES", "NONE"];

#[derive(Debug)]
struct Fields(ModelInferRequest);

/// Mostly the first of these.
fn mostly<T: Clone>(u: &mut Unstructured, of: &[T]) -> Result<T> {
    if u.ratio(7, 8)? { Ok(of[0].clone()) } else { Ok(u.choose(of)?.clone()) }
}

fn size(u: &mut Unstructured) -> Result<i64> {
    Ok(match u.int_in_range(0..=7)? {
        0..4 => 1,
        4 => u.int_in_range(-2..=9)?,
        5 => 1 << u.int_in_range(0..=63)?,
        6 => -(1 << u.int_in_range(0..=62)?),
        _ => u.arbitrary()?,
    })
}

fn parameters(u: &mut Unstructured) -> Result<std::collections::HashMap<String, InferParameter>> {
    let one = |u: &mut Unstructured| {
        let choice = match u.int_in_range(0..=5)? {
            0 => ParameterChoice::BoolParam(u.arbitrary()?),
            1 => ParameterChoice::Int64Param(u.arbitrary()?),
            2 => ParameterChoice::StringParam("x".repeat(u.int_in_range(0..=200)?)),
            3 => ParameterChoice::DoubleParam(u.arbitrary()?),
            4 => ParameterChoice::Uint64Param(u.arbitrary()?),
            _ => return Ok(InferParameter { parameter_choice: None }),
        };
        Ok(InferParameter { parameter_choice: Some(choice) })
    };
    (0..u.int_in_range(0..=4)?).map(|_| Ok(((*u.choose(&PARAMETERS)?).to_owned(), one(u)?))).collect()
}

fn contents(u: &mut Unstructured) -> Result<InferTensorContents> {
    let mut contents = InferTensorContents::default();
    match u.int_in_range(0..=8)? {
        0 => contents.bool_contents = u.arbitrary()?,
        1 => contents.int64_contents = u.arbitrary()?,
        2 => contents.uint_contents = u.arbitrary()?,
        3 => contents.uint64_contents = u.arbitrary()?,
        4 => contents.fp32_contents = u.arbitrary()?,
        5 => contents.fp64_contents = u.arbitrary()?,
        6 => contents.bytes_contents = u.arbitrary()?,
        _ => contents.int_contents = u.arbitrary()?,
    }
    Ok(contents)
}

impl<'a> Arbitrary<'a> for Fields {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut request = ModelInferRequest { id: mostly(u, &["", "1-2-3"])?.to_owned(), ..Default::default() };
        request.parameters = parameters(u)?;
        for _ in 0..mostly(u, &[1, 0, 2, 3])? {
            let shape: Vec<_> = (0..u.int_in_range(0..=4)?).map(|_| size(u)).collect::<Result<_>>()?;
            let mut input = InferInputTensor {
                name: mostly(u, &["INPUT", "OTHER", ""])?.to_owned(),
                datatype: mostly(u, &DATATYPES)?.to_owned(),
                shape,
                ..Default::default()
            };
            if u.ratio(1, 8)? {
                input.parameters = parameters(u)?;
            }
            if u.ratio(1, 2)? {
                input.contents = Some(contents(u)?);
            } else {
                let product = input.shape.iter().fold(4_i64, |product, size| product.wrapping_mul(*size));
                let right = usize::try_from(product).ok().filter(|length| *length <= 4096).unwrap_or(4);
                request.raw_input_contents.push(vec![1; mostly(u, &[right, 0, 3, 8])?]);
            }
            request.inputs.push(input);
        }
        for _ in 0..mostly(u, &[0, 1, 2])? {
            let name = mostly(u, &["OUTPUT", "OTHER"])?.to_owned();
            request.outputs.push(InferRequestedOutputTensor { name, parameters: parameters(u)? });
        }
        Ok(Self(request))
    }
}

fuzz_target!(|fields: Fields| {
    let _ = fuzzing::request(&fields.0.encode_to_vec());
});
