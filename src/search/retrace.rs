//! What a server went through in a run, as far as the run's history tells: the scheduler of the reference server gets the same requests at
//! the same times.
//!
//! The times are the client's. What happened within the time that a message travels may have happened in another order, and where the server's
//! scheduler does otherwise than the reference server's, that is not seen.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{
    check::Follower,
    frame::Header,
    simulate::{flawed, on_the_wire},
};
use oracle::{Ruling, history::Entry};
use reference::{
    ServerSetup,
    simulated::{Blueprint, SequenceId, Simulated, Submitted},
    transitions::Pair,
};
use workload::{
    conversation::Lane,
    event::{ContextId, Cut, Disturbance, EventKind, Nanos},
    model::{Batching, Model, Strategy},
    scenario::Scenario,
    seed::Seed,
    sequence::{RequestId, Special, Step},
    version::ModelVersion,
};

/// How far apart in time entries may be that stand side by side: each thread writes its own.
const APART: Nanos = 10_000_000_000;
/// By how much an execution takes longer than the model says.
const LONGER: Duration = Duration::from_micros(100);

/// Follows the history of a run.
#[derive(Debug, Default)]
pub(crate) struct Retraced {
    running: Option<Running>,
    /// Why there is none.
    why_not: Option<String>,
    /// Whether events are missing.
    has_gaps: bool,
    /// What is under way on each stream.
    streams: HashMap<(ContextId, Lane), Vec<UnderWay>>,
    requests: usize,
    /// Whether the model is being loaded anew.
    is_disturbed: bool,
    /// Entries before which others may come, in their order.
    early: BTreeMap<(Nanos, u64), Entry>,
    numbers: u64,
    latest: Nanos,
}

/// A request, and whether its client has cancelled it.
type UnderWay = (RequestId, Arc<AtomicBool>);

/// A server that is given what the run sent.
#[derive(Debug)]
struct Running {
    server: Simulated,
    scenario: Scenario,
    /// The model of the run.
    model: Model,
}

impl Retraced {
    /// The pairs of transitions that the server went through.
    ///
    /// # Errors
    /// Why they cannot be known, in one line.
    pub(crate) fn pairs(mut self) -> Result<BTreeSet<Pair>, String> {
        self.go_on_until(Nanos::MAX);
        match (self.running, self.why_not) {
            _ if self.has_gaps => Err("the history has only parts of the run".to_owned()),
            (Some(running), _) => Ok(running.server.pairs()),
            (None, why) => Err(why.unwrap_or_else(|| "the history has no first line".to_owned())),
        }
    }

    /// Takes in what happened until then.
    fn go_on_until(&mut self, until: Nanos) {
        while let Some(first) = self.early.first_entry().filter(|first| first.key().0 <= until) {
            let entry = first.remove();
            self.happens(&entry);
        }
    }

    fn happens(&mut self, entry: &Entry) {
        let Some(Running { server, scenario, model }) = &mut self.running else { return };
        let now = Duration::from_nanos(entry.at);
        pass(server, now);
        let stream = self.streams.entry((entry.context, entry.lane)).or_default();
        match &entry.what {
            EventKind::Opened(..) => stream.clear(),
            EventKind::Sent(step) => {
                let cancelled = Arc::<AtomicBool>::default();
                self.requests += 1;
                stream.push((step.request, Arc::clone(&cancelled)));
                if step.flaw().is_some() {
                    server.submit_message(self.requests, flawed(scenario, model, step), cancelled, now);
                } else {
                    let id = on_the_wire(entry.correlation_id, scenario.id_form(entry.context.worker));
                    let version = scenario.version_of(entry.context.worker).map(ModelVersion::signed);
                    let submitted = Submitted { version, ..submitted(self.requests, step, &id, cancelled) };
                    server.submit(submitted, now, Duration::ZERO);
                }
            }
            // Of several answers the first.
            EventKind::Answered(request, ..) => stream.retain(|(other, _)| other != request),
            EventKind::Received(received) => match received.id.parse::<RequestId>() {
                Ok(request) => stream.retain(|(other, _)| *other != request),
                Err(_) if stream.is_empty() => {}
                Err(_) => _ = stream.remove(0),
            },
            // Each stream tells it.
            EventKind::Disturbed(Disturbance::Begins) => self.is_disturbed = true,
            EventKind::Disturbed(Disturbance::IsOver) if mem::take(&mut self.is_disturbed) => server.reload(),
            EventKind::Cut(cut) => {
                let is_the_servers = matches!(cut, Cut::Ended | Cut::Status(..) | Cut::Broken(_) | Cut::Lapsed);
                let has_cancelled = !is_the_servers && !stream.is_empty();
                for (_, cancelled) in stream.drain(..) {
                    cancelled.store(has_cancelled, Relaxed);
                }
                if has_cancelled {
                    server.cancelled(now);
                }
            }
            _ => return,
        }
        server.advance(now, || LONGER, &mut Vec::new());
    }
}

impl Follower for Retraced {
    fn begin(&mut self, header: &Header) {
        match server(&header.preflight.model, &header.scenario.versions()) {
            Ok(server) => {
                let (scenario, model) = (header.scenario.clone(), header.preflight.model.clone());
                self.running = Some(Running { server, scenario, model });
            }
            Err(why) => self.why_not = Some(why),
        }
    }

    fn gap(&mut self, _from: Nanos, _until: Nanos) {
        self.has_gaps = true;
    }

    fn entry(&mut self, entry: &Entry, _ruling: &Ruling) {
        self.latest = self.latest.max(entry.at);
        self.numbers += 1;
        self.early.insert((entry.at, self.numbers), entry.clone());
        self.go_on_until(self.latest.saturating_sub(APART));
    }
}

/// Does what is due until then, each at its time.
fn pass(server: &mut Simulated, until: Duration) {
    let mut answers = Vec::new();
    while let Some(at) = server.next_wake().filter(|at| *at <= until) {
        server.advance(at, || LONGER, &mut answers);
        answers.clear();
    }
}

fn submitted<'s>(name: usize, step: &Step, id: &'s SequenceId, cancelled: Arc<AtomicBool>) -> Submitted<'s> {
    Submitted {
        name,
        version: None,
        id,
        start: step.start,
        end: step.end,
        shape: vec![1, 1],
        data: vec![0; 4],
        batch_size: 1,
        timeout: match step.special {
            Some(Special::TimeoutUs(us)) => Some(Duration::from_micros(us)),
            _ => None,
        },
        cancelled,
    }
}

/// Makes sure that the runs of a model can be retraced.
///
/// # Errors
/// What is not known of the model, in one line.
pub(crate) fn can_be_retraced(model: &Model) -> Result<(), String> {
    server(model, &[]).map(drop)
}

/// A server whose scheduler is like the one of this model, which has these versions.
fn server(model: &Model, versions: &[Option<ModelVersion>]) -> Result<Simulated, String> {
    let unknown = |what| format!("the {what} of model '{}' is not known", model.name);
    let all = model.slots.ok_or_else(|| unknown("number of slots"))?;
    // Where nothing is known of instances there is one.
    let Batching { instances, largest } = model.batching.unwrap_or(Batching { instances: 1, largest: all });
    let slots = all / instances.max(1);
    let strategy = model.strategy.ok_or_else(|| unknown("strategy"))?;
    let (name, max_batch_size, candidates) = match strategy {
        Strategy::Direct => ("custom_sequence_int32", slots, None),
        Strategy::Oldest => ("oldest_sequence_int32", largest, Some(slots)),
    };
    let setup = ServerSetup {
        strategy,
        instances,
        max_batch_size,
        candidates,
        idle_limit: model.idle_limit.ok_or_else(|| unknown("idle limit"))?,
        execution_time: model.execution,
        ..ServerSetup::default()
    };
    let versions = versions.iter().flatten().map(|version| version.signed()).collect();
    let mut server = Blueprint::new(name, setup)?.with_versions(versions)?.serve(&[], Seed(0), &["OUTPUT"]);
    server.watch();
    Ok(server)
}

#[cfg(test)]
mod tests;
