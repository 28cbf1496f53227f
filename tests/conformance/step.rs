//! One inference request of a conversation.

use std::{collections::BTreeMap, fmt};

use wire::proto::{
    InferParameter, InferTensorContents, ModelInferRequest,
    infer_parameter::ParameterChoice,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};

use crate::setup::Setup;

/// A correlation ID, as the `sequence_id` parameter carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SequenceId {
    /// The parameter is left out.
    None,
    Number(i64),
    Text(String),
}

impl From<i64> for SequenceId {
    fn from(id: i64) -> Self {
        Self::Number(id)
    }
}

impl From<&str> for SequenceId {
    fn from(id: &str) -> Self {
        Self::Text(id.into())
    }
}

/// How an input's elements travel.
#[derive(Clone, Debug, PartialEq)]
enum Contents {
    /// In `raw_input_contents`, in the type of the input; of floating point and texts the same numbers.
    Raw(Vec<i32>),
    /// The same, of elements that are no INT32.
    Elements(Vec<&'static str>),
    /// In `raw_input_contents`, just these bytes.
    Bytes(Vec<u8>),
    /// In the tensor's own typed contents.
    Typed(Vec<i32>),
    /// Not at all.
    Absent,
}

/// An input tensor.
#[derive(Clone, Debug)]
struct Input {
    name: &'static str,
    /// `None`: the type of the model.
    datatype: Option<&'static str>,
    /// `None`: the shape that the elements have in this model.
    shape: Option<Vec<i64>>,
    contents: Contents,
}

/// A request; by default what the model wants.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    id: SequenceId,
    start: bool,
    end: bool,
    inputs: Vec<Input>,
    outputs: Vec<&'static str>,
    parameters: BTreeMap<&'static str, ParameterChoice>,
    model: Option<&'static str>,
    version: &'static str,
    request_id: Option<&'static str>,
}

/// A step in the middle of a sequence.
pub(crate) fn step(id: impl Into<SequenceId>, value: i32) -> Step {
    Step {
        id: id.into(),
        start: false,
        end: false,
        inputs: vec![Input { name: "INPUT", datatype: None, shape: None, contents: Contents::Raw(vec![value]) }],
        outputs: Vec::new(),
        parameters: BTreeMap::new(),
        model: None,
        version: "",
        request_id: None,
    }
}

/// A sequence's first step.
pub(crate) fn start(id: impl Into<SequenceId>, value: i32) -> Step {
    Step { start: true, ..step(id, value) }
}

/// A sequence's last step.
pub(crate) fn end(id: impl Into<SequenceId>, value: i32) -> Step {
    Step { end: true, ..step(id, value) }
}

/// A sequence of one step.
pub(crate) fn only(id: impl Into<SequenceId>, value: i32) -> Step {
    Step { start: true, end: true, ..step(id, value) }
}

impl Step {
    fn with_input(mut self, change: impl FnOnce(&mut Input)) -> Self {
        change(self.inputs.first_mut().expect("a step has an input until it is taken away"));
        self
    }
}

/// What makes a step differ from what the model wants.
impl Step {
    pub(crate) fn values(self, values: &[i32]) -> Self {
        self.with_input(|input| input.contents = Contents::Raw(values.into()))
    }

    /// Elements of the model's type, as words.
    pub(crate) fn elements(self, elements: &[&'static str]) -> Self {
        self.with_input(|input| input.contents = Contents::Elements(elements.into()))
    }

    pub(crate) fn typed(self, values: &[i32]) -> Self {
        self.with_input(|input| input.contents = Contents::Typed(values.into()))
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Self {
        self.with_input(|input| input.contents = Contents::Bytes(bytes.into()))
    }

    pub(crate) fn no_contents(self) -> Self {
        self.with_input(|input| input.contents = Contents::Absent)
    }

    pub(crate) fn shape(self, shape: &[i64]) -> Self {
        self.with_input(|input| input.shape = Some(shape.into()))
    }

    pub(crate) fn datatype(self, datatype: &'static str) -> Self {
        self.with_input(|input| input.datatype = Some(datatype))
    }

    pub(crate) fn input_name(self, name: &'static str) -> Self {
        self.with_input(|input| input.name = name)
    }

    pub(crate) fn no_inputs(self) -> Self {
        Self { inputs: Vec::new(), ..self }
    }

    pub(crate) fn another_input(mut self, name: &'static str, value: i32) -> Self {
        self.inputs.push(Input { name, datatype: None, shape: None, contents: Contents::Raw(vec![value]) });
        self
    }

    pub(crate) fn output(mut self, name: &'static str) -> Self {
        self.outputs.push(name);
        self
    }

    pub(crate) fn parameter(mut self, name: &'static str, value: ParameterChoice) -> Self {
        self.parameters.insert(name, value);
        self
    }

    pub(crate) fn timeout_ms(self, ms: i64) -> Self {
        self.parameter("timeout", ParameterChoice::Int64Param(ms * 1000))
    }

    pub(crate) fn model(self, model: &'static str) -> Self {
        Self { model: Some(model), ..self }
    }

    pub(crate) fn version(self, version: &'static str) -> Self {
        Self { version, ..self }
    }

    pub(crate) fn request_id(self, id: &'static str) -> Self {
        Self { request_id: Some(id), ..self }
    }
}

impl Step {
    /// The request; `number` is its ID where it names none.
    pub(crate) fn request(&self, setup: &Setup, number: u32) -> ModelInferRequest {
        let mut parameters: BTreeMap<&str, ParameterChoice> = self.parameters.clone();
        match &self.id {
            SequenceId::None => {}
            SequenceId::Number(id) => _ = parameters.insert("sequence_id", ParameterChoice::Int64Param(*id)),
            SequenceId::Text(id) => _ = parameters.insert("sequence_id", ParameterChoice::StringParam(id.clone())),
        }
        for (name, is_set) in [("sequence_start", self.start), ("sequence_end", self.end)] {
            if is_set {
                parameters.insert(name, ParameterChoice::BoolParam(true));
            }
        }
        let parameter = |(name, choice): (&str, ParameterChoice)| {
            (name.to_owned(), InferParameter { parameter_choice: Some(choice) })
        };
        ModelInferRequest {
            model_name: self.model.unwrap_or(setup.model).into(),
            model_version: self.version.into(),
            id: self.request_id.map_or_else(|| number.to_string(), Into::into),
            parameters: parameters.into_iter().map(parameter).collect(),
            inputs: self.inputs.iter().map(|input| input.tensor(setup)).collect(),
            outputs: self.outputs.iter().map(|name| requested(name)).collect(),
            raw_input_contents: self.inputs.iter().filter_map(|input| input.raw(setup)).collect(),
        }
    }
}

fn requested(name: &str) -> InferRequestedOutputTensor {
    InferRequestedOutputTensor { name: name.into(), ..Default::default() }
}

impl Input {
    fn tensor(&self, setup: &Setup) -> InferInputTensor {
        let shape = self.shape.clone().unwrap_or_else(|| self.usual_shape(setup));
        let contents = match &self.contents {
            Contents::Typed(values) => Some(InferTensorContents { int_contents: values.clone(), ..Default::default() }),
            _ => None,
        };
        InferInputTensor {
            name: self.name.into(),
            datatype: self.datatype.unwrap_or(setup.datatype()).into(),
            shape,
            contents,
            ..Default::default()
        }
    }

    fn usual_shape(&self, setup: &Setup) -> Vec<i64> {
        let elements = match &self.contents {
            Contents::Raw(values) | Contents::Typed(values) => values.len(),
            Contents::Elements(elements) => elements.len(),
            Contents::Bytes(bytes) => bytes.len() / size_of::<i32>(),
            Contents::Absent => 1,
        };
        let elements = i64::try_from(elements).expect("few elements");
        if setup.batch > 0 { vec![1, elements] } else { vec![elements] }
    }

    fn raw(&self, setup: &Setup) -> Option<Vec<u8>> {
        // An input that says that it is of another type has the elements of the model's.
        let encoded = |word: &str| encoded(setup.datatype(), word);
        match &self.contents {
            Contents::Raw(values) => Some(values.iter().flat_map(|value| encoded(&value.to_string())).collect()),
            Contents::Elements(elements) => Some(elements.iter().flat_map(|element| encoded(element)).collect()),
            Contents::Bytes(bytes) => Some(bytes.clone()),
            Contents::Typed(_) | Contents::Absent => None,
        }
    }
}

/// An element's bytes, as the protocol has them.
fn encoded(datatype: &str, word: &str) -> Vec<u8> {
    const IS_ONE: &str = "an element of its type";
    match datatype {
        "INT32" => word.parse::<i32>().expect(IS_ONE).to_le_bytes().into(),
        "INT64" => word.parse::<i64>().expect(IS_ONE).to_le_bytes().into(),
        "UINT32" => word.parse::<u32>().expect(IS_ONE).to_le_bytes().into(),
        "UINT64" => word.parse::<u64>().expect(IS_ONE).to_le_bytes().into(),
        "FP32" => word.parse::<f32>().expect(IS_ONE).to_le_bytes().into(),
        "FP64" => word.parse::<f64>().expect(IS_ONE).to_le_bytes().into(),
        "BYTES" => {
            let length = u32::try_from(word.len()).expect("a short text");
            [&length.to_le_bytes()[..], word.as_bytes()].concat()
        }
        other => panic!("no conversation has a model of {other}"),
    }
}

impl fmt::Display for SequenceId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(out, "no ID"),
            Self::Number(id) => write!(out, "{id}"),
            Self::Text(id) if id.len() > 40 => write!(out, "'{}…' ({} bytes)", &id[..8], id.len()),
            Self::Text(id) => write!(out, "'{id}'"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.id)?;
        for (word, is_set) in [(" START", self.start), (" END", self.end)] {
            write!(out, "{}", if is_set { word } else { "" })?;
        }
        for input in &self.inputs {
            write!(out, "{input}")?;
        }
        for name in &self.outputs {
            write!(out, ", wants {name}")?;
        }
        for (name, value) in &self.parameters {
            write!(out, ", {name}={}", crate::transcript::parameter(value))?;
        }
        if let Some(model) = self.model {
            write!(out, ", of model '{model}'")?;
        }
        if !self.version.is_empty() {
            write!(out, ", of version '{}'", self.version)?;
        }
        Ok(())
    }
}

impl fmt::Display for Input {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name != "INPUT" || self.datatype.is_some() || self.shape.is_some() {
            write!(out, ", {} {}", self.name, self.datatype.unwrap_or("INT32"))?;
            if let Some(shape) = &self.shape {
                write!(out, "{shape:?}")?;
            }
        }
        match &self.contents {
            Contents::Raw(values) if values.len() == 1 => write!(out, " {}", values[0]),
            Contents::Raw(values) => write!(out, " {values:?}"),
            Contents::Elements(elements) => write!(out, " {}", elements.join(" ")),
            Contents::Bytes(bytes) => write!(out, " {} bytes", bytes.len()),
            Contents::Typed(values) => write!(out, " typed {values:?}"),
            Contents::Absent => write!(out, " nothing"),
        }
    }
}
