//! What the proxy needs to stand alone.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
};

use clap::{Args, builder::NonEmptyStringValueParser};

use super::{
    access::TlsArgs,
    values::{port, whole},
};
use wire::mutation::{Mutation, Planted};
use workload::{
    endpoint::{Endpoint, Endpoints, Protocol, Scheme},
    scenario::{AccessOverrides, BlackHole, CutBy, Distribution, Network, NetworkCut, Overrides, Tls, Uniform},
};

/// What stands below the options of `proxy --help`.
const DRAWN: &str = "\
N|MIN..MAX is a number, or a range from which each connection draws one; latency is drawn for each piece. Byte \
counts add up both directions. Without options the proxy passes everything on unchanged.

With --mutate the proxy changes messages; docs/MUTATIONS.md has what each change shows.

With --record the proxy also writes the requests of sequences to FILE: inputs, flags, times, and numbers in place of \
correlation IDs. The file has no headers. Its inputs may be private. docs/RECORDING.md describes the file.

The proxy runs until it is interrupted.";

/// What the proxy needs to stand alone.
#[derive(Clone, Debug, Args)]
#[command(after_help = DRAWN)]
pub struct ProxyArgs {
    /// The server: HOST:PORT or grpc://HOST:PORT for gRPC, http://HOST:PORT for HTTP; one of each at most
    #[arg(short = 'u', long, visible_alias = "url", value_name = "ENDPOINT", value_delimiter = ',', required = true)]
    pub to: Vec<Endpoint>,
    /// Port to listen on; 0 picks a free port
    #[arg(long, value_parser = port, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Port to listen on for HTTP, where the server has endpoints for both; 0 picks a free port
    #[arg(long, value_parser = port, value_name = "PORT", default_value_t = 0)]
    pub http_port: u16,
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
    /// What to change on the way.
    #[arg(
        long, value_name = "NAME[:WHEN]", help_heading = "Mutations", long_help = mutations(),
        help = "Change what passes (repeatable): NAME, NAME:PROBABILITY or NAME:once@N; --help lists them"
    )]
    pub mutate: Vec<Planted>,
    /// For how long a mutation that delays something holds it back, in ms
    #[arg(long, value_name = "MS", value_parser = whole::<u32>, default_value_t = 10_000, requires = "mutate", help_heading = "Mutations")]
    pub mutate_hold_ms: u32,
    /// Write how often each mutation happened to FILE as JSON
    #[arg(long, value_name = "FILE", requires = "mutate", help_heading = "Mutations")]
    pub json: Option<PathBuf>,
    /// End when standard input ends, so that the proxy does not outlive its parent process
    #[arg(long)]
    pub while_stdin_is_open: bool,
    /// Write what clients send in sequences to FILE; an old FILE is replaced
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    pub record: Option<PathBuf>,
    /// Record only requests for this model (repeatable) [default: all models]
    #[arg(
        short, long, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new(), requires = "record",
        help_heading = "Recording"
    )]
    pub model: Vec<String>,
    /// With --record the proxy speaks TLS to grpcs:// and https:// endpoints, and clients connect without.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ProxyArgs {
    /// The server's endpoints, and where to listen for each.
    ///
    /// # Errors
    /// When there are two that speak the same, or a flag has no effect.
    pub fn ways(&self) -> Result<Vec<(Endpoint, SocketAddr)>, String> {
        let [grpc, http] =
            Protocol::ALL.map(|protocol| self.to.iter().filter(move |to| to.scheme.protocol() == protocol).count());
        for (protocol, count) in Protocol::ALL.into_iter().zip([grpc, http]) {
            if count > 1 {
                return Err(format!("--to names {count} endpoints of {protocol}: start a proxy for each"));
            }
        }
        if self.http_port != 0 && (grpc, http) != (1, 1) {
            return Err("--http-port needs endpoints of both protocols in --to: use --port".to_owned());
        }
        if !self.mutate.is_empty() {
            if let Some(to) = self.to.iter().find(|to| !matches!(to.scheme, Scheme::Grpc | Scheme::Http)) {
                return Err(format!("--mutate needs a server without TLS, and --to names {to}"));
            }
            if self.record.is_some() || !self.network()?.is_clear() {
                let problem = "--mutate does not go with --record or with a faulty network: start a second proxy in front of this one";
                return Err(problem.to_owned());
            }
        }
        if self.record.is_none() && self.tls.overrides() != Tls::default() {
            return Err("--ca, --client-cert, --client-key and --server-name need --record: without it the proxy passes on what clients encrypt".to_owned());
        }
        let port = |to: &Endpoint| if to.scheme.is_grpc() || grpc == 0 { self.port } else { self.http_port };
        Ok(self.to.iter().map(|to| (to.clone(), (self.address, port(to)).into())).collect())
    }

    /// What the flags say of the server in place of a scenario.
    pub fn overrides(&self) -> Overrides {
        let access = AccessOverrides { tls: self.tls.overrides(), ..AccessOverrides::default() };
        Overrides { endpoint: Endpoints::try_from(self.to.clone()).ok(), access, ..Overrides::default() }
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

fn mutations() -> String {
    let list = Mutation::ALL.map(|mutation| format!("- {}: {}", mutation.name(), mutation.what())).join("\n");
    format!(
        "Change what passes (repeatable). NAME happens at each chance, NAME:PROBABILITY now and then, and NAME:once@N at the \
         N-th chance alone. When the proxy ends, it says how often each happened.\n\n{list}"
    )
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
