//! The flags that say which models are written, and what they are like.

use std::{fmt::Display, fs, num::NonZeroU32, path::PathBuf, time::Duration};

use clap::Args;

use super::values::{any_milliseconds, milliseconds, share, time, whole};
use models::{
    Backend, ControlType, CorridType, Dtype, Extra, Family, Form, InitialState, Matrix, ModelOptions, Options,
};
use workload::{model::Strategy, scenario::Millis};

/// What stands below the options.
const BELOW: &str = "\
Families:
  sequence       running sum; controls START, READY; Direct. The model keeps the
                 state: OpenVINO, TorchScript, SavedModel (by batch row), Python,
                 native. ONNX, GraphDef and TensorRT keep no state and compute
                 READY * (INPUT + START)
  dyna_sequence  running sum, plus CORRID at END; controls START, END, READY,
                 CORRID; Oldest. The model keeps the state by CORRID: Python,
                 native. Others compute READY * (INPUT + START) + END * CORRID
  implicit       running sum; the server keeps the state (INPUT_STATE,
                 OUTPUT_STATE). Not on the Python backend
  dyna_implicit  the same under Oldest
  gru, lstm, conv, two_state
                 networks with seeded weights, and no formula: float32, ONNX, state
                 kept by the server from zeros. Direct; with dyna_ before the name,
                 Oldest. conv keeps the last 32 frames of INPUT
The project's own tests use further families: stateless, dyna_stateless (every
backend), oldest, ragged (Python, native), echo, dyna_echo, decoupled,
decoupled_oldest, iterative, two_state, dyna_two_state, two_state_crossed,
dyna_two_state_crossed (native).

The parameter sequence_stress_formula of each config.pbtxt names the formula. The
command leaves out what a format cannot hold, and prints why. For TensorRT it
writes model.onnx and runs trtexec, if present; config.pbtxt has the command.

Exit codes:
  0  written
  2  the command line is wrong, no such model, or the folder cannot be written
  4  written, but trtexec failed for some models";

/// Which models are written, and where.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Clone, Debug, Args)]
#[command(after_help = BELOW)]
pub struct RepositoryArgs {
    /// Folder to write; it must be empty or absent
    #[arg(required_unless_present = "list")]
    pub folder: Option<PathBuf>,
    /// Families, such as sequence,implicit, or all [default: the first four below]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = family)]
    pub family: Vec<Several<Family>>,
    /// Backends: onnxruntime, openvino, pytorch, tensorflow (savedmodel and graphdef), tensorrt, python, native or all
    /// [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = backend)]
    pub backend: Vec<Several<Backend>>,
    /// The data types.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = dtype, help = dtypes())]
    pub dtype: Vec<Several<Dtype>>,
    /// Write the whole matrix: four families, all backends and data types, with and without batch dimension, of one element
    /// and of variable size; other options narrow it
    #[arg(long)]
    pub all: bool,
    /// Write models without a batch dimension
    #[arg(long)]
    pub nobatch: bool,
    /// Give INPUT and OUTPUT the shape [-1] instead of [1]; native and Python models with their own state always have it
    #[arg(long)]
    pub variable: bool,
    /// Elements of INPUT and OUTPUT of the networks, 1 to 1024 [default: 16]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub width: Option<NonZeroU32>,
    /// Strategy of all models [default: that of the family]
    #[arg(long, value_enum, ignore_case = true)]
    pub strategy: Option<Strategy>,
    /// State of a new sequence. none: 0 if the model keeps the state, undefined if the server does; zero: set by the server;
    /// file: 1000 (100 for 8 bits and float16), or --initial-state-file
    #[arg(long, value_enum, ignore_case = true)]
    pub initial_state: Option<InitialChoice>,
    /// File with the one element of the initial state, as the server reads it; a text has its length in 4 bytes first
    #[arg(long, value_name = "FILE")]
    pub initial_state_file: Option<PathBuf>,
    /// Let the server use one buffer for input and output state (servers from 24.01)
    #[arg(long)]
    pub single_buffer: bool,
    /// Type of START, END and READY [default: int32; with --dtype bool, bool]
    #[arg(long, value_enum, ignore_case = true, value_name = "TYPE")]
    pub control: Option<ControlType>,
    /// Type of CORRID [default: uint64; int64 for TorchScript, int32 for TensorRT]
    #[arg(long, value_enum, ignore_case = true, value_name = "TYPE")]
    pub corrid: Option<CorridType>,
    /// Number of versions of each model, all of which the server serves
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true, default_value = "1")]
    pub versions: NonZeroU32,
    /// Number of instances of each model
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true, default_value = "1")]
    pub instances: NonZeroU32,
    /// Largest batch; with Direct, the number of slots of each instance
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true, default_value = "8")]
    pub max_batch_size: NonZeroU32,
    /// With Oldest: the number of slots of each instance [default: as --max-batch-size]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub candidates: Option<NonZeroU32>,
    /// Idle limit, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = milliseconds, default_value = "5s")]
    pub idle_limit: Millis,
    /// Longest wait for more requests before an execution [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub queue_delay: Option<Duration>,
    /// With Direct: from this share of slots on, 0 to 1, an execution does not wait [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub minimum_slot_utilization: Option<f32>,
    /// With Oldest: at these batch sizes an execution does not wait, such as 2,4
    #[arg(long, value_name = "LIST", value_parser = whole::<NonZeroU32>, value_delimiter = ',')]
    pub preferred_batch_size: Vec<NonZeroU32>,
    /// Duration of one execution of native and Python models, such as 3ms, or 3 in milliseconds
    #[arg(long, value_name = "MS", value_parser = execution, default_value = "3")]
    pub execution_ms: Duration,
    /// Add parts to each configuration. warmup: the server sends a request of zeros first; rate-limiter: one resource for all
    /// instances (--rate-limit=execution_count); preserve-ordering: with Oldest; priority: the highest
    #[arg(long, value_enum, ignore_case = true, value_name = "LIST", value_delimiter = ',')]
    pub extra: Vec<Extra>,
    /// Add a parameter to each configuration (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub parameter: Vec<(String, String)>,
    /// First part of each model's name, such as custom [default: the backend's]
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// Leave implicit, initial, single buffer and variable out of the names, as Triton's own repositories do
    #[arg(long)]
    pub plain_names: bool,
    /// Leave out what the server of this release does not know, such as 24.10
    #[arg(long, value_name = "YEAR.MONTH", value_parser = release)]
    pub release: Option<String>,
    /// Write this project's test models instead, for the native or the Python backend
    #[arg(long, conflicts_with_all = ["family", "all", "nobatch", "variable", "initial_state", "initial_state_file", "single_buffer", "strategy", "plain_names"])]
    pub tester: bool,
    /// Print the models that the command would write, and write nothing
    #[arg(long)]
    pub list: bool,
    /// Write into a folder that is not empty; models of other names stay
    #[arg(long)]
    pub force: bool,
}

/// What state begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "the flag says it")]
pub enum InitialChoice {
    None,
    Zero,
    File,
}

/// What a word of a list stands for: a thing, or some.
#[derive(Clone, Debug)]
pub struct Several<T>(Vec<T>);

fn family(word: &str) -> Result<Several<Family>, String> {
    several(word, &Family::ALL, &[])
}

fn backend(word: &str) -> Result<Several<Backend>, String> {
    several(word, &Backend::ALL, &[("tensorflow", &[Backend::Savedmodel, Backend::Graphdef])])
}

fn dtype(word: &str) -> Result<Several<Dtype>, String> {
    several(word, &Dtype::ALL, &[])
}

/// The one of `each` that has this name, or those of a group; `all` is a group, too.
fn several<T: Copy + Display>(word: &str, each: &[T], groups: &[(&str, &[T])]) -> Result<Several<T>, String> {
    let mut choices: Vec<_> = each.iter().map(|one| (one.to_string(), vec![*one])).collect();
    choices.extend(groups.iter().map(|(name, some)| ((*name).to_owned(), some.to_vec())));
    choices.push(("all".to_owned(), each.to_vec()));
    let names: Vec<_> = choices.iter().map(|(name, _)| name.clone()).collect();
    let found = choices.into_iter().find(|(name, _)| name == word);
    found.map(|(_, some)| Several(some)).ok_or_else(|| format!("give one of {}", names.join(", ")))
}

fn dtypes() -> String {
    format!(
        "Data types: {} (INT32 with BOOL controls) or all [default: int32; float32 for networks]",
        Dtype::ALL.map(Dtype::name).join(", ")
    )
}

fn execution(text: &str) -> Result<Duration, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    any_milliseconds(&if is_number { format!("{text}ms") } else { text.to_owned() })
}

fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it has to be NAME=VALUE".to_owned()),
    }
}

fn release(text: &str) -> Result<String, String> {
    let number = |part: &str| part.parse::<u8>().ok().filter(|_| part.len() == 2);
    match text.split_once('.') {
        Some((year, month)) if number(year).is_some() && matches!(number(month), Some(1..=12)) => Ok(text.to_owned()),
        _ => Err("it has to be a year and a month of two digits each, such as 24.10".to_owned()),
    }
}

/// What the words of a list stand for, each once; without words, what is meant by that.
fn all_of<T: Copy + PartialEq>(words: &[Several<T>], otherwise: &[T]) -> Vec<T> {
    let mut all = Vec::new();
    for one in words.iter().flat_map(|Several(some)| some) {
        if !all.contains(one) {
            all.push(*one);
        }
    }
    if words.is_empty() { otherwise.to_vec() } else { all }
}

impl RepositoryArgs {
    /// The models that are asked for.
    ///
    /// # Errors
    /// What does not go together, or a file that cannot be read, in one line.
    pub fn matrix(&self) -> Result<Matrix, String> {
        let dtypes = if self.all { &Dtype::ALL[..] } else { &[] };
        let forms = self.forms()?;
        let backends: &[_] = if self.tester {
            &[Backend::Native]
        } else if forms.iter().any(|form| form.family.has_formula()) {
            &Backend::ALL
        } else {
            &[Backend::Onnxruntime]
        };
        let backends = all_of(&self.backend, backends);
        if self.tester && !matches!(backends[..], [Backend::Native | Backend::Python]) {
            return Err("--tester is of one backend, native or python".to_owned());
        }
        Ok(Matrix { backends, dtypes: all_of(&self.dtype, dtypes), forms, options: self.options() })
    }

    fn forms(&self) -> Result<Vec<Form>, String> {
        if self.tester {
            return Ok(Form::of_tester());
        }
        let initial = self.initial()?;
        let both = |flag: bool| if self.all && !flag { vec![false, true] } else { vec![flag] };
        let mut forms = Vec::new();
        for family in all_of(&self.family, Family::OF_TRITON) {
            for nobatch in both(self.nobatch) {
                for variable in both(self.variable) {
                    let (initial, single_buffer) = (initial.clone(), self.single_buffer);
                    forms.push(Form { family, batches: !nobatch, variable, initial, single_buffer });
                }
            }
        }
        Ok(forms)
    }

    fn initial(&self) -> Result<InitialState, String> {
        let Some(path) = &self.initial_state_file else {
            return Ok(match self.initial_state {
                None | Some(InitialChoice::None) => InitialState::None,
                Some(InitialChoice::Zero) => InitialState::Zero,
                Some(InitialChoice::File) => InitialState::File { data: None },
            });
        };
        if self.initial_state != Some(InitialChoice::File) {
            return Err("--initial-state-file is for --initial-state file".to_owned());
        }
        let data = fs::read(path).map_err(|error| format!("cannot read '{}': {error}", path.display()))?;
        Ok(InitialState::File { data: Some(data) })
    }

    fn options(&self) -> Options {
        let max_batch_size = self.max_batch_size.get();
        Options {
            models: ModelOptions {
                strategy: Strategy::Direct,
                versions: self.versions.get(),
                instances: self.instances.get(),
                max_batch_size,
                candidates: self.candidates.map_or(max_batch_size, NonZeroU32::get),
                idle_limit: self.idle_limit.duration(),
                execution: self.execution_ms,
                queue_delay: self.queue_delay.unwrap_or_default(),
                minimum_slot_utilization: self.minimum_slot_utilization.unwrap_or_default(),
                preferred_batch_sizes: self.preferred_batch_size.iter().map(|size| size.get()).collect(),
            },
            strategy: self.strategy,
            control: self.control,
            corrid: self.corrid,
            parameters: self.parameter.clone(),
            extras: self.extra.clone(),
            prefix: self.prefix.clone(),
            plain_names: self.plain_names,
            release: self.release.clone(),
            network_width: self.width.map(NonZeroU32::get),
        }
    }
}
