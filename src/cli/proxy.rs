//! What the fault proxy needs to stand alone.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
};

use clap::Args;

use super::values::{port, whole};
use workload::{
    endpoint::Endpoint,
    scenario::{BlackHole, CutBy, Distribution, Network, NetworkCut, Uniform},
};

/// What stands below the options of `proxy --help`.
const DRAWN: &str = "\
N|MIN..MAX is a number, or a range from which each connection draws one; latency is drawn for each piece. Byte \
counts add up both directions. Without options the proxy passes everything on unchanged.

The proxy runs until it is interrupted.";

/// What the fault proxy needs to stand alone.
#[derive(Clone, Debug, Args)]
#[command(after_help = DRAWN)]
pub struct ProxyArgs {
    /// The server
    #[arg(long, value_name = "HOST:PORT")]
    pub to: Endpoint,
    /// Port to listen on; 0 picks a free port
    #[arg(long, value_parser = port, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::from([127, 0, 0, 1]))]
    pub address: IpAddr,
    /// Latency of each piece in each direction, in ms
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub latency_ms: Option<Distribution>,
    /// Bandwidth in each direction, in KiB/s
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N")]
    pub bandwidth_kib_s: Option<NonZeroU32>,
    /// Split data into pieces of at most N bytes
    #[arg(long, value_parser = whole::<NonZeroU32>, value_name = "N")]
    pub slice_bytes: Option<NonZeroU32>,
    /// Cut each connection at this age, in ms
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub cut_after_ms: Option<Distribution>,
    /// Cut each connection after this many bytes
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub cut_after_bytes: Option<Distribution>,
    /// Cut by reset (rst) or by a graceful close (fin) [default: rst]
    #[arg(long, value_parser = cut_by, value_name = "rst|fin")]
    pub cut_by: Option<CutBy>,
    /// Stop passing data on each connection at this age, in ms
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub black_hole_after_ms: Option<Distribution>,
    /// Stop passing data on each connection after this many bytes
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub black_hole_after_bytes: Option<Distribution>,
    /// Pass data again after this time, in ms [default: never]
    #[arg(long, value_parser = drawn, value_name = "N|MIN..MAX")]
    pub black_hole_for_ms: Option<Distribution>,
    /// Seed of every choice; printed [default: from the clock]
    #[arg(short, long, value_parser = whole::<u64>, value_name = "SEED", allow_negative_numbers = true)]
    pub random_seed: Option<u64>,
    /// End when standard input ends, so that the proxy does not outlive its parent process
    #[arg(long)]
    pub while_stdin_is_open: bool,
}

impl ProxyArgs {
    /// Where to listen.
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
