//! What the fault proxy needs to stand alone.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
};

use clap::Args;

use super::values::whole;
use workload::{
    endpoint::Endpoint,
    scenario::{BlackHole, CutBy, Distribution, Network, NetworkCut, Uniform},
};

/// What stands below the options of `proxy --help`.
const DRAWN: &str = "\
N|MIN..MAX is one number, or any from MIN to MAX, drawn anew for each connection; the latency is drawn for each piece. Bytes are
counted both ways together. Without options all passes as it comes.

It runs until it is interrupted.";

/// What the fault proxy needs to stand alone.
#[derive(Clone, Debug, Args)]
#[command(after_help = DRAWN)]
pub struct ProxyArgs {
    /// The server that connections are carried to
    #[arg(long, value_name = "HOST:PORT")]
    pub to: Endpoint,
    /// The port to listen on; 0 is a free one
    #[arg(long, value_parser = whole::<u16>, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::from([127, 0, 0, 1]))]
    pub address: IpAddr,
    /// How long each piece is under way, each way, in ms
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub latency_ms: Option<Distribution>,
    /// How many KiB pass in a second, each way
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N")]
    pub bandwidth_kib_s: Option<NonZeroU32>,
    /// Write pieces of at most so many bytes, each by itself
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N")]
    pub slice_bytes: Option<NonZeroU32>,
    /// Cut each connection so long after it was made, in ms
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub cut_after_ms: Option<Distribution>,
    /// Cut each connection when so many bytes have passed
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub cut_after_bytes: Option<Distribution>,
    /// How it is cut: reset (rst), or closed in good order (fin) [default: rst]
    #[arg(long, value_parser = cut_by, value_name = "rst|fin")]
    pub cut_by: Option<CutBy>,
    /// Let nothing pass any more so long after a connection was made, in ms
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub black_hole_after_ms: Option<Distribution>,
    /// Let nothing pass any more when so many bytes have passed
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub black_hole_after_bytes: Option<Distribution>,
    /// Go on so long after that, in ms [default: never]
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub black_hole_for_ms: Option<Distribution>,
    /// What every choice comes from; printed [default: from the clock]
    #[arg(short, long, value_parser = whole::<u64>, value_name = "SEED", allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// End at the end of the standard input, so that it does not outlive who started it
    #[arg(long)]
    pub while_stdin_is_open: bool,
}

impl ProxyArgs {
    /// Where to listen.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        (self.address, self.port).into()
    }

    /// What is done to connections.
    ///
    /// # Errors
    /// When the flags do not go together.
    pub fn network(&self) -> Result<Network, String> {
        let cut = NetworkCut {
            after_ms: self.cut_after_ms.clone(),
            after_bytes: self.cut_after_bytes.clone(),
            by: self.cut_by.unwrap_or_default(),
        };
        let hole = BlackHole {
            after_ms: self.black_hole_after_ms.clone(),
            after_bytes: self.black_hole_after_bytes.clone(),
            for_ms: self.black_hole_for_ms.clone(),
        };
        let has_hole = hole.after_ms.is_some() || hole.after_bytes.is_some();
        if hole.for_ms.is_some() && !has_hole {
            return Err("--black-hole-for-ms needs --black-hole-after-ms or --black-hole-after-bytes".to_owned());
        }
        let has_cut = cut.after_ms.is_some() || cut.after_bytes.is_some();
        if self.cut_by.is_some() && !has_cut {
            return Err("--cut-by needs --cut-after-ms or --cut-after-bytes".to_owned());
        }
        let network = Network {
            latency_ms: self.latency_ms.clone(),
            bandwidth_kib_s: self.bandwidth_kib_s,
            slice_bytes: self.slice_bytes,
            cut: has_cut.then_some(cut),
            black_hole: has_hole.then_some(hole),
        };
        network.check().map_err(|(key, problem)| format!("{key}: {problem}"))?;
        Ok(network)
    }
}

fn drawn(text: &str) -> Result<Distribution, String> {
    let wrong = || "give a whole number such as 20, or a range such as 5..20".to_owned();
    let number = |text: &str| text.parse().map_err(|_| wrong());
    match text.split_once("..") {
        None => Ok(Distribution::Constant(number(text)?)),
        Some((min, max)) => {
            let (min, max) = (number(min)?, number(max)?);
            if min <= max { Ok(Distribution::Uniform(Uniform { min, max })) } else { Err(wrong()) }
        }
    }
}

fn cut_by(text: &str) -> Result<CutBy, String> {
    match text {
        "rst" => Ok(CutBy::Rst),
        "fin" => Ok(CutBy::Fin),
        _ => Err("it has to be rst or fin".to_owned()),
    }
}
