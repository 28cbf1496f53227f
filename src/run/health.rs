//! What the server is asked each second of a run: whether it and its model are ready, and how much memory it has.

mod growth;
mod memory;
mod process;

use std::time::{Duration, SystemTime};

use futures_util::future::try_join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use self::process::Stubs;
use self::{
    growth::Grown,
    process::{Taken, taken},
};
pub use self::{
    growth::{Growth, ServerMemory, Slope},
    memory::MemorySource,
};
use super::{
    Progress, SoFar,
    resources::{cpu_us, memory_now},
    shared::Shared,
};
use crate::recorder::{Found, Gauges, Measured, PastSecond, PastSeconds, Sample, Seconds, Series};
use oracle::{
    Evidence, Subject, Violation, ViolationKind,
    diagnosis::{Cause, Clue, Explanation},
};
use wire::transport::{Access, Client, gauge, pending_requests};
use workload::{
    event::Nanos,
    model::Statistics,
    scenario::{Scenario, Target},
};

/// How often the server is asked.
const EVERY_NS: Nanos = 1_000_000_000;
/// How long the threads take at most to leave a second that is over.
const LEFT_WITHIN: Nanos = 500_000_000;
/// How long other ranks take at most, unless they are too busy to be of use.
const TOLD_WITHIN: Nanos = 3_000_000_000;
/// How long it may take to answer.
const LIMIT: Duration = Duration::from_secs(5);
/// For how long a server may load its other models when the run's own serves again.
const OTHERS_LOAD: Nanos = 60_000_000_000;
/// How many spans are kept, and are violations.
const SPANS_MAX: usize = 100;

/// What the server said of itself during the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// How often the server was asked whether it and its model are ready.
    pub asked: u64,
    /// Questions that the server did not answer.
    pub unanswered: u64,
    /// When the server said that it or its model was not ready; the first hundred times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_ready: Vec<NotReady>,
    /// The server's memory, where its source is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<ServerMemory>,
}

/// A time in which the server said that it or its model was not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotReady {
    /// What was not ready.
    pub of: Subject,
    /// When the server first said so, in nanoseconds since the run began.
    #[serde(rename = "from_us", with = "workload::micros::OfNs")]
    pub from_ns: Nanos,
    /// When it said again that it was ready; none where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "until_us", with = "workload::micros::OfNs::<Option<u64>>")]
    pub until_ns: Option<Nanos>,
    /// Requests that were executed meanwhile.
    pub executed: u64,
    /// Whether the run had the model loaded anew or the server restarted then.
    pub asked_for: bool,
}

/// Who asks, on a connection of its own.
pub(super) struct Looker {
    client: Client,
    /// The same for each version of the model that requests name.
    versions: Vec<Client>,
    access: Access,
    target: Target,
    /// Whether the endpoint tells readiness.
    asks: bool,
    /// Whether it has statistics.
    counts: bool,
    memory: Option<MemorySource>,
}

/// What the server answered once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Whether the run did something to the server when it was asked.
    is_disturbed: bool,
    /// Whether the run has the server load another model again and again.
    others_load: bool,
    /// How much the run had done to the server by then.
    disturbances: u64,
    asked: bool,
    server: Option<bool>,
    model: Option<bool>,
    taken: Option<Taken>,
    statistics: Option<Statistics>,
    pending: Option<u64>,
}

impl Looker {
    /// Who asks, or in one line why the server cannot be called, or its memory not be read.
    pub(super) async fn new(
        scenario: &Scenario,
        access: &Access,
        (asks, counts): (bool, bool),
        memory: Option<MemorySource>,
    ) -> Result<Self, String> {
        let (target, limit) = (scenario.target.clone(), scenario.limits.connect_ms.duration().min(LIMIT));
        let client = Client::of(&target, access, limit).map_err(|error| error.to_string())?;
        let versions =
            scenario.versions().into_iter().map(|version| client.of_version(&target.model, version)).collect();
        let looker = Self { client, versions, access: access.clone(), target, asks, counts, memory };
        if let Some(source) = &looker.memory {
            let unreadable = |why| format!("the server's memory ({source}) cannot be read: {why}");
            looker.taken(source).await.map_err(unreadable)?;
        }
        Ok(looker)
    }

    /// Waits until a second of the run is over, and asks.
    pub(super) async fn look(&self, shared: &Shared) -> Look {
        shared.gate.opened().await;
        // At the end of each second of the run, and not a second after the last look.
        tokio::time::sleep(Duration::from_nanos(EVERY_NS - shared.clock.now() % EVERY_NS)).await;
        let (before, asked) = (shared.disturbances.count(), shared.asks());
        let taken = async { self.taken(self.memory.as_ref()?).await.ok() };
        let readiness = async {
            if !self.asks {
                return (None, None);
            }
            let of_versions = self.versions.iter().map(|version| version.model_ready(&self.target.model));
            let (server, model) = tokio::join!(self.client.server_ready(), try_join_all(of_versions));
            (server.ok(), model.ok().map(|versions| versions.into_iter().all(|is_ready| is_ready)))
        };
        let statistics =
            async { if self.counts { self.client.statistics(&self.target.model).await.ok() } else { None } };
        let pending = async {
            let metrics = self.target.metrics.as_ref()?;
            pending_requests(metrics, &self.access, &self.target, LIMIT).await.ok()
        };
        let ((server, model), taken, statistics, pending) = tokio::join!(readiness, taken, statistics, pending);
        if let Some(statistics) = &statistics {
            let has_forgotten = shared.has_forgotten(statistics.counted.success, asked);
            if has_forgotten && shared.reconnects().is_some() {
                shared.server_survives("the model's counts began anew").await;
            }
        }
        let is_disturbed = shared.disturbances.is_under_way() || shared.disturbances.count() != before;
        Look {
            is_disturbed,
            others_load: shared.others_load(),
            disturbances: shared.disturbances.count(),
            asked: self.asks,
            server,
            model,
            taken,
            statistics,
            pending,
        }
    }

    async fn taken(&self, source: &MemorySource) -> Result<Taken, String> {
        match source {
            MemorySource::Process(pid) => {
                let pid = *pid;
                // A machine may have many processes to look through.
                let looked = tokio::task::spawn_blocking(move || taken(pid));
                looked.await.map_err(|error| error.to_string())?
            }
            MemorySource::Gauge(name) => {
                let metrics = self.target.metrics.as_ref();
                let metrics = metrics.ok_or("the server's metrics are not known (--metrics-url)")?;
                let bytes = gauge(metrics, &self.access, name, LIMIT).await?;
                Ok(Taken { bytes, cpu_us: None })
            }
        }
    }
}

/// What the answers come to.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    health: Health,
    /// The spans that have no end yet.
    open: Vec<Open>,
    memory: Grown,
    series: Series,
    gauges: Gauges,
    /// The seconds that are still to be told, where somebody looks at them.
    past: Option<PastSeconds>,
    /// What the seconds have come to, where somebody adds that up.
    measured: Option<Box<Measured>>,
    /// The server's memory at the last look.
    server_memory: Option<u64>,
    /// How much the run had done to the server by the last look, and when that was seen to be more than before.
    disturbances: u64,
    disturbed_at: Option<Nanos>,
    /// Violations of the last look: the next one tells what was executed meanwhile.
    found: Vec<Open>,
    /// Whether somebody may restart the server, which says that it is not ready before it goes away.
    reconnects: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    of: Subject,
    /// Requests that were executed before it.
    executed: u64,
    asked_for: bool,
    /// Its place in `Health::not_ready`.
    index: usize,
}

/// What is known when a run is over.
pub(super) struct Concluded {
    pub(super) health: Health,
    pub(super) series: Series,
    pub(super) thresholds: Vec<Found>,
    /// The violations that are left.
    pub(super) left: Vec<Violation>,
}

impl Watched {
    /// Of a run of this scenario, which reconnects or does not, and of which the observer gets this while it goes on.
    pub(super) fn of(scenario: &Scenario, reconnects: bool, so_far: &SoFar) -> Self {
        let past = so_far.glance_every.is_some().then(PastSeconds::default);
        let measured = so_far.measures.then(Box::default);
        Self { gauges: Gauges::of(scenario), reconnects, past, measured, ..Self::default() }
    }

    /// Takes in a look. Returns the violations of the look before.
    pub(super) fn take(&mut self, look: Look, now: Nanos, progress: &Progress) -> Vec<Violation> {
        let is_disturbed = look.is_disturbed || look.disturbances != self.disturbances;
        if is_disturbed && self.reconnects {
            self.ask_for_what_is_open();
        }
        let violations = self.violations(progress.completed);
        self.series.began = SystemTime::now().checked_sub(Duration::from_nanos(now));
        let sample = Sample {
            at: now,
            in_flight: progress.waiting(),
            slots_taken: progress.slots_taken,
            starts_waiting: progress.starts_waiting,
            client_cpu_us: cpu_us(),
            client_memory: memory_now(),
            statistics: look.statistics,
            pending: look.pending,
            server_memory: look.taken.map(|its| its.bytes),
            server_cpu_us: look.taken.and_then(|its| its.cpu_us),
        };
        self.server_memory = sample.server_memory;
        self.series.sample(sample);
        self.gauges.sample(&sample);
        if is_disturbed {
            self.disturbances = look.disturbances;
        }
        if is_disturbed || look.others_load {
            self.disturbed_at = Some(now);
        }
        // A server is ready while each of its models is.
        let others_load = self.disturbed_at.is_some_and(|at| now.saturating_sub(at) < OTHERS_LOAD);
        let told = [(Subject::Server, look.server), (Subject::Model, look.model)];
        for (of, is_ready) in told.into_iter().filter(|_| look.asked) {
            self.health.asked += 1;
            match is_ready {
                Some(true) => self.is_ready(of, now, progress.completed),
                Some(false) => {
                    let asked_for = look.is_disturbed || (of == Subject::Server && others_load);
                    self.is_not_ready(of, asked_for, now, progress.completed);
                }
                None => self.health.unanswered += 1,
            }
        }
        if is_disturbed {
            // Another process, or a model that was loaded anew.
            self.memory = Grown::default();
        } else if let Some(Taken { bytes, .. }) = look.taken {
            self.memory.add(now, (progress.sequences, progress.waiting()), bytes);
        }
        violations
    }

    fn is_ready(&mut self, of: Subject, at: Nanos, executed: u64) {
        for span in self.open.extract_if(.., |span| span.of == of) {
            let kept = &mut self.health.not_ready[span.index];
            (kept.executed, kept.until_ns) = (executed.saturating_sub(span.executed), Some(at));
        }
    }

    fn is_not_ready(&mut self, of: Subject, asked_for: bool, at: Nanos, executed: u64) {
        // A span that outlasts what the run does to the server is followed by one that nobody asked for.
        if self.open.iter().any(|span| span.of == of && span.asked_for && !asked_for) {
            self.is_ready(of, at, executed);
        }
        if self.open.iter().any(|span| span.of == of) {
            return;
        }
        let spans = &mut self.health.not_ready;
        if spans.len() == SPANS_MAX {
            return;
        }
        let open = Open { of, executed, asked_for, index: spans.len() };
        spans.push(NotReady { of, from_ns: at, until_ns: None, executed: 0, asked_for });
        self.open.push(open);
        self.found.extend(Some(open).filter(|_| !asked_for));
    }

    /// A server that was restarted was not ready because somebody ended it.
    fn ask_for_what_is_open(&mut self) {
        for span in &mut self.open {
            (span.asked_for, self.health.not_ready[span.index].asked_for) = (true, true);
        }
        let spans = &self.health.not_ready;
        self.found.retain(|found| spans[found.index].until_ns.is_some());
    }

    fn violations(&mut self, executed: u64) -> Vec<Violation> {
        let (spans, waits) = (&self.health.not_ready, self.reconnects);
        // What is not ready yet may be about to go away.
        let is_known = |found: &mut Open| !waits || spans[found.index].until_ns.is_some();
        self.found.extract_if(.., is_known).map(|found| found.violation(spans[found.index].from_ns, executed)).collect()
    }

    /// Takes in the seconds that are over.
    pub(super) fn collect(&mut self, seconds: &Seconds) {
        for second in seconds.take() {
            self.series.add(second.number, &second.interval);
            if let Some(past) = &mut self.past {
                past.hold(&second);
            }
            if let Some(measured) = &mut self.measured {
                measured.hold(&second);
            }
            self.gauges.hold(second);
        }
    }

    /// The seconds that are over by now and were not told before.
    pub(super) fn past_seconds(&mut self, now: Nanos) -> Vec<PastSecond> {
        self.past.as_mut().map_or_else(Vec::new, |past| past.over(now))
    }

    /// What the seconds that the threads have left come to, where somebody adds that up.
    pub(super) fn measured(&self) -> Option<Box<Measured>> {
        self.measured.clone()
    }

    /// The server's memory at the last look, in bytes, where it is known.
    pub(super) fn server_memory(&self) -> Option<u64> {
        self.server_memory
    }

    /// Ends the run where a threshold that does so is missed by now.
    pub(super) fn look_at_thresholds(&mut self, shared: &Shared) {
        self.collect(&shared.seconds);
        // The threads leave a second soon after it is over.
        let within = if shared.setup.lead.is_some() { TOLD_WITHIN } else { LEFT_WITHIN };
        if self.gauges.abort(shared.clock.now().saturating_sub(within) / EVERY_NS) {
            shared.gate.stop();
        }
    }

    /// What is known when the run is over, which took so long.
    pub(super) fn conclude(mut self, now: Nanos, progress: &Progress, elapsed: Duration) -> Concluded {
        self.reconnects = false;
        let mut violations = self.violations(progress.completed);
        for span in self.open {
            self.health.not_ready[span.index].executed = progress.completed.saturating_sub(span.executed);
        }
        let memory = self.memory.judged();
        violations.extend(memory.as_ref().and_then(|memory| memory.violation(now)));
        Concluded {
            health: Health { memory, ..self.health },
            series: self.series,
            thresholds: self.gauges.conclude(elapsed),
            left: violations,
        }
    }
}

impl Open {
    fn violation(self, at: Nanos, executed_now: u64) -> Violation {
        let executed = executed_now.saturating_sub(self.executed);
        let wrong = Explanation::new(Cause::ReadinessWrong, [Clue::Seen]);
        let unloaded = Explanation::new(Cause::Unloaded, [Clue::Seen, Clue::AskTheLog]);
        // Another model may be what a server is not ready for; a model that executes requests is ready itself.
        let is_wrong = self.of == Subject::Model && executed > 0;
        let explanations = if is_wrong { vec![wrong, unloaded] } else { vec![unloaded, wrong] };
        let evidence = Evidence::NotReady { of: self.of, executed };
        Violation { explanations, ..Violation::of_the_run(ViolationKind::NotReady, at, evidence) }
    }
}

#[cfg(test)]
mod tests;
