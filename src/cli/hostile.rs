//! What `sequence-stress hostile` needs.

use std::path::PathBuf;

use clap::Args;

use super::{EndpointArgs, values::whole};
use wire::hostile::Hostile;

/// What stands below the options of `hostile --help`.
const ABOUT: &str = "\
Each request goes over HTTP, on a connection of its own, and is a sequence of one step. After each, the sequences of others have to \
go on: some that are live all the time, and one that needs a slot. Use a server that nobody else needs. docs/HOSTILE.md lists the kinds.

Exit codes:
  0  the server and the sequences of others survived
  1  a request ended the server, or harmed the sequences of others
  2  the command line is wrong
  4  the server or the model could not be tested";

/// What hostile requests need.
#[derive(Clone, Debug, Args)]
#[command(after_help = ABOUT, next_help_heading = "Load")]
pub struct HostileArgs {
    /// Without this nothing is sent: the requests are like those that have ended real servers
    #[arg(long)]
    pub yes_this_may_end_the_server: bool,
    /// Seed of the requests that are like the published ones [default: from the clock]
    #[arg(short, long, alias = "seed", value_parser = whole::<u64>, value_name = "SEED", allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// Send only these kinds, such as json-shape,many-chunks
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kind)]
    pub only: Vec<Hostile>,
    /// Requests of each kind: the published one, and this many that are like it
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub neighbours: u32,
    /// Send only the request with this number: 0 is the published one
    #[arg(long, value_name = "N", conflicts_with = "neighbours")]
    pub number: Option<u32>,
    /// Write a report for the vendor into this folder for each request that ended the server or harmed others
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub reports: Option<PathBuf>,
    /// The server.
    #[command(flatten)]
    pub endpoint: EndpointArgs,
}

fn kind(text: &str) -> Result<Hostile, String> {
    Hostile::named(text).ok_or_else(|| format!("give one of {}", Hostile::NAMES.join(", ")))
}
