//! From the message that a gRPC client would get to a body.

use super::{
    contents,
    json::{write_all, write_double, write_text},
    rejection::Rejection,
    request::Binary,
};
use wire::proto::{InferParameter, ModelInferResponse, infer_parameter::ParameterChoice};

/// A body that tells of an inference.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// How much of it is JSON, where outputs' bytes stand behind it.
    pub(super) json: Option<usize>,
}

/// Writes an answer.
///
/// # Errors
/// Where it has what is in no JSON.
pub(super) fn write(response: &ModelInferResponse, binary: &Binary) -> Result<Body, Rejection> {
    let mut out = b"{".to_vec();
    let id = Some(("id", &response.id)).filter(|(_, id)| !id.is_empty());
    let model = [("model_name", &response.model_name), ("model_version", &response.model_version)];
    write_all(&mut out, id.into_iter().chain(model), write_member);
    if !response.parameters.is_empty() {
        let mut parameters: Vec<_> = response.parameters.iter().collect();
        parameters.sort_unstable_by_key(|(name, _)| *name);
        out.extend(b",\"parameters\":{");
        write_all(&mut out, parameters, |out, (name, value)| write_parameter(out, name, value));
        out.push(b'}');
    }
    out.extend(b",\"outputs\":[");
    let mut behind: Vec<u8> = Vec::new();
    let mut has_binary = false;
    let mut rejection = None;
    let mut data = response.raw_output_contents.iter();
    write_all(&mut out, &response.outputs, |out, output| {
        out.push(b'{');
        write_all(out, [("name", &output.name), ("datatype", &output.datatype)], write_member);
        out.extend(b",\"shape\":[");
        write_all(out, &output.shape, |out, size| out.extend(size.to_string().into_bytes()));
        out.push(b']');
        let data = data.next().map_or(&[][..], Vec::as_slice);
        if binary.has(&output.name) {
            has_binary = true;
            behind.extend(data);
            out.extend(format!(",\"parameters\":{{\"binary_data_size\":{}}}", data.len()).into_bytes());
        } else {
            out.extend(b",\"data\":");
            rejection = contents::write(out, &output.datatype, data).err().or(rejection.take());
        }
        out.push(b'}');
    });
    out.extend(b"]}");
    let json = has_binary.then_some(out.len());
    out.extend(behind);
    rejection.map_or(Ok(Body { bytes: out, json }), Err)
}

fn write_member(out: &mut Vec<u8>, (name, value): (&str, &String)) {
    write_text(out, name.as_bytes());
    out.push(b':');
    write_text(out, value.as_bytes());
}

fn write_parameter(out: &mut Vec<u8>, name: &str, value: &InferParameter) {
    write_text(out, name.as_bytes());
    out.push(b':');
    match &value.parameter_choice {
        Some(ParameterChoice::BoolParam(value)) => out.extend(value.to_string().into_bytes()),
        Some(ParameterChoice::Int64Param(value)) => out.extend(value.to_string().into_bytes()),
        Some(ParameterChoice::Uint64Param(value)) => out.extend(value.to_string().into_bytes()),
        Some(ParameterChoice::DoubleParam(value)) => write_double(out, *value),
        Some(ParameterChoice::StringParam(value)) => write_text(out, value.as_bytes()),
        None => out.extend(b"null"),
    }
}
