//! The flags that say which models are written, and what they are like.

use std::{fs, num::NonZeroU32, path::PathBuf, time::Duration};

use clap::Args;

use super::values::{any_milliseconds, milliseconds, share, time, whole};
use models::{Backend, ControlType, CorridType, Dtype, Family, Form, InitialState, Matrix, ModelOptions, Options};
use workload::{model::Strategy, scenario::Millis};

/// What stands below the options.
const BELOW: &str = "\
Families, and where their state is kept:
  sequence       the running sum (START, READY; Direct). In the model: OpenVINO
                 (ReadValue, Assign), TorchScript (a buffer), SavedModel (a
                 variable), each by row; Python; native. ONNX, GraphDef and
                 TensorRT keep nothing: READY * (INPUT + START)
  dyna_sequence  the running sum, and CORRID at END besides (START, END, READY,
                 CORRID; Oldest). In the model by CORRID: Python; native. No
                 other keeps anything by ID: READY * (INPUT + START) + END * CORRID
  implicit       the running sum, kept by the server (INPUT_STATE,
                 OUTPUT_STATE). The Python backend has none
  dyna_implicit  the same under Oldest
Further ones, with which this project tests itself: stateless, dyna_stateless
(every backend), oldest, ragged (Python, native), echo, dyna_echo, decoupled,
decoupled_oldest, iterative (native).
Each config.pbtxt names its formula in sequence_stress_formula. What a format
does not hold is left out, and why is said. TensorRT: model.onnx is written, and
trtexec is run where it is there; its command is at the top of config.pbtxt.

Exit codes: 0 written, 2 the command line is wrong, there is no such model, or
nothing could be written, 4 all is written and trtexec made no plan of some of it";

/// Which models are written, and where.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Clone, Debug, Args)]
#[command(after_help = BELOW)]
pub struct RepositoryArgs {
    /// The folder, which is empty or not there yet
    #[arg(required_unless_present = "list")]
    pub folder: Option<PathBuf>,
    /// The families, such as sequence,implicit, or all [default: the first four below]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = several::<Family>)]
    pub family: Vec<Several<Family>>,
    /// The backends: onnxruntime, openvino, pytorch, tensorflow (which is savedmodel,graphdef), tensorrt, python, native or all [default:
    /// all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = several::<Backend>)]
    pub backend: Vec<Several<Backend>>,
    /// The data types.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = several::<Dtype>, help = dtypes())]
    pub dtype: Vec<Several<Dtype>>,
    /// The full matrix: the four families, all backends and data types, with a batch dimension and without, of one element and of any
    /// number; what is given besides narrows it, or goes for all of it
    #[arg(long)]
    pub all: bool,
    /// Without a batch dimension
    #[arg(long)]
    pub nobatch: bool,
    /// INPUT and OUTPUT of any number of elements, [-1], in place of one, [1]; native and Python models that keep their own state have that anyway
    #[arg(long)]
    pub variable: bool,
    /// The strategy of all of them [default: what the family has]
    #[arg(long, value_enum, ignore_case = true)]
    pub strategy: Option<Strategy>,
    /// What state begins with: none is 0 where models keep it and undefined where the server does; zero is what the server
    /// gives; file is 1000 (of 8 bits and of float16 100), or --initial-state-file
    #[arg(long, value_enum, ignore_case = true)]
    pub initial_state: Option<InitialChoice>,
    /// The bytes of the one element that state begins with, as the server reads them: of texts, a length of 4 bytes before a decimal number
    #[arg(long, value_name = "FILE")]
    pub initial_state_file: Option<PathBuf>,
    /// Let the server use one buffer for the state that goes in and the one that comes out (servers from 24.01)
    #[arg(long)]
    pub single_buffer: bool,
    /// The type of START, END and READY [default: int32; of dtype bool, bool]
    #[arg(long, value_enum, ignore_case = true, value_name = "TYPE")]
    pub control: Option<ControlType>,
    /// The type of CORRID [default: uint64; of TorchScript int64, of TensorRT int32]
    #[arg(long, value_enum, ignore_case = true, value_name = "TYPE")]
    pub corrid: Option<CorridType>,
    /// Instances of each model
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true, default_value = "1")]
    pub instances: NonZeroU32,
    /// The most requests of one execution; with Direct, the slots of an instance
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true, default_value = "8")]
    pub max_batch_size: NonZeroU32,
    /// With Oldest, the slots of an instance [default: as --max-batch-size]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", allow_negative_numbers = true)]
    pub candidates: Option<NonZeroU32>,
    /// The idle limit, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = milliseconds, default_value = "5s")]
    pub idle_limit: Millis,
    /// How long the scheduler may hold a batch back [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub queue_delay: Option<Duration>,
    /// With Direct: the share of slots, from 0 to 1, for which no batch is held back [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub minimum_slot_utilization: Option<f32>,
    /// With Oldest: batch sizes for which no batch is held back, such as 2,4
    #[arg(long, value_name = "LIST", value_parser = whole::<NonZeroU32>, value_delimiter = ',')]
    pub preferred_batch_size: Vec<NonZeroU32>,
    /// How long an execution takes, such as 3ms or 3, which are milliseconds; of native and Python models
    #[arg(long, value_name = "MS", value_parser = execution, default_value = "3")]
    pub execution_ms: Duration,
    /// A parameter for each configuration (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub parameter: Vec<(String, String)>,
    /// What names begin with in place of what the backend says, such as 'custom'
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// Names that do not say what is implicit, initial, in a single buffer or variable, as in Triton's own repositories, of which it has one for each of
    /// these
    #[arg(long)]
    pub plain_names: bool,
    /// The release that they are for, such as 24.10: what its server does not know is left out
    #[arg(long, value_name = "YEAR.MONTH", value_parser = release)]
    pub release: Option<String>,
    /// The models that this project tests itself with in place of the families, of the native backend or of the Python one
    #[arg(long, conflicts_with_all = ["family", "all", "nobatch", "variable", "initial_state", "initial_state_file", "single_buffer", "strategy", "plain_names"])]
    pub tester: bool,
    /// Print what would be written, a line each, and write nothing
    #[arg(long)]
    pub list: bool,
    /// Write into a folder that is not empty: models of the same names are replaced, the others stay
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

/// What has a name on the command line.
pub(super) trait Named: Copy + 'static {
    /// All there are.
    const EACH: &'static [Self];
    /// Words for several of them.
    const GROUPS: &'static [(&'static str, &'static [Self])];

    /// Its name.
    fn named(self) -> &'static str;
}

impl Named for Family {
    const EACH: &'static [Self] = &Self::ALL;
    const GROUPS: &'static [(&'static str, &'static [Self])] = &[("all", &Self::ALL)];

    fn named(self) -> &'static str {
        self.name()
    }
}

impl Named for Backend {
    const EACH: &'static [Self] = &Self::ALL;
    const GROUPS: &'static [(&'static str, &'static [Self])] =
        &[("tensorflow", &[Self::Savedmodel, Self::Graphdef]), ("all", &Self::ALL)];

    fn named(self) -> &'static str {
        self.name()
    }
}

impl Named for Dtype {
    const EACH: &'static [Self] = &Self::ALL;
    const GROUPS: &'static [(&'static str, &'static [Self])] = &[("all", &Self::ALL)];

    fn named(self) -> &'static str {
        self.name()
    }
}

fn several<T: Named + Send + Sync>(word: &str) -> Result<Several<T>, String> {
    let one = T::EACH.iter().find(|one| one.named() == word).map(|one| vec![*one]);
    let group = || T::GROUPS.iter().find(|(name, _)| *name == word).map(|(_, several)| several.to_vec());
    one.or_else(group).map(Several).ok_or_else(|| {
        let names: Vec<_> =
            T::EACH.iter().map(|one| one.named()).chain(T::GROUPS.iter().map(|(name, _)| *name)).collect();
        format!("there are {}", names.join(", "))
    })
}

fn dtypes() -> String {
    let names: Vec<_> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
    format!("The data types: {} (INT32 with BOOL controls) or all [default: int32]", names.join(", "))
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
fn all_of<T: Named + PartialEq>(words: &[Several<T>], otherwise: &[T]) -> Vec<T> {
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
        let dtypes = if self.all { &Dtype::ALL[..] } else { &[Dtype::Int32] };
        let backends = all_of(&self.backend, if self.tester { &[Backend::Native] } else { &Backend::ALL });
        if self.tester && !matches!(backends[..], [Backend::Native | Backend::Python]) {
            return Err("--tester is of one backend, native or python".to_owned());
        }
        Ok(Matrix { backends, dtypes: all_of(&self.dtype, dtypes), forms: self.forms()?, options: self.options() })
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
            prefix: self.prefix.clone(),
            plain_names: self.plain_names,
            release: self.release.clone(),
        }
    }
}
