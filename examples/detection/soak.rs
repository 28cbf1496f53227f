//! Correct servers, for as many requests as are asked for: nothing may be accused.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::SocketAddr,
    num::NonZeroU64,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use reference::Server;
use sequence_stress::{probe::SlotFinding, report::describe};

use crate::harness::{
    golden::golden_of,
    rows::Scene,
    trial::{options, run_scenario, scenario_but, unhurried},
};

/// How many times its iterations a scenario runs: most of a short run is waiting before and after it.
const LONGER: u64 = 8;

/// After so many runs it says how far it is.
const TELL_EACH: u64 = 10;

/// What a soak came to.
#[derive(Debug, Default)]
pub(crate) struct Soaked {
    pub(crate) requests: u64,
    pub(crate) runs: u64,
    pub(crate) answers: u64,
    /// Answers that could not be judged.
    pub(crate) unjudged: u64,
    /// Runs after which the slots were counted.
    pub(crate) slots_counted: u64,
    /// Requests by scenario and model.
    by_kind: BTreeMap<(Scene, &'static str), u64>,
    /// What was accused, with how it is had again.
    pub(crate) accused: Vec<String>,
    /// Runs that could not be held.
    pub(crate) failed: Vec<String>,
    pub(crate) seconds: u64,
}

/// Runs all scenarios with these models, with ever new seeds, until so many requests were sent.
pub(crate) fn soak(
    models: &'static [&'static str],
    requests: u64,
    first_seed: u64,
    at_a_time: usize,
    real: Option<SocketAddr>,
) -> Soaked {
    let kinds = Scene::ALL.into_iter().flat_map(|scene| models.iter().map(move |model| (scene, *model)));
    let kinds: Vec<_> = kinds.filter(|(scene, model)| scene.suits(model)).collect();
    let (next, sent, soaked) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(Soaked::default()));
    let began = Instant::now();
    let at_a_time = if real.is_some() { at_a_time.min(models.len()) } else { at_a_time };
    std::thread::scope(|scope| {
        for thread in 0..at_a_time {
            let (next, sent, soaked, kinds) = (&next, &sent, &soaked, &kinds);
            // On one real server a model has one run at a time.
            let of_model = |index: usize| models.iter().position(|model| *model == kinds[index].1).unwrap_or_default();
            let own = move |index: usize| real.is_none() || of_model(index) % at_a_time == thread;
            let of_thread: Vec<_> = (0..kinds.len()).filter(|index| own(*index)).collect();
            scope.spawn(move || {
                // Each thread begins elsewhere, so that all kinds have their turn.
                for turn in thread * of_thread.len() / at_a_time.. {
                    if sent.load(Relaxed) >= requests {
                        break;
                    }
                    let (scene, model) = kinds[of_thread[turn % of_thread.len()]];
                    one(scene, model, first_seed + next.fetch_add(1, Relaxed), real, sent, soaked);
                }
            });
        }
    });
    let soaked = soaked.into_inner().expect("no thread panics with it");
    Soaked { seconds: began.elapsed().as_secs(), ..soaked }
}

fn one(
    scene: Scene,
    model: &'static str,
    seed: u64,
    real: Option<SocketAddr>,
    sent: &AtomicU64,
    soaked: &Mutex<Soaked>,
) {
    let golden = golden_of(scene, 1, model);
    let server = real.is_none().then(|| Server::start(options(scene, 1, Vec::new(), 0)).expect("a free port"));
    let address = real.or(server.as_ref().map(|server| server.address)).expect("one or the other");
    // tritonserver is known to lose slots where the ID of a cancelled stream is started again at once: there only rare IDs are cut.
    let otherwise = real.map_or(&[][..], |_| {
        &[
            ("cancel-queued = 1, cancel-executing = 0.5, ", ""),
            ("cancel-restart = 6, reset = 0.5", "valid-valid = 1"),
            ("cancel-queued = 0.5", "cancel-queued = 0.5, reset = 0.5"),
        ]
    });
    let mut scenario = unhurried(scenario_but(scene, address, model, otherwise));
    let iterations = &mut scenario.populations[0].load.iterations;
    *iterations = iterations.and_then(|its| its.checked_mul(NonZeroU64::new(LONGER)?));
    let name = format!("scenario {}, model {model}, seed {seed}", scene.name());
    let result = run_scenario(scenario, golden, seed);
    let mut soaked = soaked.lock().expect("no thread panics with it");
    if soaked.runs.is_multiple_of(TELL_EACH) {
        eprintln!("{} requests, {} accused, {} failed", soaked.requests, soaked.accused.len(), soaked.failed.len());
    }
    match result {
        Err(why) => {
            // One that is gone is not asked for ever.
            sent.fetch_add(1000, Relaxed);
            soaked.failed.push(format!("{name}: {why}"));
        }
        Ok(result) => {
            let total = result.tally.total();
            sent.fetch_add(total.requests, Relaxed);
            soaked.requests += total.requests;
            soaked.runs += 1;
            soaked.answers += total.answered();
            soaked.unjudged += total.unjudged;
            match &result.slots.finding {
                SlotFinding::AllThere { .. } => soaked.slots_counted += 1,
                finding => eprintln!("{name}: the slots: {finding:?}"),
            }
            *soaked.by_kind.entry((scene, model)).or_default() += total.requests;
            for violation in &result.violations {
                let line = format!("{name}: {}", describe(violation));
                eprintln!("accused: {line}");
                soaked.accused.push(line);
            }
        }
    }
}

impl Soaked {
    /// What it came to, a line each; at the end what was accused.
    pub(crate) fn told(&self) -> String {
        let Self { requests, runs, answers, unjudged, slots_counted, seconds, .. } = self;
        let mut told = format!(
            "{requests} requests in {runs} runs and {seconds} s, {} answers judged, and {unjudged} with what was not determined; \
             the slots counted after {slots_counted} runs; {} violations",
            answers - unjudged,
            self.accused.len()
        );
        for ((scene, model), requests) in &self.by_kind {
            let _ = write!(told, "\n  {:8} {model:30} {requests}", scene.name());
        }
        for line in self.accused.iter().chain(&self.failed) {
            let _ = write!(told, "\n  {line}");
        }
        told
    }
}
