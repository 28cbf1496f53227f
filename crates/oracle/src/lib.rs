//! Decides whether what came back was allowed, from what was sent and answered so far; never from the plan.

#[cfg(test)]
#[path = "../../../tests/support/long.rs"]
mod rounds;

pub mod diagnosis;
mod evidence;
mod expiry;
mod explainer;
mod form;
pub mod golden;
mod histories;
pub mod history;
mod known;
mod observation;
mod occupancy;
mod order;
mod overlap;
mod rejection;
mod response;
mod seat;
mod series;
mod served;
mod states;
mod strays;
mod stream;
mod violation;
mod words;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::{
    evidence::{CountBounds, Disorder, Evidence, Leak, Sender, Sent, Subject},
    explainer::{Explainer, VIOLATIONS_KEPT, explained_alone},
    occupancy::{Holder, LongestWait, Occupancy, Offered, SEATED_MAX, Seated, Seating, WAITING_MAX, WaitingStart},
    order::{Answer, Taken},
    states::State,
    violation::{Place, Purpose, Violation, ViolationKind},
    words::{OtherWords, Words},
};
use self::{golden::Expectation, known::Knowledge, observation::Observation};
use workload::{
    arithmetic::Arithmetic,
    controls::Controls,
    conversation::Lane,
    event::{ContextId, Event, EventKind, Nanos},
    number::Number,
    sequence::{CorrelationId, IdForm, Step},
    tensor::Shape,
    version::ModelVersion,
};

/// What a correct server may and may not do, for one model and one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rules {
    /// The model that was asked for.
    pub model: String,
    /// The model that its program calls for each request, where it calls one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<String>,
    /// The version of it that answers, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The output that was asked for.
    pub output: String,
    /// The output's shape: that of the input.
    pub shape: Shape,
    /// What the model computes.
    #[serde(default)]
    pub arithmetic: Arithmetic,
    /// How long a sequence may get no request before the server ends it; where it is not known, a rejection in the middle
    /// of a sequence cannot be judged.
    pub idle_limit: Option<Duration>,
    /// How long requests of a stream that was cut may still be under way in the server.
    pub straggling: Duration,
    /// Whether the model may keep its state by correlation ID, and so mix two sequences of one ID that are live at once, which
    /// the server allows.
    pub mixes: bool,
    /// Whether the server is restarted in the run, so that the end of a connection may be on its way when it is there again.
    #[serde(default)]
    pub restarts: bool,
    /// Whether the words of the server's errors are judged.
    #[serde(default)]
    pub words: Words,
    /// Where the model says what it saw of each request, and is asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controls: Option<Controls>,
    /// What the model answers, where no formula says it.
    #[serde(skip)]
    pub golden: Option<Expectation>,
}

/// The oracle of a run.
#[derive(Clone, Debug)]
pub struct Oracle {
    rules: Rules,
    /// The rules of workers that send to a version of their own, by worker; empty where all send to the same.
    of_versions: Vec<Arc<Rules>>,
    contexts_per_worker: u32,
    /// By worker, then context.
    ids: Vec<Knowledge>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server executed it.
    Completed,
    /// The server certainly did not execute it: it wants a START first, or saw the request's flaw.
    Rejected,
    /// The server certainly did not execute it: its sequence waited for a slot for longer than it might.
    Expired,
    /// The server answered with another error.
    Failed,
    /// It may or may not have been executed.
    Indeterminate,
}

/// A request whose outcome is settled now.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// The request.
    pub step: Step,
    /// When it was sent.
    pub sent_at: Nanos,
    /// What became of it.
    pub outcome: Outcome,
    /// The answered sum, where there is one.
    pub sum: Option<Number>,
    /// Why the answer could not be judged; a completed step that could not is only counted.
    pub doubt: Option<Doubt>,
}

/// Why any answer would have been lawful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// What the server held was not known.
    State,
    /// The sequence may have been idle for too long.
    Idle,
    /// Requests of a stream that was cut may have been taken in before.
    Stragglers,
    /// The sequence may have been cancelled with a request of another stream.
    Cancelled,
    /// Two sequences of one ID may overlap, which the server allows, in a model that keeps its state by correlation ID.
    Overlap,
    /// The requests of several streams may have come in more orders than can be looked at.
    Orders,
    /// The model or the server was exchanged for another.
    Disturbed,
    /// What a model without a formula answers in that state was not measured, or is not told apart from what it answers in another.
    NotMeasured,
}

/// What an event means.
#[derive(Debug, Default)]
pub struct Ruling {
    /// The request that the event settles, if any.
    pub settled: Option<Settled>,
    /// How many further requests will never be settled.
    pub abandoned: usize,
    /// What a correct server would not have done.
    pub violations: Vec<Violation>,
    /// Whether the stream has to be cut, because its further messages could not be told apart.
    pub distrust: bool,
    /// An error in words that are not known, which was taken for a rejection.
    pub other_words: Option<OtherWords>,
}

impl Oracle {
    /// An oracle for contexts whose correlation IDs, and what they are in error messages, are told by `identity`.
    pub fn new(
        rules: Rules,
        workers: u32,
        contexts_per_worker: u32,
        identity: impl Fn(ContextId) -> (CorrelationId, IdForm),
    ) -> Self {
        let contexts =
            (0..workers).flat_map(|worker| (0..contexts_per_worker).map(move |context| ContextId { worker, context }));
        let ids = contexts.map(|context| Knowledge::new(identity(context))).collect();
        Self { rules, of_versions: Vec::new(), contexts_per_worker, ids }
    }

    /// The same for workers that send to these versions of the model, by worker. A server keeps the sequences of versions apart, so
    /// two workers may have the same correlation IDs where their versions differ.
    #[must_use]
    pub fn of_versions(self, versions: impl Iterator<Item = ModelVersion>) -> Self {
        let mut all: BTreeMap<ModelVersion, Arc<Rules>> = BTreeMap::new();
        let rules = |version: ModelVersion| Rules { version: Some(version.to_string()), ..self.rules.clone() };
        let of_versions = versions
            .map(|version| Arc::clone(all.entry(version).or_insert_with(|| Arc::new(rules(version)))))
            .collect();
        Self { of_versions, ..self }
    }

    fn rules_of(&self, worker: u32) -> &Rules {
        self.of_versions.get(worker as usize).map_or(&self.rules, Arc::as_ref)
    }

    /// How long a sequence may get no request before the server ends it, where it is known.
    pub fn idle_limit(&self) -> Option<Duration> {
        self.rules.idle_limit
    }

    /// The event with its message read, which is done once for everything that looks at the event.
    pub fn read(&self, event: Event) -> Event {
        let EventKind::Received(received) = &event.kind else { return event };
        let ContextId { worker, context } = event.context;
        let rules = self.rules_of(worker);
        let id = self.ids.get((worker * self.contexts_per_worker + context) as usize);
        let expected = || id.map(|id| id.expected(event.lane, received.request(), rules)).unwrap_or_default();
        match rules.told_by_all(received, expected) {
            Some((request, number, seen)) => Event { kind: EventKind::Answered(request, number, seen), ..event },
            None => event,
        }
    }

    /// Takes an event in.
    pub fn observe(&mut self, event: Event) -> Ruling {
        let ContextId { worker, context } = event.context;
        let rules = self.of_versions.get(worker as usize).map_or(&self.rules, Arc::as_ref);
        let id = &mut self.ids[(worker * self.contexts_per_worker + context) as usize];
        Observation::new(rules, id, &event).of(event.kind)
    }

    /// The streams that wait for answers.
    pub fn waiting_streams(&self) -> impl Iterator<Item = (ContextId, Lane)> {
        (0..).zip(&self.ids).flat_map(|(index, id)| {
            let (worker, context) = (index / self.contexts_per_worker, index % self.contexts_per_worker);
            let waits = id.streams().filter(|(_, stream)| stream.waiting().next().is_some());
            waits.map(move |(lane, _)| (ContextId { worker, context }, lane))
        })
    }
}

fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn ms(nanos: Nanos) -> u64 {
    nanos / 1_000_000
}

#[cfg(test)]
mod tests;
