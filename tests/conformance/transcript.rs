//! How answers, statuses and statistics are written down: one line each, without anything that may differ lawfully.
//!
//! Left out are times, the order of a message's maps (they are sorted), and fields that are empty.

use serde_json::Value;
use tonic::Status;
use wire::proto::{
    InferParameter, ModelInferResponse, ModelStatistics, ModelStreamInferResponse, infer_parameter::ParameterChoice,
    model_infer_response::InferOutputTensor,
};

/// A parameter's value, with its type where it is not plain.
pub(crate) fn parameter(value: &ParameterChoice) -> String {
    match value {
        ParameterChoice::BoolParam(value) => value.to_string(),
        ParameterChoice::Int64Param(value) => value.to_string(),
        ParameterChoice::StringParam(value) => format!("'{value}'"),
        ParameterChoice::DoubleParam(value) => format!("double {value}"),
        ParameterChoice::Uint64Param(value) => format!("uint64 {value}"),
    }
}

fn parameters<'a>(of: impl IntoIterator<Item = (&'a String, &'a InferParameter)>) -> String {
    let choice = |of: &InferParameter| of.parameter_choice.as_ref().map_or_else(|| "nothing".into(), parameter);
    let word = |name: &str, value: &InferParameter| match choice(value) {
        value if (name, value.as_str()) == ("triton_final_response", "true") => " final".into(),
        value => format!(" {name}={value}"),
    };
    let mut words: Vec<String> = of.into_iter().map(|(name, value)| word(name, value)).collect();
    words.sort();
    words.concat()
}

/// A response's line: its ID, its tensors, its model, its parameters.
pub(crate) fn response(response: &ModelInferResponse) -> String {
    let raw = response.raw_output_contents.iter().map(Some).chain(std::iter::repeat(None));
    let outputs: Vec<String> = response.outputs.iter().zip(raw).map(|(tensor, raw)| output(tensor, raw)).collect();
    let ModelInferResponse { id, model_name, model_version, .. } = response;
    format!("{id}: {} of {model_name} {model_version}{}", outputs.join(", "), parameters(&response.parameters))
}

fn output(tensor: &InferOutputTensor, raw: Option<&Vec<u8>>) -> String {
    let contents = match raw {
        Some(raw) => contents(&tensor.datatype, raw),
        None => format!("{:?}", tensor.contents),
    };
    let InferOutputTensor { name, datatype, shape, .. } = tensor;
    format!("{name} {datatype}{shape:?} {contents}{}", parameters(&tensor.parameters))
}

/// A tensor's elements in words.
pub(crate) fn contents(datatype: &str, raw: &[u8]) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
    match elements(datatype, raw) {
        Some(elements) => elements.iter().map(plain).collect::<Vec<_>>().join(" "),
        None => format!("{} bytes", raw.len()),
    }
}

/// A tensor's elements as JSON has them; none where the bytes are not such elements.
pub(crate) fn elements(datatype: &str, raw: &[u8]) -> Option<Vec<Value>> {
    fn of<const N: usize>(raw: &[u8], element: fn([u8; N]) -> Value) -> Option<Vec<Value>> {
        let (chunks, rest) = raw.as_chunks::<N>();
        rest.is_empty().then(|| chunks.iter().map(|chunk| element(*chunk)).collect())
    }
    match datatype {
        "INT32" => of(raw, |bytes| i32::from_le_bytes(bytes).into()),
        "INT64" => of(raw, |bytes| i64::from_le_bytes(bytes).into()),
        "UINT32" => of(raw, |bytes| u32::from_le_bytes(bytes).into()),
        "UINT64" => of(raw, |bytes| u64::from_le_bytes(bytes).into()),
        "FP32" => of(raw, |bytes| f32::from_le_bytes(bytes).into()),
        "FP64" => of(raw, |bytes| f64::from_le_bytes(bytes).into()),
        "BYTES" => texts(raw),
        _ => None,
    }
}

/// Texts with their lengths before them.
fn texts(mut raw: &[u8]) -> Option<Vec<Value>> {
    let mut texts = Vec::new();
    while !raw.is_empty() {
        let (length, rest) = raw.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
        texts.push(std::str::from_utf8(text).ok()?.into());
        raw = rest;
    }
    Some(texts)
}

/// A stream's answer, which is a response or an error's text.
pub(crate) fn stream_response(answer: &ModelStreamInferResponse) -> String {
    let inner = answer.infer_response.as_ref();
    if answer.error_message.is_empty() {
        return inner.map_or_else(|| "neither response nor error".into(), response);
    }
    let told = match inner {
        None => "no response: ".into(),
        Some(inner) if inner.outputs.is_empty() => {
            let words = [&inner.id, &inner.model_name, &inner.model_version].map(String::as_str);
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            format!("{}{}: ", words.join(" "), parameters(&inner.parameters))
        }
        Some(inner) => format!("{}; and ", response(inner)),
    };
    format!("{told}error '{}'", answer.error_message)
}

/// A call's or a stream's failure.
pub(crate) fn status(status: &Status) -> String {
    format!("{:?} '{}'", status.code(), status.message())
}

/// A model's counts, without its times; with those of executions or not.
pub(crate) fn statistics(of: &ModelStatistics, with_executions: bool) -> String {
    let stats = of.inference_stats.unwrap_or_default();
    let count = |duration: &Option<wire::proto::StatisticDuration>| duration.map_or(0, |of| of.count);
    let mut batches: Vec<(u64, u64)> =
        of.batch_stats.iter().map(|batch| (batch.batch_size, count(&batch.compute_infer))).collect();
    batches.sort_unstable();
    let batches: Vec<String> = batches.iter().map(|(size, count)| format!("{size}: {count}")).collect();
    let mut words = vec![
        format!("inferences {}", of.inference_count),
        format!("success {}", count(&stats.success)),
        format!("fail {}", count(&stats.fail)),
        format!("queue {}", count(&stats.queue)),
        format!(
            "compute {}/{}/{}",
            count(&stats.compute_input),
            count(&stats.compute_infer),
            count(&stats.compute_output)
        ),
    ];
    if with_executions {
        words.push(format!("executions {}", of.execution_count));
        words.push(format!("batches {{{}}}", batches.join(", ")));
    }
    words.join(", ")
}
