//! From a request's body to the message that a gRPC client would have sent.

use std::collections::{HashMap, HashSet};

use hyper::StatusCode;

use super::{contents, json::Json, rejection::Rejection, route::Model};
use crate::spec::Spec;
use wire::proto::{
    InferParameter, ModelInferRequest,
    infer_parameter::ParameterChoice,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};

/// A request, and how its answer is to be written.
#[derive(Debug)]
pub(super) struct Inference {
    pub(super) message: ModelInferRequest,
    pub(super) binary: Binary,
}

/// Which outputs are given as bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Binary {
    /// All of them; of those that a request names it says which.
    all: bool,
    named: HashSet<String>,
}

impl Binary {
    pub(super) fn has(&self, output: &str) -> bool {
        self.all || self.named.contains(output)
    }
}

fn unable(name: &str) -> impl Fn(&'static str) -> Rejection {
    move |why| Rejection::internal(format!("Unable to parse '{name}': {why}"))
}

/// A member that has to be there.
fn member<'a>(of: &'a Json, name: &str) -> Result<&'a Json, Rejection> {
    of.get(name).ok_or_else(|| {
        Rejection::internal(format!("Unable to parse '{name}': attempt to access non-existing object member '{name}'"))
    })
}

/// A text that has to be there.
fn text_member(of: &Json, name: &str) -> Result<String, Rejection> {
    member(of, name)?.as_text().map_err(unable(name))
}

fn flag(name: &str, value: &Json) -> Result<bool, Rejection> {
    value.as_bool().map_err(unable(name))
}

fn unsigned(name: &str, value: &Json) -> Result<u64, Rejection> {
    value.as_unsigned().map_err(unable(name))
}

fn message_to(Model { name, version }: &Model) -> ModelInferRequest {
    ModelInferRequest { model_name: name.clone(), model_version: version.clone(), ..ModelInferRequest::default() }
}

/// Reads a request that is JSON, with the inputs' bytes behind it.
///
/// # Errors
/// What is wrong with it, as the real server says it.
pub(super) fn read(model: &Model, header: &[u8], bytes: &[u8]) -> Result<Inference, Rejection> {
    let json = Json::read(header)
        .map_err(|problem| Rejection::internal(format!("failed to parse the request JSON buffer: {problem}")))?;
    let mut message = message_to(model);
    if let Some(id) = json.get("id") {
        message.id = id.as_text().map_err(unable("id"))?;
    }
    let mut binary = Binary::default();
    if let Some(parameters) = json.get("parameters") {
        let members = parameters
            .as_members()
            .map_err(|why| Rejection::internal(format!("failed to get request params.: {why}")))?;
        (message.parameters, binary.all) = parameters_of(members)?;
    }
    let mut unread = bytes;
    for input in member(&json, "inputs")?.as_array().map_err(unable("inputs"))? {
        let (input, data) = read_input(&model.name, input, &mut unread)?;
        message.inputs.push(input);
        message.raw_input_contents.push(data);
    }
    if !unread.is_empty() {
        let text = format!("unexpected additional input data for model '{}'", model.name);
        return Err(Rejection::bad_request(text));
    }
    if let Some(outputs) = json.get("outputs") {
        for output in outputs.as_array().map_err(unable("outputs"))? {
            message.outputs.push(read_output(output, &mut binary)?);
        }
        binary.all &= message.outputs.is_empty();
    }
    Ok(Inference { message, binary })
}

/// Reads parameters, and whether outputs are given as bytes.
fn parameters_of(members: &[(String, Json)]) -> Result<(HashMap<String, InferParameter>, bool), Rejection> {
    let mut parameters = HashMap::new();
    let mut binary = false;
    for (name, value) in members {
        let choice = match name.as_str() {
            "sequence_id" => match value {
                Json::Unsigned(id) => ParameterChoice::Int64Param(id.cast_signed()),
                other => ParameterChoice::StringParam(other.as_text().map_err(unable(name))?),
            },
            "sequence_start" | "sequence_end" => ParameterChoice::BoolParam(flag(name, value)?),
            // One of 64 bits is no limit, as one that is negative is none over gRPC.
            "timeout" => ParameterChoice::Int64Param(unsigned(name, value)?.cast_signed()),
            "priority" => ParameterChoice::Uint64Param(unsigned(name, value)?),
            "binary_data_output" => {
                binary = flag(name, value)?;
                continue;
            }
            reserved if reserved.starts_with("triton_") => {
                return Err(Rejection::bad_request(
                    "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
                ));
            }
            _ => other_parameter(name, value)?,
        };
        // Of several of one name the first counts.
        parameters.entry(name.clone()).or_insert(InferParameter { parameter_choice: Some(choice) });
    }
    Ok((parameters, binary))
}

/// A parameter that the server has no meaning for.
fn other_parameter(name: &str, value: &Json) -> Result<ParameterChoice, Rejection> {
    let wrong_type = |_| {
        let text = format!("parameter '{name}' has invalid type. It should be either 'int', 'bool', or 'string'.");
        Rejection::bad_request(text)
    };
    Ok(match value {
        Json::Bool(value) => ParameterChoice::BoolParam(*value),
        Json::Text(text) => ParameterChoice::StringParam(String::from_utf8_lossy(text).into_owned()),
        other => match other.as_signed() {
            Ok(value) => ParameterChoice::Int64Param(value),
            Err(_) => ParameterChoice::DoubleParam(other.as_double().map_err(wrong_type)?),
        },
    })
}

fn no_region(region: &Json) -> Rejection {
    // No region can be registered with this server, so none is ever found.
    let text = |region| format!("Unable to find shared memory region: '{region}'");
    let not_found = |region| Rejection::new(StatusCode::NOT_FOUND, text(region));
    region.as_text().map_or_else(unable("shared_memory_region"), not_found)
}

/// Where an input's data is.
enum Data<'a> {
    Json(&'a Json),
    Behind(&'a Json),
    Region(&'a Json),
}

fn data_of(input: &Json) -> Result<Data<'_>, Rejection> {
    let parameter = |name| input.get("parameters").and_then(|parameters| parameters.get(name));
    let given = [
        ("'data'", input.get("data").map(Data::Json)),
        ("'binary_data_size'", parameter("binary_data_size").map(Data::Behind)),
        ("'shared_memory_region'", parameter("shared_memory_region").map(Data::Region)),
    ];
    let mut given: Vec<_> = given.into_iter().filter_map(|(kind, data)| Some((kind, data?))).collect();
    let which = match given.len() {
        0 => "no field is set".to_owned(),
        1 => return Ok(given.remove(0).1),
        _ => format!("set {}", given.iter().map(|(kind, _)| *kind).collect::<Vec<_>>().join(" ")),
    };
    Err(Rejection::bad_request(format!(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But {which}"
    )))
}

fn read_input(model: &str, input: &Json, unread: &mut &[u8]) -> Result<(InferInputTensor, Vec<u8>), Rejection> {
    let data = data_of(input)?;
    let name = text_member(input, "name")?;
    let datatype = text_member(input, "datatype")?;
    let sizes = member(input, "shape")?.as_array().map_err(unable("shape"))?;
    let shape =
        sizes.iter().map(|size| unsigned("shape", size).map(u64::cast_signed)).collect::<Result<Vec<_>, _>>()?;
    let bytes = match data {
        Data::Json(data) => contents::read(&name, &datatype, &shape, data)?,
        Data::Behind(size) => take(model, &name, unsigned("binary_data_size", size)?, unread)?,
        Data::Region(region) => return Err(no_region(region)),
    };
    Ok((InferInputTensor { name, datatype, shape, ..InferInputTensor::default() }, bytes))
}

/// Takes an input's bytes from those that stand behind the JSON.
fn take(model: &str, input: &str, size: u64, unread: &mut &[u8]) -> Result<Vec<u8>, Rejection> {
    let parts = usize::try_from(size).ok().and_then(|size| unread.split_at_checked(size));
    let Some((bytes, rest)) = parts else {
        let missing = size - unread.len() as u64;
        return Err(Rejection::bad_request(format!(
            "unexpected size for input '{input}', expecting {missing} additional bytes for model '{model}'"
        )));
    };
    *unread = rest;
    Ok(bytes.to_vec())
}

fn read_output(output: &Json, binary: &mut Binary) -> Result<InferRequestedOutputTensor, Rejection> {
    let name = text_member(output, "name")?;
    let parameter = |name| output.get("parameters").and_then(|parameters| parameters.get(name));
    let mut parameters = HashMap::new();
    if let Some(region) = parameter("shared_memory_region") {
        return Err(no_region(region));
    }
    if let Some(classes) = parameter("classification") {
        let cannot = |why| Rejection::internal(format!("Unable to set 'classification': {why}"));
        let classes = classes.as_unsigned().map_err(cannot)?;
        if classes > 0 {
            let choice = ParameterChoice::Int64Param(i64::try_from(classes).unwrap_or(i64::MAX));
            parameters.insert("classification".to_owned(), InferParameter { parameter_choice: Some(choice) });
        }
    }
    if parameter("binary_data").map(|value| flag("binary_data", value)).transpose()?.unwrap_or(false) {
        binary.named.insert(name.clone());
    }
    Ok(InferRequestedOutputTensor { name, parameters })
}

/// Takes a body without JSON: the bytes of the model's one input, whose shape they tell.
///
/// # Errors
/// Why they cannot be that.
pub(super) fn raw(model: &Model, bytes: &[u8], spec: &Spec) -> Result<Inference, Rejection> {
    let [input] = &*spec.inputs else {
        let text = format!("a request of bytes alone is for models with one input, not '{}'", model.name);
        return Err(Rejection::bad_request(text));
    };
    let Some(width) = input.datatype.size() else {
        return Err(Rejection::bad_request(format!(
            "[request id: <id_unknown>] For BYTE datatype raw input '{}', the model must have input shape [1]",
            input.name
        )));
    };
    let sizes = input.dims.iter().filter_map(|size| usize::try_from(*size).ok());
    let known = sizes.fold(1_usize, usize::saturating_mul);
    let elements = bytes.len() / width;
    let mut shape = spec.shape(1, &input.dims);
    let mut expected = known.saturating_mul(width);
    if let Some(size) = shape.iter_mut().find(|size| **size < 0) {
        let count = elements.checked_div(known).unwrap_or_default();
        *size = i64::try_from(count).expect("it is in memory");
        expected = expected.saturating_mul(count);
    }
    if expected != bytes.len() {
        return Err(Rejection::bad_request(format!(
            "[request id: <id_unknown>] input byte size mismatch for input 'raw_input' for model '{}'. Expected {expected}, got {}",
            model.name,
            bytes.len()
        )));
    }
    let message = ModelInferRequest {
        inputs: vec![InferInputTensor {
            name: input.name.to_string(),
            datatype: input.datatype.name().to_owned(),
            shape,
            ..InferInputTensor::default()
        }],
        raw_input_contents: vec![bytes.to_vec()],
        ..message_to(model)
    };
    Ok(Inference { message, binary: Binary { all: true, ..Binary::default() } })
}
