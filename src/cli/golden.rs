//! The flags that concern models without a formula.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::{Arg, Args, Command, Subcommand};

use super::{EndpointArgs, values::whole};
use crate::golden::Asked;
use oracle::golden::Compare;
use workload::{
    inputs::{Options, random::RangeArg, shape::ShapeArg},
    seed::Seed,
};

/// What stands below the options of `golden --help`.
const GOLDEN: &str = "\
The server has to be idle. Tracks of inputs are sent alone, in full batches and beside each other, so that the file says how \
exactly the model answers, and which faults its outputs show.

Exit codes:
  0  the file was written
  2  the command line or a file is wrong
  3  the file was written, and a run with it cannot be valid: the model is not deterministic enough, its states look alike, or
     its outputs show none
  4  the server or the model could not be asked";

/// What stands below the options of `golden verify --help`.
const VERIFIED: &str = "\
Without --model the golden file's model is asked.

Exit codes:
  0  the server answers the same
  1  outputs differ
  2  the command line or a file is wrong
  3  nothing was compared, because the file has no output that is judged
  4  the server or the model could not be asked, or the file is of another model";

/// The options of an endpoint that a calibration has no use for.
const OF_RUNS: &[&str] =
    &["metrics_url", "server_pid", "server_memory", "restart_command", "formula", "initial_state", "responses"];

/// Without the options that do nothing here.
pub(super) fn without_those_of_runs(command: Command) -> Command {
    let hidden = |arg: Arg| if OF_RUNS.contains(&arg.get_id().as_str()) { arg.hide(true) } else { arg };
    command.mut_args(hidden).mut_subcommands(move |command| command.mut_args(hidden))
}

/// What `sequence-stress golden` needs.
#[derive(Clone, Debug, Args)]
#[command(after_help = GOLDEN, args_conflicts_with_subcommands = true)]
pub struct GoldenArgs {
    /// Without a subcommand: calibrate.
    #[command(flatten)]
    pub calibrate: CalibrateArgs,
    /// Something else.
    #[command(subcommand)]
    pub command: Option<GoldenCommand>,
}

/// What else can be done with a golden file.
#[derive(Clone, Debug, Subcommand)]
pub enum GoldenCommand {
    /// Send each track of a golden file once, and say whether the server still answers the same
    Verify(Box<VerifyArgs>),
}

/// What a calibration needs.
#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs {
    /// The server.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
    /// What is sent.
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Write the golden outputs to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What a verification needs. Where no model is named, it is the golden file's.
#[derive(Clone, Debug, Args)]
#[command(after_help = VERIFIED)]
pub struct VerifyArgs {
    /// The golden file
    pub file: PathBuf,
    /// The server.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
}

/// Where inputs come from, and how outputs are compared.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Models without a formula")]
pub struct InputArgs {
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// Read tracks of inputs from a JSON file of perf_analyzer, .npz or .npy files, or a recording of the proxy [default: random ones]
    #[arg(long, value_name = "FILE|DIR")]
    pub inputs: Option<PathBuf>,
    /// Sizes of an input's open dimensions, such as INPUT:1,16000
    #[arg(long = "shape", value_name = "INPUT:SIZES", id = "input shapes")]
    pub shapes: Vec<ShapeArg>,
    /// From where to where the elements of a random input are, such as INPUT:-1..1
    #[arg(long = "range", value_name = "INPUT:MIN..MAX", allow_hyphen_values = true)]
    pub ranges: Vec<RangeArg>,
    /// Number of tracks [default: all of the file; 32 random ones]
    #[arg(long, value_name = "N", value_parser = whole::<NonZeroUsize>)]
    pub tracks: Option<NonZeroUsize>,
    /// Steps of each track; shorter ones go on from their beginning [default: the longest sequence of the scenario]
    #[arg(long, value_name = "N", value_parser = whole::<NonZeroUsize>)]
    pub steps: Option<NonZeroUsize>,
    /// Seed of random inputs [default: 0]
    #[arg(long, value_name = "SEED", value_parser = whole::<u64>, default_value_t = 0, hide_default_value = true)]
    pub inputs_seed: u64,
    /// How an output is compared: exact, rtol:X, atol:X, cosine:X or ignore [default: as measured]
    #[arg(long, value_name = "OUTPUT=RULE")]
    pub compare: Vec<CompareArg>,
}

/// `OUTPUT=RULE`.
#[derive(Clone, Debug)]
pub struct CompareArg(String, Compare);

impl FromStr for CompareArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (output, rule) = text.rsplit_once('=').ok_or("give OUTPUT=RULE, such as OUTPUT=rtol:1e-3")?;
        Ok(Self(output.to_owned(), rule.parse()?))
    }
}

impl InputArgs {
    /// Whether none of them is given.
    pub fn is_empty(&self) -> bool {
        let Self { inputs, shapes, ranges, tracks, steps, inputs_seed, compare } = self;
        inputs.is_none()
            && shapes.is_empty()
            && ranges.is_empty()
            && tracks.is_none()
            && steps.is_none()
            && *inputs_seed == 0
            && compare.is_empty()
    }

    /// The file or folder that is read, with its flag.
    pub fn file(&self) -> Option<(&'static str, &Path)> {
        self.inputs.as_deref().map(|path| ("inputs", path))
    }

    /// What is asked of the model.
    pub fn asked(&self) -> Asked {
        Asked {
            inputs: self.inputs.clone(),
            options: Options {
                batches: false,
                model: None,
                optional: Vec::new(),
                shapes: self.shapes.clone(),
                ranges: self.ranges.clone(),
                tracks: self.tracks,
                steps: self.steps,
                seed: Seed(self.inputs_seed),
            },
            compare: self.compare.iter().map(|CompareArg(output, rule)| (output.clone(), *rule)).collect(),
        }
    }
}

/// What is expected of a run's model.
#[derive(Clone, Debug, Default, Args)]
pub struct ExpectArgs {
    /// Judge the model's outputs by a golden file, as `sequence-stress golden` writes it; auto makes one before the run
    #[arg(long, value_name = "FILE|auto", help_heading = "What to check", conflicts_with = "expect")]
    pub golden: Option<PathBuf>,
    /// none: judge everything but the content of outputs, for a model without a formula and a golden file
    #[arg(long, value_name = "none", value_parser = ["none"], help_heading = "What to check")]
    pub expect: Option<String>,
    /// Send recorded tracks at N times the pace of their recording [default: each step as soon as it can be sent]
    #[arg(long, value_name = "N", value_parser = pace, requires = "golden", help_heading = "Load")]
    pub pace: Option<f64>,
    /// What is sent.
    #[command(flatten)]
    pub inputs: InputArgs,
}

fn pace(text: &str) -> Result<f64, String> {
    let times = text.parse().ok().filter(|times: &f64| times.is_finite() && *times > 0.0);
    times.ok_or_else(|| "give a number above 0, such as 2 for twice as fast".to_owned())
}

/// Where a run's expectation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected<'a> {
    /// A formula.
    Formula,
    /// A golden file.
    File(&'a Path),
    /// A calibration before the run.
    Auto,
    /// Nothing of the content.
    Nothing,
}

impl ExpectArgs {
    /// The files that are read, each with its flag.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let golden = match self.expected() {
            Expected::File(path) => Some(("golden", path)),
            Expected::Formula | Expected::Auto | Expected::Nothing => None,
        };
        golden.into_iter().chain(self.inputs.file())
    }

    /// Where the expectation comes from.
    pub fn expected(&self) -> Expected<'_> {
        match (&self.golden, &self.expect) {
            (Some(path), _) if path.as_os_str() == "auto" => Expected::Auto,
            (Some(path), _) => Expected::File(path),
            (None, Some(_)) => Expected::Nothing,
            (None, None) => Expected::Formula,
        }
    }

    /// The flags that say it.
    pub fn words(&self) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        let mut words = Vec::new();
        let mut flag = |name: &str, value: String| words.push(format!("{name} {}", super::quoted(&value)));
        if let Some(path) = &self.golden {
            flag("--golden", shown(path));
        }
        if let Some(expect) = &self.expect {
            flag("--expect", expect.clone());
        }
        if let Some(pace) = self.pace {
            flag("--pace", pace.to_string());
        }
        let InputArgs { inputs, shapes, ranges, tracks, steps, inputs_seed, compare } = &self.inputs;
        if let Some(path) = inputs {
            flag("--inputs", shown(path));
        }
        for shape in shapes {
            flag("--shape", shape.to_string());
        }
        for range in ranges {
            flag("--range", range.to_string());
        }
        if let Some(tracks) = tracks {
            flag("--tracks", tracks.to_string());
        }
        if let Some(steps) = steps {
            flag("--steps", steps.to_string());
        }
        if *inputs_seed != 0 {
            flag("--inputs-seed", inputs_seed.to_string());
        }
        for CompareArg(output, rule) in compare {
            flag("--compare", format!("{output}={rule}"));
        }
        words
    }
}
