//! What has to hold for the entries of a history to be those of a run, and what is not known after a gap.

use std::collections::HashMap;

use oracle::history::Entry;
use workload::{
    conversation::Lane,
    event::{ContextId, Cut, Event, EventKind, Nanos},
    plan::correlation_id,
    scenario::Scenario,
    sequence::RequestId,
};

/// No run goes on for longer: 366 days.
const LONGEST: Nanos = 366 * 86_400 * 1_000_000_000;

/// The contexts of a history, as far as something happened on them.
pub(super) struct Timeline {
    scenario: Scenario,
    contexts: HashMap<ContextId, Context>,
    pub(super) gaps: u64,
    /// Until when the last gap was.
    gap_until: Nanos,
}

#[derive(Default)]
struct Context {
    latest: Nanos,
    /// How many gaps were before the last entry.
    gaps: u64,
    lanes: u8,
    /// The lanes on which the client gave up, and which it has not cut since.
    given_up: u8,
    /// By lane.
    in_flight: [u32; Lane::MAX as usize],
    /// After a gap, the first request that was sent: what is answered before it was sent in the gap.
    first_known: Option<RequestId>,
}

impl Timeline {
    pub(super) fn new(scenario: Scenario) -> Self {
        Self { scenario, contexts: HashMap::new(), gaps: 0, gap_until: 0 }
    }

    /// Entries before this time are missing.
    pub(super) fn gap(&mut self, until: Nanos) {
        self.gaps += 1;
        self.gap_until = self.gap_until.max(until);
    }

    /// Rejects an entry that no run writes.
    pub(super) fn check(&mut self, entry: &Entry) -> Result<(), String> {
        let ContextId { worker, context } = entry.context;
        if worker >= self.scenario.workers() || context >= self.scenario.population_of(worker).contexts.count() {
            return Err(format!("the scenario has no worker {worker} with a context {context}"));
        }
        if entry.at > LONGEST {
            return Err("its time is more than a year after the run began".to_owned());
        }
        let id = correlation_id(&self.scenario, worker, context);
        if entry.correlation_id != id {
            return Err(format!("the correlation ID of worker {worker} context {context} is {id}"));
        }
        if entry.lane.0 >= Lane::MAX {
            return Err(format!("lane {} is none", entry.lane.0));
        }
        if let EventKind::Sent(step) = &entry.what {
            let request = step.request;
            if (request.worker, request.context) != (worker, context) || request.step >= step.of {
                return Err(format!("request {request} cannot be sent on worker {worker} context {context}"));
            }
        }
        let state = self.contexts.entry(entry.context).or_default();
        if entry.at < state.latest {
            return Err(format!("the entries of worker {worker} context {context} are not in order of time"));
        }
        let has_missed = state.gaps < self.gaps;
        let lane = 1 << entry.lane.0;
        match entry.what {
            EventKind::GaveUp => state.given_up |= lane,
            EventKind::Cut(_) | EventKind::Opened(..) => state.given_up &= !lane,
            EventKind::Closed if !has_missed && state.given_up & lane != 0 => {
                return Err("a stream is closed in good order on which the client gave up".to_owned());
            }
            _ => {}
        }
        if entry.what == EventKind::Closed && !has_missed && state.in_flight[entry.lane.index()] > 0 {
            return Err("a stream is closed in good order on which requests are unanswered".to_owned());
        }
        Ok(())
    }

    /// What the oracle has to be told before an entry: where entries were missing, anything may have happened.
    pub(super) fn missed(&mut self, entry: &Entry) -> Vec<Event> {
        let state = self.contexts.entry(entry.context).or_default();
        let lanes = state.lanes | 1;
        state.latest = entry.at;
        state.lanes |= 1 << entry.lane.0;
        if state.gaps == self.gaps {
            return Vec::new();
        }
        state.gaps = self.gaps;
        state.first_known = None;
        state.in_flight = [0; Lane::MAX as usize];
        let at = self.gap_until.min(entry.at);
        let missed =
            |lane| Event { at, context: entry.context, lane: Lane(lane), kind: EventKind::Cut(Cut::Interrupted) };
        (0..Lane::MAX).filter(|lane| lanes & (1 << lane) != 0).map(missed).collect()
    }

    /// Whether the oracle can judge an entry; it cannot where it answers what was sent in a gap. Follows what is under way.
    pub(super) fn is_known(&mut self, entry: &Entry) -> bool {
        let state = self.contexts.entry(entry.context).or_default();
        let in_flight = &mut state.in_flight[entry.lane.index()];
        let answered = match &entry.what {
            EventKind::Sent(step) => {
                *in_flight = in_flight.saturating_add(1);
                state.first_known.get_or_insert(step.request);
                return true;
            }
            EventKind::Cut(_) => {
                *in_flight = 0;
                return true;
            }
            EventKind::Answered(request, ..) => Some(*request),
            EventKind::Received(received) => received.request(),
            _ => return true,
        };
        let is_of_the_gap = |request: RequestId| {
            (request.worker, request.context) == (entry.context.worker, entry.context.context)
                && state.first_known.is_none_or(|first| request < first)
        };
        state.gaps == 0 || !answered.is_some_and(is_of_the_gap)
    }

    /// A request was answered or given up.
    pub(super) fn settled(&mut self, context: ContextId, lane: Lane) {
        let state = self.contexts.entry(context).or_default();
        let in_flight = &mut state.in_flight[lane.index()];
        *in_flight = in_flight.saturating_sub(1);
    }
}
