//! Sequences that the tool sends besides those of the run, each on a stream of its own and judged by an oracle that knows no others.

use std::{collections::VecDeque, time::Duration};

use tokio::time::timeout;

use crate::{addressing::addressed, preflight::Preflight};
use oracle::{
    Oracle, Purpose, Ruling, Violation,
    diagnosis::{ModelFacts, explain},
    history::Entry,
};
use wire::transport::{CallError, Incoming, Link, Message, Outgoing, RequestTemplate, Stream};
use workload::{
    conversation::{Lane, Transport},
    event::{ContextId, Cut, Event, EventKind, Nanos},
    model::Model,
    scenario::Scenario,
    sequence::{CorrelationId, RequestId, Step, WireId},
};

/// The most events that are kept to explain violations by.
const ENTRIES: usize = 100_000;

/// Who judges such sequences. Each of them has a context, and all have the worker behind the run's last one.
pub(crate) struct Aside {
    purpose: Purpose,
    worker: u32,
    /// By context.
    ids: Vec<CorrelationId>,
    oracle: Oracle,
}

#[derive(Debug, Default)]
pub(crate) struct Trail {
    pub(crate) violations: Vec<Violation>,
    /// The latest events.
    entries: VecDeque<Entry>,
    pub(super) requests: u64,
}

impl Aside {
    /// Judges a sequence for each of these correlation IDs.
    pub(crate) fn new(scenario: &Scenario, preflight: &Preflight, ids: Vec<CorrelationId>, purpose: Purpose) -> Self {
        let (id_form, contexts) = (scenario.correlation_ids.form, u32::try_from(ids.len()).expect("there are few"));
        let oracle = Oracle::new(preflight.rules(scenario), 1, contexts, |ContextId { context, .. }| {
            (ids[context as usize], id_form)
        });
        Self { purpose, worker: scenario.workers(), ids, oracle }
    }

    pub(crate) fn place(&self, context: u32) -> ContextId {
        ContextId { worker: self.worker, context }
    }

    /// Judges what happened on a sequence. Its violations go to the trail.
    pub(crate) fn observe(&mut self, trail: &mut Trail, at: Nanos, context: u32, kind: EventKind) -> Ruling {
        let place = self.place(context);
        // The oracle knows one worker.
        let known = ContextId { worker: 0, context };
        let event = self.oracle.read(Event { at, context: known, lane: Lane::FIRST, kind });
        trail.happened(Entry::new(Event { context: place, ..event.clone() }, self.ids[context as usize]));
        let mut ruling = self.oracle.observe(event);
        for mut violation in ruling.violations.drain(..) {
            if let Some(accused) = &mut violation.place {
                accused.worker = place.worker;
                accused.aside = Some(self.purpose);
            }
            trail.violations.push(violation);
        }
        ruling
    }
}

impl Trail {
    fn happened(&mut self, entry: Entry) {
        self.requests += u64::from(matches!(entry.what, EventKind::Sent(_)));
        if self.entries.len() >= ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    pub(crate) fn explained(self, known: &ModelFacts) -> Vec<Violation> {
        let entries = Vec::from(self.entries);
        let explained = |violation| Violation { explanations: explain(&violation, &entries, known), ..violation };
        self.violations.into_iter().map(explained).collect()
    }
}

/// A stream that carries one sequence.
pub(crate) struct OwnStream {
    /// None when no further step follows.
    pub(super) outgoing: Option<Outgoing>,
    pub(super) incoming: Incoming,
    /// What the server calls itself, with its version.
    server: Option<String>,
}

impl OwnStream {
    /// Opens one over `link`, if that leads to where this transport is spoken.
    pub(crate) fn open(model: &Model, link: &Link, by: Transport, id: WireId) -> Result<Self, CallError> {
        let Stream { outgoing, incoming } = Stream::open(link, by, RequestTemplate::of(model, id))?;
        Ok(Self { outgoing: Some(outgoing), incoming, server: model.server.clone() })
    }

    /// Hands over a step. Returns whether there was room for it.
    pub(crate) fn send(&self, step: Step) -> bool {
        let room = self.outgoing.as_ref().and_then(Outgoing::room_now);
        room.map(|room| room.send(step)).is_some()
    }

    /// What comes within `limit` of now, or that nothing has come in answer to `request`.
    pub(crate) async fn answer(&mut self, request: RequestId, limit: Duration) -> EventKind {
        let Ok(message) = timeout(limit, self.incoming.next()).await else {
            // Some of what it is answered with may have come.
            let part = self.incoming.unfinished(request);
            return part.map_or(EventKind::GaveUp, |received| EventKind::Received(Box::new(received)));
        };
        let message = match message {
            Message::Received(received) => addressed(self.server.as_deref(), received, &[request]),
            message => message,
        };
        match message {
            Message::ServedBy(server) => EventKind::ServedBy(server),
            Message::Received(received) => EventKind::Received(Box::new(received)),
            Message::End => EventKind::Cut(Cut::Ended),
            Message::Status(code, text) => EventKind::Cut(Cut::Status(code, text)),
            Message::Broken(reason) => EventKind::Cut(Cut::Broken(reason)),
            Message::Lapsed(_) => EventKind::Cut(Cut::Lapsed),
            Message::DeadlinePassed => EventKind::Cut(Cut::Deadline),
        }
    }
}
