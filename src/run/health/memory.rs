//! The server's memory over the sequences of a run, and whether it grows with them.

use std::{fmt, fs, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use oracle::{
    Evidence, Violation, ViolationKind,
    diagnosis::{Cause, Clue, Explanation},
};
use workload::event::Nanos;

/// Where the server's memory is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemorySource {
    /// The resident memory of the process with this ID, on this machine.
    Process(u32),
    /// A gauge of the server's metrics, in bytes; of several with one name the sum.
    Gauge(String),
}

impl MemorySource {
    /// Whether it is a process that has ended, such as a server that was restarted.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Self::Process(pid) if resident(*pid).is_err())
    }
}

impl FromStr for MemorySource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(pid) = text.parse() {
            return Ok(Self::Process(pid));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        if text.is_empty() || !text.chars().all(is_name) || text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err("it has to be a process ID, or the name of a gauge of the server's metrics".to_owned());
        }
        Ok(Self::Gauge(text.to_owned()))
    }
}

impl fmt::Display for MemorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => pid.fmt(f),
            Self::Gauge(name) => f.write_str(name),
        }
    }
}

/// The resident memory of a process of this machine, in bytes, or why it cannot be read, in one line.
pub(super) fn resident(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).map_err(|error| format!("there is no process {pid} ({path}: {error})"))?;
    kilobytes(&status, "VmRSS:").ok_or_else(|| format!("{path} has no VmRSS: the process has ended"))
}

/// The CPU time of a process of this machine since it began, user and system, in µs; none where the system does not tell.
pub(super) fn cpu_us_of(pid: u32) -> Option<u64> {
    /// What Linux shows to processes, on every machine.
    const TICKS_PER_SECOND: u64 = 100;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may have any characters.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse().unwrap_or(0)).sum();
    Some(ticks * 1_000_000 / TICKS_PER_SECOND)
}

/// A value of `/proc/PID/status` in bytes, which has it in kB.
pub(in crate::run) fn kilobytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The server's memory during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerMemory {
    /// Bytes at the first look.
    pub first: u64,
    /// Bytes at the last look.
    pub last: u64,
    /// How it grew with the sequences; none where the run was too short to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
}

/// How memory grew over the last three quarters of the sequences of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// By how many bytes.
    pub bytes: i64,
    /// Over how many sequences.
    pub sequences: u64,
    /// Whether it grew in each of their parts, and by enough to be a leak.
    pub is_steady: bool,
}

/// A look at the memory.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Nanos,
    sequences: u64,
    bytes: u64,
}

/// The looks at the memory; of a long run every second one, every fourth, and so on.
#[derive(Clone, Debug, Default)]
pub(super) struct Grown {
    points: Vec<Point>,
    /// How often every second one was left out.
    thinned: u32,
    looks: u64,
    last: Option<Point>,
}

impl Grown {
    const POINTS_MAX: usize = 512;
    /// Parts of the sequences. In a part the least counts: what is there when the fewest requests are unanswered.
    const PARTS: u64 = 8;
    /// Looks that a part needs at least.
    const LOOKS: usize = 5;
    /// The shortest time that says something: allocators and caches need a while.
    const LEAST: Nanos = 60_000_000_000;
    /// Growth that is a leak, in bytes in all and for each sequence.
    const LEAK: u64 = 16 << 20;
    const LEAK_PER_SEQUENCE: u64 = 64;

    pub(super) fn add(&mut self, at: Nanos, sequences: u64, bytes: u64) {
        let point = Point { at, sequences, bytes };
        self.last = Some(point);
        if self.looks.is_multiple_of(1 << self.thinned) {
            if self.points.len() == Self::POINTS_MAX {
                self.points = self.points.iter().step_by(2).copied().collect();
                self.thinned += 1;
            }
            self.points.push(point);
        }
        self.looks += 1;
    }

    /// What the looks say; none without any.
    pub(super) fn judged(&self) -> Option<ServerMemory> {
        let (first, last) = (self.points.first()?, self.last?);
        Some(ServerMemory { first: first.bytes, last: last.bytes, growth: self.growth() })
    }

    fn growth(&self) -> Option<Growth> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        let begin = first.sequences + (last.sequences - first.sequences) / 4;
        let judged: Vec<_> = self.points.iter().filter(|point| point.sequences >= begin).collect();
        let span = last.at - judged.first()?.at;
        let sequences = last.sequences - begin;
        if span < Self::LEAST || sequences < Self::PARTS {
            return None;
        }
        let part = |point: &Point| ((point.sequences - begin) * Self::PARTS / (sequences + 1)).min(Self::PARTS - 1);
        let mut lows = Vec::new();
        for number in 0..Self::PARTS {
            let looks = || judged.iter().filter(|point| part(point) == number);
            if looks().count() < Self::LOOKS {
                return None;
            }
            lows.push(looks().map(|point| point.bytes).min()?.cast_signed());
        }
        let bytes = lows.last()? - lows.first()?;
        // The last part is as far behind the first as seven of the eight parts are long.
        let sequences = sequences * (Self::PARTS - 1) / Self::PARTS;
        let usual = bytes / (Self::PARTS - 1).cast_signed();
        let in_each = lows.windows(2).all(|two| two[1] - two[0] >= usual / 2);
        let is_leak = bytes >= Self::LEAK.max(sequences.saturating_mul(Self::LEAK_PER_SEQUENCE)).cast_signed();
        Some(Growth { bytes, sequences, is_steady: in_each && is_leak })
    }
}

impl ServerMemory {
    pub(super) fn violation(&self, at_ns: Nanos) -> Option<Violation> {
        let Growth { bytes, sequences, .. } = self.growth.filter(|growth| growth.is_steady)?;
        let evidence = Evidence::Growth { bytes, sequences };
        Some(Violation {
            explanations: vec![Explanation::new(Cause::MemoryLeak, [Clue::Seen, Clue::SteadyGrowth])],
            ..Violation::of_the_run(ViolationKind::MemoryGrowth, at_ns, evidence)
        })
    }
}
