//! The flags of `sequence-stress replay`.

use std::{env, num::NonZeroU32, path::PathBuf, time::Duration};

use clap::Args;

use super::{
    AccessArgs,
    endpoint::{METRICS_VARIABLE, URL_VARIABLE},
    quoted,
    values::{metrics, some_seconds, whole},
};
use workload::endpoint::{Endpoint, Endpoints};

/// What stands below the options of `replay --help`.
const REPLAYED: &str = "\
The file fixes what the client sends. The server's own timing differs from run to run, so a failure may need \
several runs. If the failure was found with --embedded, each run starts its own reference server. Otherwise each \
run uses its own correlation IDs.

Exit codes:
  0  it did not fail
  1  it failed, or failed otherwise than the file says
  2  the command line or the file is wrong
  3  interrupted
  4  could not test";

/// How long a measurement begins runs where nothing else is asked for.
const TIME_LIMIT: &str = "10m";

/// How to repeat a failure.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Clone, Debug, Args)]
#[command(after_help = REPLAYED)]
pub struct ReplayArgs {
    /// The failure file, as --failure writes it
    pub file: PathBuf,
    /// Number of runs; with --shrink, runs per candidate; with --window, runs per length of a gap [default: 1; with --shrink, 3;
    /// with --window, 10]
    #[arg(short = 'n', long, value_parser = whole::<NonZeroU32>, value_name = "K", allow_negative_numbers = true)]
    pub runs: Option<NonZeroU32>,
    /// Replay without pauses, each conversation as soon as its worker is free [default: at the recorded times]
    #[arg(long)]
    pub at_once: bool,
    /// Print the messages of the last failing run as a chart, however many they are [default: up to 40 messages]
    #[arg(long)]
    pub chart: bool,
    /// Remove workers, sequences, messages, pauses and client faults while the failure still occurs; print the rest as a chart
    /// and write it to a file. Embedded faults of the form NAME:once@N move earlier, or go
    #[arg(long)]
    pub shrink: bool,
    /// With --shrink: a candidate counts as failing if it fails in N of K runs [default: more than half, or as often as the
    /// whole failure]
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", requires = "shrink", allow_negative_numbers = true)]
    pub at_least: Option<NonZeroU32>,
    /// Make each gap between two acts shorter and longer, and say in which gaps it fails
    #[arg(long, conflicts_with_all = ["shrink", "record", "chart"])]
    pub window: bool,
    /// With --window: measure only the gap with this number
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N", requires = "window", allow_negative_numbers = true)]
    pub gap: Option<NonZeroU32>,
    /// With --window: begin no run after this time
    #[arg(long, value_parser = some_seconds, value_name = "TIME", default_value = TIME_LIMIT, requires = "window")]
    pub time_limit: Duration,
    /// With --window: write what was measured to FILE as JSON (docs/window.schema.json)
    #[arg(long, value_name = "FILE", requires = "window")]
    pub json: Option<PathBuf>,
    /// Write into FILE how often it failed on this server, the model's configuration and the chart, for `export --format issue`
    #[arg(long, conflicts_with = "shrink")]
    pub record: bool,
    /// With --shrink: largest number of candidates
    #[arg(long, value_parser = whole::<u32>, value_name = "N", default_value_t = 20_000, requires = "shrink")]
    pub trials: u32,
    /// With --shrink: write the result to FILE [default: the name of the failure file with .small before its ending]
    #[arg(short, long, value_name = "FILE", requires = "shrink")]
    pub output: Option<PathBuf>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// Endpoint of the server [default: SEQUENCE_STRESS_URL of the environment; an embedded server, if the failure was found
    /// there; or the endpoint in the file]
    #[arg(short, long, value_name = "ENDPOINT", value_delimiter = ',', env = URL_VARIABLE)]
    pub url: Vec<Endpoint>,
    #[expect(clippy::doc_markdown, reason = "clap shows it as it is")]
    /// The server's metrics, to find requests that stay pending [default: SEQUENCE_STRESS_METRICS of the environment, if the
    /// endpoint comes from there; none with --url; or the file's]
    #[arg(long, value_name = "HOST:PORT", value_parser = metrics)]
    pub metrics_url: Option<Endpoint>,
    /// The golden file that the run was judged by, of a model without a formula
    #[arg(long, value_name = "FILE")]
    pub golden: Option<PathBuf>,
    /// Reload the model before each run, so that damage of one run does not reach the next (needs Triton's
    /// --model-control-mode=explicit)
    #[arg(long)]
    pub reload: bool,
    /// Print only the verdict
    #[arg(short, long)]
    pub quiet: bool,
    /// Authentication and TLS; header values are in no file, so they have to be given again.
    #[command(flatten)]
    pub access: AccessArgs,
}

impl ReplayArgs {
    /// The endpoints that flags or the environment name.
    pub fn endpoints(&self) -> Option<Endpoints> {
        Endpoints::try_from(self.url.clone()).ok()
    }

    /// Where the server that `--url` names tells its metrics: the environment's address belongs to the environment's endpoint.
    pub fn metrics(&self) -> Option<Endpoint> {
        let of_the_environment =
            || metrics(&env::var(METRICS_VARIABLE).ok().filter(|_| self.is_of_the_environment())?).ok();
        self.metrics_url.clone().or_else(of_the_environment)
    }

    /// Whether the environment names the same endpoints.
    pub fn is_of_the_environment(&self) -> bool {
        let url = env::var(URL_VARIABLE).ok().and_then(|text| text.parse::<Endpoints>().ok());
        url.is_some_and(|url| self.url == url.all())
    }

    /// The words that measure the same gaps again, quoted for a shell. They name no server if `has_starter`: what starts one again names
    /// it in the environment.
    pub fn window_words(&self, has_starter: bool) -> Vec<String> {
        let file = self.file.display().to_string();
        // A name that begins like a flag would be one.
        let file = if file.starts_with('-') { format!("./{file}") } else { file };
        let mut words = vec!["replay".to_owned(), quoted(&file), "--window".to_owned()];
        words.extend(self.runs.map(|runs| format!("-n {runs}")));
        words.extend(self.gap.map(|gap| format!("--gap {gap}")));
        let is_default = some_seconds(TIME_LIMIT) == Ok(self.time_limit);
        words.extend((!is_default).then(|| format!("--time-limit {}s", self.time_limit.as_secs())));
        let flags = [(self.at_once, "--at-once"), (self.reload, "--reload")];
        words.extend(flags.into_iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| flag.to_owned()));
        words.extend(self.golden.as_ref().map(|path| format!("--golden {}", quoted(&path.display().to_string()))));
        if !has_starter {
            words.extend(self.url.iter().map(|url| format!("-u {}", quoted(&url.to_string()))));
        }
        let metrics = if has_starter { self.metrics_url.clone() } else { self.metrics() };
        words.extend(metrics.map(|metrics| format!("--metrics-url {}", quoted(&metrics.to_string()))));
        words.extend(self.access.words().into_iter().map(|(flag, value)| format!("{flag} {}", quoted(&value))));
        words
    }
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;
    use crate::cli::{Cli, Command};

    fn read(words: &[&str]) -> ReplayArgs {
        let words = ["sequence-stress", "replay"].iter().chain(words).map(Into::into);
        let Some(Command::Replay(args)) = Cli::of(words).expect("flags").command else { panic!("another command") };
        *args
    }

    /// The words as a shell splits them.
    #[cfg(unix)]
    fn split(line: &str) -> Vec<String> {
        let output = process::Command::new("sh").arg("-c").arg(format!("printf '%s\\n' {line}")).output();
        let text = String::from_utf8(output.expect("a shell").stdout).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }

    #[cfg(unix)]
    #[test]
    fn the_words_of_a_window_measure_the_same_again() {
        for words in [
            &["a b's $x.toml", "--window"][..],
            &[
                "x.toml",
                "--window",
                "-n",
                "7",
                "--gap",
                "2",
                "--time-limit",
                "90s",
                "--at-once",
                "--golden",
                "a b.json",
            ],
            &[
                "x.toml",
                "--window",
                "--reload",
                "-u",
                "[::1]:8001,h:2",
                "--metrics-url",
                "[::1]:8002",
                "-H",
                "x-key: $KEY",
            ],
            &["x.toml", "--window", "--ca", "my ca.pem", "--server-name", "triton", "--compression", "gzip"],
        ] {
            let args = read(words);
            let again = split(&args.window_words(false).join(" "));
            assert_eq!(again[0], "replay");
            let again = read(&again[1..].iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(format!("{again:?}"), format!("{args:?}"));
        }
        let dashed = read(&["--window", "-u", "h:1", "--", "-x.toml"]);
        assert_eq!(dashed.window_words(true).join(" "), "replay ./-x.toml --window");
    }
}
