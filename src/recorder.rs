//! What a run amounts to: verdicts, counts and times, kept by each runtime thread for itself and merged at the end.

mod collector;
mod gauges;
mod glance;
mod goodput;
mod measured;
mod packed;
mod reach;
mod relay;
mod series;
mod snapshots;
mod tally;
mod tap;
mod times;
pub(crate) mod trace;

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

pub use self::collector::Violating;
pub(crate) use self::collector::{Collected, Collector, Glances, Together};
use self::gauges::parts_of;
pub(crate) use self::gauges::{Found, Gauges};
pub(crate) use self::glance::PastSeconds;
pub use self::glance::{PastSecond, PatternCounts, Patterns};
pub(crate) use self::goodput::NotGood;
#[cfg(feature = "otlp")]
pub(crate) use self::measured::bounds_us;
pub(crate) use self::measured::{Distribution, Measured};
use self::reach::{Here, Reach};
#[cfg(test)]
pub(crate) use self::series::Counted;
pub(crate) use self::series::{INTERVALS_MAX, Interval, Packed, Sample, Second, Seconds, Series};
pub(crate) use self::snapshots::Snapshots;
pub(crate) use self::tally::{Counts, Tally};
pub(crate) use self::tap::{BATCHES, BYTES, Batch, Batches, Tap, Taps};
pub(crate) use self::times::{Executed, Pacing, Times, Waits};
use self::{goodput::is_of_use, series::Now};
use oracle::{Oracle, OtherWords, Outcome, Rules, Ruling, Settled, ViolationKind};
use workload::{
    conversation::Lane,
    event::{ContextId, Cut, Due, Event, EventKind, Nanos},
    plan::correlation_id,
    scenario::{Population, Scenario},
    sequence::{Pattern, RequestId},
};

/// The recorder of one runtime thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    oracle: Oracle,
    tap: Option<Tap>,
    tally: Tally,
    now: Now,
    seconds: Seconds,
    threshold: Option<Duration>,
    /// By worker and context.
    contexts: Vec<Context>,
    contexts_per_worker: u32,
    idle_limit: Option<Nanos>,
    /// How often another model was loaded so far.
    loads: Arc<AtomicU64>,
    /// Whether a request gets several responses.
    gives_series: bool,
}

/// What a context's times count from, and what was exercised on it.
#[derive(Clone, Debug, Default)]
struct Context {
    population: usize,
    reach: Reach,
    /// When the next step to be sent was due, where it has a time of its own.
    due: Option<Due>,
    /// The same of those that have no response yet.
    dues: VecDeque<(Lane, RequestId, Due)>,
    /// When the sequence's first step was sent, and when it was due.
    first_sent: Nanos,
    first_due: Nanos,
    previous_answer: Nanos,
    /// The latest of the requests that were executed.
    executed: Option<RequestId>,
    /// Until when the client did not read.
    read_on: Nanos,
    /// Whether the server was found to be wrong in the iteration.
    is_wronged: bool,
    /// Whether each step so far had the outcome that was planned.
    as_designed: bool,
    /// Whether no response in its current sequence was a violation so far.
    is_right: bool,
    pattern: Option<Pattern>,
}

impl Context {
    /// When a request that is answered was due, where it had a time of its own.
    fn take_due(&mut self, request: RequestId) -> Option<Due> {
        let place = self.dues.iter().position(|(_, its, _)| *its == request)?;
        self.dues.remove(place).map(|(.., due)| due)
    }
}

/// How long before the last response to a request the first one came, where that is known.
fn spread(kind: &EventKind) -> Option<Nanos> {
    let EventKind::Received(received) = kind else { return None };
    let spread = received.result.as_ref().map_or(Some(Duration::ZERO), |response| response.series.spread)?;
    Some(u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX))
}

impl Recorder {
    /// A recorder for all the contexts of a scenario; a response that takes longer than `threshold` is counted. What it takes in goes to
    /// the tap too; each second that is over goes to `seconds`.
    pub(crate) fn of(
        scenario: &Scenario,
        rules: Rules,
        threshold: Option<Duration>,
        tap: Option<Tap>,
        seconds: Seconds,
    ) -> Self {
        let (workers, contexts_per_worker) = (scenario.workers(), scenario.most_contexts());
        let id = |ContextId { worker, context }| (correlation_id(scenario, worker, context), scenario.id_form(worker));
        let gives_series = rules.arithmetic.answers.are_series();
        let oracle = Oracle::new(rules, workers, contexts_per_worker, id);
        let oracle = if scenario.has_several_versions() {
            oracle.of_versions((0..workers).filter_map(|worker| scenario.version_of(worker)))
        } else {
            oracle
        };
        let of_population = |(population, its): (usize, &Population)| {
            let contexts = its.load.workers.get() as usize * contexts_per_worker as usize;
            std::iter::repeat_n(Context { population, ..Context::default() }, contexts)
        };
        let several = if scenario.populations.len() > 1 { scenario.populations.len() } else { 0 };
        Self {
            tap,
            now: Now::new(&parts_of(scenario)),
            seconds,
            tally: Tally {
                populations: vec![Waits::default(); several],
                pacing: scenario.populations.iter().any(|its| its.load.is_paced()).then(Box::default),
                ..Tally::default()
            },
            threshold,
            contexts: scenario.populations.iter().enumerate().flat_map(of_population).collect(),
            contexts_per_worker,
            gives_series,
            loads: Arc::default(),
            idle_limit: oracle.idle_limit().map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)),
            oracle,
        }
    }

    /// The same, where another model is loaded so often meanwhile.
    pub(crate) fn beside(self, loads: Arc<AtomicU64>) -> Self {
        Self { loads, ..self }
    }

    /// The event with its message read, as it is recorded.
    pub(crate) fn read(&self, event: Event) -> Event {
        self.oracle.read(event)
    }

    pub(crate) fn record(&mut self, event: Event) -> Ruling {
        let spread = if self.gives_series { spread(&event.kind) } else { Some(0) };
        let event = self.oracle.read(event);
        let (at, context) = (event.at, event.context);
        self.go_on(at);
        let loads = self.loads.load(Relaxed);
        let here = Here { at, lane: event.lane, idle_limit: self.idle_limit, loads };
        let index = (context.worker * self.contexts_per_worker + context.context) as usize;
        if let Some(tap) = &mut self.tap {
            tap.event(&event);
        }
        match &event.kind {
            EventKind::Due(due) => {
                self.contexts[index].due = Some(*due);
                // What is stopped is sent before it is due.
                if let Some(pacing) = self.tally.pacing.as_mut().filter(|_| due.at <= at) {
                    let times = if due.waited { &mut pacing.late } else { &mut pacing.held_back };
                    times.record(due.at, at);
                    if due.waited {
                        let population = self.contexts[index].population;
                        self.now.of(population, None).for_each(|its| its.times.late.record(due.at, at));
                    }
                }
            }
            EventKind::Sent(step) => {
                let its = &mut self.contexts[index];
                its.dues.extend(its.due.take().map(|due| (here.lane, step.request, due)));
                let counts = &mut self.tally.patterns[step.pattern.index()];
                counts.requests += 1;
                counts.sequences += u64::from(step.is_first());
                self.contexts[index].is_wronged &= !step.is_first();
                self.contexts[index].pattern = Some(step.pattern);
                for now in self.now.of(self.contexts[index].population, Some(step.pattern)) {
                    now.counted.requests += 1;
                    now.counted.sequences += u64::from(step.is_first());
                }
            }
            EventKind::StoppedReading(us) => {
                self.contexts[index].read_on = at.saturating_add(us.saturating_mul(1000));
            }
            EventKind::GaveUp | EventKind::Cut(_) => {
                self.tally.cut = true;
                // No response is waited for there any more; one that was is told before.
                if matches!(event.kind, EventKind::Cut(_)) {
                    self.contexts[index].dues.retain(|(lane, ..)| *lane != here.lane);
                }
            }
            _ => {}
        }
        let gave_up = matches!(event.kind, EventKind::GaveUp);
        let is_interrupted = matches!(event.kind, EventKind::Cut(Cut::Interrupted));
        self.contexts[index].reach.event(&event.kind, here, &mut self.tally.reached);
        let mut ruling = self.oracle.observe(event);
        if let Some(OtherWords { of, text }) = ruling.other_words.take() {
            self.tally.other_words.entry(of.to_owned()).or_insert(text);
        }
        let Ruling { settled, abandoned, violations, .. } = &ruling;
        if let Some(settled) = settled {
            let is_right = settled.doubt.is_none() && violations.is_empty();
            self.contexts[index].reach.settled(settled, is_right, here, &mut self.tally.reached);
            self.settled((at, spread), index, settled, violations.is_empty());
            let is_lost = gave_up && violations.iter().any(|violation| violation.kind == ViolationKind::Lost);
            self.tally.stuck |= is_lost && self.contexts[index].executed <= Some(settled.step.request);
        }
        if let Some(pattern) = self.contexts[index].pattern {
            self.tally.patterns[pattern.index()].indeterminate += *abandoned as u64;
            self.tally.wrong[pattern.index()] += violations.len() as u64;
        }
        self.contexts[index].is_wronged |= !violations.is_empty();
        match *abandoned as u64 {
            abandoned if is_interrupted => self.tally.unanswered += abandoned,
            // What the client or a connection cut was not owed; what was cut because of a violation was.
            abandoned @ 1.. if self.contexts[index].is_wronged => {
                self.lose(index, abandoned);
            }
            _ => {}
        }
        let is_given_up = settled.is_some_and(|settled| settled.outcome == Outcome::Indeterminate);
        let Context { population, pattern, .. } = self.contexts[index];
        for now in self.now.of(population, pattern) {
            now.counted.violations += violations.len() as u64;
            now.counted.abandoned += *abandoned as u64 + u64::from(is_given_up);
        }
        for violation in violations {
            self.tally.violation(violation.kind);
        }
        if let Some(tap) = &mut self.tap {
            tap.violations(violations);
        }
        ruling
    }

    /// Leaves the second that is over, if another has begun.
    fn go_on(&mut self, at: Nanos) {
        if let Some(second) = self.now.go_on(at) {
            self.seconds.leave(second);
        }
    }

    /// Counts requests of a context that got no response, and were owed one.
    fn lose(&mut self, index: usize, requests: u64) {
        self.tally.not_good.get_or_insert_default().lost += requests;
        let Context { population, pattern, .. } = self.contexts[index];
        self.now.of(population, pattern).for_each(|its| its.counted.lost += requests);
    }

    /// Takes in the last response to a step, and how long before it the first one came, where that is known.
    fn settled(&mut self, (at, spread): (Nanos, Option<Nanos>), index: usize, settled: &Settled, is_lawful: bool) {
        let Settled { step, sent_at, outcome, doubt, .. } = *settled;
        let counts = &mut self.tally.patterns[step.pattern.index()];
        match outcome {
            Outcome::Completed => counts.completed += 1,
            Outcome::Rejected => counts.rejected += 1,
            Outcome::Expired => {
                counts.rejected += 1;
                counts.expired += 1;
            }
            Outcome::Failed => counts.failed += 1,
            Outcome::Indeterminate => counts.indeterminate += 1,
        }
        counts.unjudged += u64::from(doubt.is_some());
        let planned = if step.is_to_be_rejected() { Outcome::Rejected } else { Outcome::Completed };
        let begun = &mut self.contexts[index];
        let paced = begun.take_due(step.request);
        let due = paced.map(|due| due.at);
        if step.is_first() {
            begun.first_sent = sent_at;
            begun.first_due = due.map_or(sent_at, |due| due.min(sent_at));
            (begun.as_designed, begun.is_right) = (true, true);
        }
        if outcome == Outcome::Completed {
            begun.executed = begun.executed.max(Some(step.request));
        }
        begun.as_designed &= outcome == planned;
        begun.is_right &= is_lawful;
        if outcome == Outcome::Indeterminate {
            if !is_lawful {
                self.lose(index, 1);
            }
            return;
        }
        if outcome == Outcome::Completed {
            self.tally.executed.record(paced, sent_at, at);
        }
        // What the client did not read did not take long in the server.
        let sent = sent_at.max(begun.read_on.min(at));
        // What is stopped may be sent before it is due.
        let since = due.map_or(sent, |due| due.min(sent));
        self.tally.step.record(since, at);
        if let Some(pacing) = &mut self.tally.pacing {
            pacing.step.record(sent, at);
        }
        let took = Duration::from_nanos(at.saturating_sub(since));
        let is_slow = self.threshold.is_some_and(|limit| took > limit);
        self.tally.slow += u64::from(is_slow);
        let is_good = is_lawful && !is_slow && is_of_use(settled);
        if !is_good {
            self.tally.not_good.get_or_insert_default().responses.record(since, at);
        }
        for now in self.now.of(begun.population, Some(step.pattern)) {
            now.counted.responses += 1;
            now.counted.good += u64::from(is_good);
            now.times.step.record(since, at);
            if !is_good {
                now.times.not_good.record(since, at);
            }
        }
        if step.start {
            let since = if due.is_some() { since } else { sent_at.max(begun.previous_answer) };
            self.now.of(begun.population, Some(step.pattern)).for_each(|its| its.times.slot.record(since, at));
            self.tally.waits_of(begun.population).for_each(|waits| waits.slot.record(since, at));
        }
        if let Some(spread) = spread.filter(|_| step.start) {
            let first = at.saturating_sub(spread);
            self.tally.first_response.record(since, first);
            self.now
                .of(begun.population, Some(step.pattern))
                .for_each(|its| its.times.first_response.record(since, first));
        }
        begun.previous_answer = at;
        if step.is_last() && begun.as_designed {
            self.tally.patterns[step.pattern.index()].sequences_as_designed += u64::from(begun.is_right);
            let first_due = begun.first_due;
            self.now.of(begun.population, Some(step.pattern)).for_each(|its| its.times.sequence.record(first_due, at));
            self.tally.waits_of(begun.population).for_each(|waits| waits.sequence.record(begun.first_due, at));
            if let Some(pacing) = &mut self.tally.pacing {
                pacing.sequence.record(begun.first_sent, at);
            }
        }
    }

    /// Cuts every stream that waits for responses, because the run does not wait any longer.
    pub(crate) fn interrupt(&mut self, at: Nanos) {
        for (context, lane) in self.oracle.waiting_streams().collect::<Vec<_>>() {
            self.record(Event { at, context, lane, kind: EventKind::Cut(Cut::Interrupted) });
        }
    }

    /// Lets go of what is held back for the collector, and of the second that is over; to be called now and then.
    pub(crate) fn flush(&mut self, now: Nanos) {
        self.go_on(now);
        if let Some(tap) = &mut self.tap {
            tap.flush();
        }
    }

    /// What was counted so far.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What was counted of each pattern so far.
    pub(crate) fn patterns(&self) -> Patterns {
        Patterns::of(&self.tally)
    }

    pub(crate) fn close(&mut self) -> Tally {
        if let Some(second) = self.now.end() {
            self.seconds.leave(second);
        }
        if let Some(tap) = self.tap.take() {
            tap.finish();
        }
        mem::take(&mut self.tally)
    }
}

#[cfg(test)]
mod tests;
