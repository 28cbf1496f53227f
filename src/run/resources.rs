//! What the process needs of the system.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::system::cpu_us;
use super::Setup;
use workload::{
    conversation::{Act, Connection, Conversation, fresh_connections},
    plan::fresh_connections_of,
    scenario::{ConnectionOwner, Population, Scenario},
    sequence::Trait,
    share::Share,
};

/// Files that are open besides the connections: standard streams, each thread's event queue, reports, calls before and
/// after the run.
const BESIDES: u64 = 256;

/// How many files the runs of this process need at present.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// How often a run looks whether another one has given its files back.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The files that a run may open. Until they are dropped, no other run of this process gets them: a server must not be accused of a
/// connection for which the client had no file left.
#[derive(Debug)]
pub(super) struct OpenFiles {
    needed: u64,
    taken: &'static AtomicU64,
}

impl OpenFiles {
    /// Takes as many as the scenario's connections need, and raises the process's limit where it is too low. Waits while other runs have
    /// them, which all end at some time.
    ///
    /// # Errors
    /// When the system does not allow that many.
    pub(super) async fn take(setup: &Setup) -> Result<Self, String> {
        let of = |share| connections(share, &setup.scenario, setup.given.as_deref());
        // A server in this process has the connections' other ends, those of other ranks, too.
        let ends = if setup.embedded { of(Share::WHOLE) } else { 0 };
        let ranks = setup.lead.as_ref().map_or(0, |lead| lead.members.all().len() as u64);
        let needed = of(setup.share) + ends + ranks + BESIDES;
        Self::take_of(&TAKEN, needed, system::open_files_allowed).await
    }

    /// `allowed` says how many files the process may have, after it was raised for as many as it is told.
    async fn take_of(taken: &'static AtomicU64, needed: u64, allowed: impl Fn(u64) -> u64) -> Result<Self, String> {
        loop {
            let with_others = |before: u64| before.saturating_add(needed);
            let most = allowed(with_others(taken.load(Relaxed)));
            if needed > most {
                return Err(too_few_files(needed, most));
            }
            let take = |before| Some(with_others(before)).filter(|all| *all <= most);
            if taken.fetch_update(Relaxed, Relaxed, take).is_ok() {
                return Ok(Self { needed, taken });
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.needed, Relaxed);
    }
}

pub(crate) fn too_few_files(needed: u64, allowed: u64) -> String {
    format!(
        "the scenario's connections need {needed} open files and this process may have {allowed}: raise the limit (ulimit -Hn), set \
         sending.connection = \"per-worker\", or use fewer workers (-c)"
    )
}

/// `what` is the system's word for it.
pub(super) fn ran_short(what: &str) -> String {
    format!(
        "this machine could make no more connections ({what}), which says nothing about the server: raise the limit of open files \
         (ulimit -Hn), end what else has files or ports, or use fewer workers (-c)"
    )
}

/// Makes sure that there is a program for clients that are processes of their own, where there are such.
pub(super) fn ensure_program(setup: &Setup) -> Result<(), String> {
    let over_process = |act: &Act| matches!(act, Act::Open { over: Connection::Process, .. });
    let is_needed = match &setup.given {
        Some(given) => given.iter().flat_map(|its| &its.acts).any(over_process),
        None => setup.scenario.draws_any(Trait::IsKilled),
    };
    if is_needed && setup.program.is_none() {
        let why = "kill-client needs processes that can be killed, and where this program's executable is is not known";
        return Err(format!("{why}: leave the pattern out"));
    }
    Ok(())
}

/// How many connections this process's share of a scenario may have at a time.
fn connections(share: Share, scenario: &Scenario, given: Option<&[Conversation]>) -> u64 {
    let given = given.map(|given| given.iter().map(|its| fresh_connections(&its.acts)).max().unwrap_or(0));
    let of = |(population, workers): (&Population, u32)| {
        let owned = match population.sending.connection {
            ConnectionOwner::PerContext => u64::from(population.contexts.count()),
            ConnectionOwner::PerWorker => 1,
        };
        let fresh = given.unwrap_or_else(|| fresh_connections_of(population));
        // A faulty network has two more ends of each; a process has two pipes.
        let ends = if population.network.is_clear() { 1 } else { 3 };
        let pipes = if population.draws_any(Trait::IsKilled) { 2 } else { 0 };
        // One that was given up may take a moment to be gone, when the next is made already.
        u64::from(workers) * (owned * ends + 2 * fresh as u64 * (ends + pipes))
    };
    share.of_populations(scenario).map(of).sum()
}

/// Makes sure that this process may open as many files as it needs to lead so many ranks.
///
/// # Errors
/// When the system does not allow that many, in one line.
pub(crate) fn allow_ranks(ranks: u32) -> Result<(), String> {
    let needed = u64::from(ranks) + BESIDES;
    let allowed = system::open_files_allowed(needed);
    if allowed >= needed {
        return Ok(());
    }
    Err(format!(
        "rank 0 needs {needed} open files for {ranks} ranks, and may have {allowed}: raise the limit (ulimit -Hn), or start fewer ranks"
    ))
}

/// How much memory a process has, in bytes; none where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Resident when the run had gone on for ten seconds; a run that needs more and more has more at its end.
    pub after_10_s: Option<u64>,
    /// Resident at the end of the run.
    pub at_end: Option<u64>,
    /// The most that was resident at a time.
    pub peak: Option<u64>,
}

impl Memory {
    /// Takes a look at the process, which has been running for `elapsed`.
    pub(super) fn look(&mut self, elapsed: Duration) {
        if self.after_10_s.is_none() && elapsed >= Duration::from_secs(10) {
            self.after_10_s = memory_of_this_process("VmRSS:");
        }
    }

    pub(super) fn look_at_end(&mut self) {
        self.at_end = memory_of_this_process("VmRSS:");
        // The system counts what is resident in several places, and the highest mark can lag behind.
        self.peak = memory_of_this_process("VmHWM:").max(self.after_10_s).max(self.at_end);
    }
}

/// The memory of this process, in bytes; none where the system does not tell.
pub(crate) fn memory_now() -> Option<u64> {
    memory_of_this_process("VmRSS:")
}

fn memory_of_this_process(key: &str) -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, key)
}

/// A value of `/proc/PID/status` in bytes, which has it in kB.
fn kilobytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(unix)]
mod system {
    use nix::sys::{
        resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit},
        time::TimeVal,
    };

    /// How many files this process may open, after the limit was raised if fewer are allowed than wanted.
    pub(super) fn open_files_allowed(wanted: u64) -> u64 {
        let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
        let is_raised = soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
        if is_raised { hard } else { soft }
    }

    /// The CPU time that this process has used, user and system, in µs; zero where the system does not tell.
    pub(crate) fn cpu_us() -> u64 {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0 };
        let micros = |time: TimeVal| u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0);
        micros(usage.user_time()) + micros(usage.system_time())
    }
}

/// A system without limits of open files, which does not tell the CPU time.
#[cfg(not(unix))]
mod system {
    pub(super) fn open_files_allowed(_wanted: u64) -> u64 {
        u64::MAX
    }

    pub(crate) fn cpu_us() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use workload::{
        conversation::parse_acts,
        scenario::{Overrides, Source},
        sequence::Pattern,
    };

    fn scenario(text: &str) -> Scenario {
        Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario")
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_waits_for_files_that_others_have() {
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        let take = |needed| OpenFiles::take_of(&TAKEN, needed, |_| 1000);
        let first = take(600).await.expect("enough");
        let second = take(400).await.expect("enough");
        let waits = tokio::time::timeout(Duration::from_secs(60), take(401)).await;
        assert!(waits.is_err(), "all 1000 are taken: {waits:?}");
        drop(first);
        let third = take(600).await.expect("enough");
        assert_eq!(TAKEN.load(Relaxed), 1000);
        drop((second, third));
        assert_eq!(TAKEN.load(Relaxed), 0);
        let problem = take(1001).await.expect_err("more than the process may have");
        assert!(problem.contains("1001") && problem.contains("1000"), "{problem}");
    }

    #[test]
    fn connections_that_patterns_make_are_counted_too() {
        for (patterns, expected) in [
            ("valid = 1", 80),
            ("valid = 1, reset = 0.1", 80 + 8 * 2),
            ("valid = 1, continue-elsewhere = 1", 80 + 8 * 2),
            ("valid = 1, concurrent = 1", 80 + 8 * 4),
            ("valid = 1, restart-elsewhere = 1", 80),
            ("valid = 1, stop-reading = 1", 80 + 8 * 2),
            ("valid = 1, kill-client = 1", 80 + 8 * 2 * 3),
        ] {
            let scenario = scenario(&format!("patterns.common = {{ {patterns} }}"));
            assert_eq!(connections(Share::WHOLE, &scenario, None), expected, "{patterns}");
        }
        assert_eq!(
            connections(Share::WHOLE, &scenario("network.slice_bytes = 1\npatterns.rare.reset = 1"), None),
            80 * 3 + 8 * 2 * 3
        );
        let shared = scenario("sending.connection = 'per-worker'\npatterns.rare = { reset = 1 }");
        assert_eq!(connections(Share::WHOLE, &shared, None), 8 + 8 * 2);
        // One of four processes has a quarter of them.
        let of = NonZeroU32::new(4).expect("not zero");
        assert_eq!(connections(Share { rank: 3, of }, &shared, None), 2 + 2 * 2);
    }

    #[test]
    fn connections_of_given_conversations_are_counted_as_they_stand() {
        let texts =
            ["open 1 over fresh", "open 2 over fresh", "send 1 START 1", "send 2 2", "close 1", "open 3 over fresh"];
        let acts = parse_acts(&texts.map(str::to_owned)).expect("acts");
        let conversation =
            Conversation { worker: 0, context: 0, pattern: Pattern::Valid, at_us: 0, accused: false, acts };
        assert_eq!(connections(Share::WHOLE, &scenario(""), Some(&[conversation])), 80 + 8 * 4);
    }
}
