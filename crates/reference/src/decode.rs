//! From a request on the wire to one that the scheduler takes, with the checks of the real server, in its order.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tonic::Status;

use super::{
    execution::{Inputs, Ticket, Wants},
    scheduler::{Moment, Request, SequenceId},
    spec::{Spec, TensorSpec},
    tensor::{Datatype, Tensor, text_element, texts},
};
use wire::proto::{
    InferParameter, InferTensorContents, ModelInferRequest,
    infer_parameter::ParameterChoice,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};

/// What stands before each element of BYTES.
const LENGTH_BYTES: usize = 4;
/// The most bytes of a correlation ID that is a text.
const TEXT_ID_BYTES_MAX: usize = 128;

/// Reads a request to a model, as the scheduler takes it.
///
/// # Errors
/// What is wrong with it, as the real server says it.
pub(super) fn decode<R>(
    request: ModelInferRequest,
    spec: &Spec,
    cancelled: Arc<AtomicBool>,
    reply: R,
) -> Result<Request<Ticket<R>>, Status> {
    let check = Check { spec, model: &request.model_name, request_id: &request.id };
    let options = Parameters::read(&request.parameters)?;
    check.names(&request.inputs)?;
    request.outputs.iter().try_for_each(check_output_parameters)?;
    let data = data(&request.inputs, request.raw_input_contents, check.model)?;
    let wants = Wants { empty_final: options.empty_final, ..check.wants(&request.outputs)? };
    check.count(&request.inputs)?;
    let batch_size = check.batch_size(&request.inputs)?;
    let mut inputs = Inputs::new();
    for (input, data) in request.inputs.into_iter().zip(data) {
        inputs.push(check.input(input, data, batch_size)?);
    }
    Ok(Request {
        id: options.id,
        start: options.start,
        end: options.end,
        goes_on: false,
        batch_size,
        timeout: options.timeout,
        cancelled,
        shape: inputs.iter().flat_map(|(_, tensor)| tensor.shape.iter().copied()).collect(),
        arrived: Moment::ZERO,
        payload: Ticket { request_id: request.id, version: spec.version, inputs, wants, reply },
    })
}

struct Parameters {
    id: SequenceId,
    start: bool,
    end: bool,
    timeout: Option<Duration>,
    empty_final: bool,
}

impl Parameters {
    fn read(parameters: &HashMap<String, InferParameter>) -> Result<Self, Status> {
        let mut read = Self { id: SequenceId::Number(0), start: false, end: false, timeout: None, empty_final: false };
        // In the order of their names, so that of two errors it is always the same that is told.
        let mut parameters: Vec<_> = parameters.iter().collect();
        parameters.sort_unstable_by_key(|(name, _)| *name);
        for (name, parameter) in parameters {
            read.take(name, parameter.parameter_choice.as_ref())?;
        }
        Ok(read)
    }

    fn take(&mut self, name: &str, value: Option<&ParameterChoice>) -> Result<(), Status> {
        use ParameterChoice::{BoolParam, Int64Param, StringParam, Uint64Param};
        let wrong_type = |expected| {
            Err(Status::invalid_argument(format!("invalid value type for '{name}' parameter, expected {expected}.")))
        };
        match (name, value) {
            ("sequence_id", Some(Int64Param(id))) => self.id = SequenceId::Number(id.cast_unsigned()),
            ("sequence_id", Some(StringParam(id))) if id.len() > TEXT_ID_BYTES_MAX => {
                let text = format!("string correlation ID cannot be longer than {TEXT_ID_BYTES_MAX} characters");
                return Err(Status::unimplemented(text));
            }
            ("sequence_id", Some(StringParam(id))) => self.id = SequenceId::Text(id.as_str().into()),
            ("sequence_id", _) => return wrong_type("int64_param or string_param"),
            ("sequence_start", Some(BoolParam(start))) => self.start = *start,
            ("sequence_end", Some(BoolParam(end))) => self.end = *end,
            ("triton_enable_empty_final_response", Some(BoolParam(wanted))) => self.empty_final = *wanted,
            ("sequence_start" | "sequence_end" | "triton_enable_empty_final_response", _) => {
                return wrong_type("bool_param");
            }
            ("timeout", Some(Int64Param(us))) => self.timeout = timeout(*us),
            ("timeout", _) => return wrong_type("int64_param"),
            ("priority", Some(Int64Param(priority))) if *priority < 0 => {
                return Err(Status::invalid_argument("invalid value for 'priority', expected value >= 0."));
            }
            ("priority", Some(Int64Param(_) | Uint64Param(_))) => {}
            ("priority", _) => return wrong_type("int64_param or uint64_param"),
            (name, _) if name.starts_with("triton_") => {
                return Err(Status::invalid_argument(
                    "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with 'triton_' are allowed: triton_enable_empty_final_response",
                ));
            }
            (_, Some(Uint64Param(_)) | None) => return wrong_type("int64_param, bool_param, or string_param"),
            _ => {}
        }
        Ok(())
    }
}

/// Zero is no limit, and a negative one is so long that it is none.
fn timeout(us: i64) -> Option<Duration> {
    u64::try_from(us).ok().filter(|us| *us > 0).map(Duration::from_micros)
}

fn check_output_parameters(output: &InferRequestedOutputTensor) -> Result<(), Status> {
    reject_shared_memory(&output.name, &output.parameters)?;
    match output.parameters.get("classification").map(|parameter| &parameter.parameter_choice) {
        None => Ok(()),
        Some(Some(ParameterChoice::Int64Param(1..))) => {
            Err(Status::unimplemented("the classification extension is not supported"))
        }
        Some(Some(ParameterChoice::Int64Param(_))) => {
            Err(Status::invalid_argument("invalid value for 'classification' parameter, expected >= 0"))
        }
        Some(_) => {
            Err(Status::invalid_argument("invalid value type for 'classification' parameter, expected int64_param"))
        }
    }
}

/// No region can be registered with this server, so none is ever found.
fn reject_shared_memory(tensor: &str, parameters: &HashMap<String, InferParameter>) -> Result<(), Status> {
    let Some(region) = parameters.get("shared_memory_region") else { return Ok(()) };
    if !parameters.contains_key("shared_memory_byte_size") {
        return Err(Status::invalid_argument(format!(
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor '{tensor}'"
        )));
    }
    let Some(ParameterChoice::StringParam(region)) = &region.parameter_choice else {
        return Err(Status::invalid_argument(format!(
            "invalid value type for 'shared_memory_region' parameter for tensor '{tensor}', expected string_param."
        )));
    };
    Err(Status::not_found(format!("Unable to find shared memory region: '{region}'")))
}

/// The bytes of each input, as the request carries them in either of the two ways.
fn data(inputs: &[InferInputTensor], raw: Vec<Vec<u8>>, model: &str) -> Result<Vec<Vec<u8>>, Status> {
    let is_raw = !raw.is_empty();
    let mut raw = raw.into_iter();
    let each = |input: &InferInputTensor| {
        let name = &input.name;
        reject_shared_memory(name, &input.parameters)?;
        let missing = || {
            Status::invalid_argument(format!(
                "unable to find data for input tensor '{name}' for model '{model}' in request."
            ))
        };
        match &input.contents {
            Some(_) if is_raw => Err(Status::invalid_argument(format!(
                "contents field must not be specified when using raw_input_contents for '{name}' for model '{model}'"
            ))),
            Some(contents) => typed(contents).ok_or_else(missing).and_then(|(datatype, bytes)| {
                if datatype == input.datatype {
                    return Ok(bytes);
                }
                if let Some(size) = in_list_of(datatype, &input.datatype) {
                    return Ok(bytes.chunks_exact(4).flat_map(|element| &element[..size]).copied().collect());
                }
                let expected = known(&input.datatype);
                Err(Status::invalid_argument(format!(
                    "unexpected explicit tensor data for input tensor '{name}' for model '{model}' of type '{datatype}', expected datatype '{expected}'"
                )))
            }),
            None => raw.next().ok_or_else(missing),
        }
    };
    inputs.iter().map(each).collect()
}

/// The elements of the one field that has some, with the type that the field is for.
fn typed(contents: &InferTensorContents) -> Option<(&'static str, Vec<u8>)> {
    fn bytes<const N: usize, T: Copy>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|value| bytes(*value)).collect()
    }
    let fields = [
        ("BOOL", bytes(&contents.bool_contents, |value| [u8::from(value)])),
        ("INT32", bytes(&contents.int_contents, i32::to_le_bytes)),
        ("INT64", bytes(&contents.int64_contents, i64::to_le_bytes)),
        ("UINT32", bytes(&contents.uint_contents, u32::to_le_bytes)),
        ("UINT64", bytes(&contents.uint64_contents, u64::to_le_bytes)),
        ("FP32", bytes(&contents.fp32_contents, f32::to_le_bytes)),
        ("FP64", bytes(&contents.fp64_contents, f64::to_le_bytes)),
        ("BYTES", contents.bytes_contents.iter().flat_map(|text| text_element(text)).collect()),
    ];
    fields.into_iter().find(|(_, bytes)| !bytes.is_empty())
}

/// Of a small type whose elements stand in the list of a larger one, as many bytes of each as it has.
fn in_list_of(list: &str, datatype: &str) -> Option<usize> {
    match (list, datatype) {
        ("INT32", "INT8") | ("UINT32", "UINT8") => Some(1),
        ("INT32", "INT16") | ("UINT32", "UINT16") => Some(2),
        _ => None,
    }
}

/// A type's name, where the protocol knows it.
fn known(datatype: &str) -> &'static str {
    Datatype::named(datatype).map_or("<invalid>", Datatype::name)
}

/// Checks a request's inputs against what the model declares.
struct Check<'a> {
    spec: &'a Spec,
    model: &'a str,
    request_id: &'a str,
}

impl Check<'_> {
    fn failure(&self, text: &str) -> Status {
        let id = if self.request_id.is_empty() { "<id_unknown>" } else { self.request_id };
        Status::invalid_argument(format!("[request id: {id}] {text}"))
    }

    fn names(&self, inputs: &[InferInputTensor]) -> Result<(), Status> {
        let mut names = HashSet::new();
        match inputs.iter().find(|input| !names.insert(&input.name)) {
            Some(twice) => Err(self.failure(&format!("input '{}' already exists in request", twice.name))),
            None => Ok(()),
        }
    }

    /// Which outputs a request asks for: all, where it names none.
    fn wants(&self, named: &[InferRequestedOutputTensor]) -> Result<Wants, Status> {
        let Self { spec, model, .. } = self;
        let index = |InferRequestedOutputTensor { name, .. }: &InferRequestedOutputTensor| {
            let index = spec.outputs.iter().position(|known| *known.name == **name);
            let unexpected = || format!("unexpected inference output '{name}' for model '{model}'");
            index.ok_or_else(|| Status::invalid_argument(unexpected()))
        };
        let named = named.iter().map(index).collect::<Result<Vec<_>, _>>()?;
        Ok(if named.is_empty() { Wants::ALL } else { Wants::of(named) })
    }

    fn count(&self, inputs: &[InferInputTensor]) -> Result<(), Status> {
        let declared = &self.spec.inputs;
        let required = declared.iter().filter(|declared| !declared.is_optional).count();
        let is_left_out = |declared: &&TensorSpec| inputs.iter().all(|input| *input.name != *declared.name);
        // The real server only counts: one with a name that nobody knows is told of later. It leaves it to the model's backend to miss one
        // that is required.
        let is_unknown = |input: &InferInputTensor| declared.iter().all(|declared| *declared.name != *input.name);
        let fits = inputs.len() == declared.len()
            || inputs.iter().any(is_unknown)
            || declared.iter().filter(is_left_out).all(|declared| declared.is_optional);
        if (required..=declared.len()).contains(&inputs.len()) && fits {
            return Ok(());
        }
        let quoted = |names: Vec<&str>| names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",");
        // The real server tells them in this order.
        let names: Vec<_> = inputs.iter().rev().map(|input| input.name.as_str()).collect();
        let missing = declared.iter().filter(|input| !input.is_optional).map(|input| &*input.name);
        let missing: Vec<_> = missing.filter(|name| !names.contains(name)).collect();
        let missing = if missing.is_empty() { "]".to_owned() } else { format!("[{}]", quoted(missing)) };
        let expected = if required == declared.len() {
            format!("expected {required} inputs")
        } else {
            format!("expected number of inputs between {required} and {}", declared.len())
        };
        Err(self.failure(&format!(
            "{expected} but got {} inputs for model '{}'. Got input(s) [{}], but missing required input(s) {missing}. Please provide all required input(s).",
            inputs.len(),
            self.model,
            quoted(names),
        )))
    }

    /// The size of the batch dimension, as the wire's 32 bits have it; 1 where there is none.
    fn batch_size(&self, inputs: &[InferInputTensor]) -> Result<u32, Status> {
        let most = self.spec.config.max_batch_size;
        if most == 0 {
            return Ok(1);
        }
        let mut of_all = None;
        for InferInputTensor { name, shape, .. } in inputs {
            let Some(size) = shape.first() else {
                let text =
                    format!("input '{name}' has no shape but model requires batch dimension for '{}'", self.model);
                return Err(self.failure(&text));
            };
            #[expect(clippy::cast_possible_truncation, reason = "so does the real server")]
            let size = *size as i32;
            if *of_all.get_or_insert(size) != size {
                let text = format!("input '{name}' batch size does not match other inputs for '{}'", self.model);
                return Err(self.failure(&text));
            }
        }
        let size = of_all.unwrap_or(1);
        if size > most {
            return Err(self.failure(&format!("inference request batch-size must be <= {most} for '{}'", self.model)));
        }
        Ok(size.cast_unsigned())
    }

    fn input(&self, input: InferInputTensor, data: Vec<u8>, batch_size: u32) -> Result<(Arc<str>, Tensor), Status> {
        let (InferInputTensor { name, datatype, shape, .. }, model) = (input, self.model);
        let Some(declared) = self.spec.inputs.iter().find(|declared| *declared.name == *name) else {
            return Err(Status::invalid_argument(format!("unexpected inference input '{name}' for model '{model}'")));
        };
        if declared.datatype.name() != datatype {
            let (got, expects) = (known(&datatype), declared.datatype);
            let text =
                format!("inference input '{name}' data-type is '{got}', but model '{model}' expects '{expects}'");
            return Err(self.failure(&text));
        }
        self.check_shape(declared, &shape)?;
        let own = if self.spec.batches() { shape.get(1..).unwrap_or_default() } else { &shape[..] };
        if own.contains(&-1) {
            let got = listed(&shape);
            return Err(self.failure(&format!(
                "All input dimensions should be specified for input '{name}' for model '{model}', got {got}"
            )));
        }
        self.check_data(declared, own, &data, batch_size)?;
        Ok((declared.name.clone(), Tensor { datatype: declared.datatype, shape, data }))
    }

    fn check_data(&self, declared: &TensorSpec, own: &[i64], data: &[u8], batch_size: u32) -> Result<(), Status> {
        // A product that does not fit into 64 bits differs from any data's length, and so does one of negative sizes.
        let elements = own.iter().fold(i64::from(batch_size.max(1)), |product, size| product.saturating_mul(*size));
        let has_negative = own.iter().any(|size| *size < 0);
        let Some(size) = declared.datatype.size() else {
            return self.check_texts(declared, if has_negative { i64::MAX } else { elements }, data);
        };
        let expected = elements.saturating_mul(i64::try_from(size).unwrap_or(i64::MAX));
        if i64::try_from(data.len()) == Ok(expected) && !has_negative {
            return Ok(());
        }
        Err(self.failure(&format!(
            "input byte size mismatch for input '{}' for model '{}'. Expected {expected}, got {}",
            declared.name,
            self.model,
            data.len()
        )))
    }

    /// Texts are counted. One whose length is more than what is left is the last, and the model's affair.
    fn check_texts(&self, declared: &TensorSpec, expected: i64, data: &[u8]) -> Result<(), Status> {
        let of = format!("for inference input '{}' for model '{}'", declared.name, self.model);
        let got = i64::try_from(texts(data).count()).unwrap_or(i64::MAX);
        let whole: usize = texts(data).flatten().map(|text| text.len() + LENGTH_BYTES).sum();
        let left = data.len() - whole;
        if (1..LENGTH_BYTES).contains(&left) {
            return Err(self.failure(&format!(
                "incomplete string length indicator {of}, expecting {LENGTH_BYTES} bytes but only {left} bytes \
                 available. Please make sure the string length indicator is in one buffer."
            )));
        }
        if got > expected {
            let got = expected + 1;
            let text = format!("unexpected number of string elements {got} {of}, expecting {expected}");
            return Err(self.failure(&text));
        }
        if got < expected {
            return Err(self.failure(&format!("expected {expected} string elements {of}, got {got}")));
        }
        Ok(())
    }

    fn check_shape(&self, declared: &TensorSpec, shape: &[i64]) -> Result<(), Status> {
        // A size of -1, or a batch of any size, is looked at elsewhere.
        let known = self.spec.shape(-1, &declared.dims);
        let fits = known.len() == shape.len()
            && known.iter().zip(shape).all(|(of, size)| *of == -1 || *size == -1 || of == size);
        if fits {
            return Ok(());
        }
        let note = if self.spec.batches() {
            "NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
        } else {
            ""
        };
        Err(self.failure(&format!(
            "unexpected shape for input '{}' for model '{}'. Expected {}, got {}. {note}",
            declared.name,
            self.model,
            listed(&known),
            listed(shape)
        )))
    }
}

fn listed(shape: &[i64]) -> String {
    format!("[{}]", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}
