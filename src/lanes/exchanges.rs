//! When the model was loaded anew, or the server restarted.

use std::collections::HashMap;

use crate::run::PhaseSpan;
use oracle::history::Entry;
use workload::{
    event::{ContextId, Disturbance, EventKind, Nanos},
    model::Model,
    scenario::{Scenario, ServerAction},
};

/// An exchange of the model or the server for another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// When the first context noticed that it began.
    pub(super) from: Nanos,
    /// When the first context noticed that it was over; none if nobody did.
    pub(super) until: Option<Nanos>,
    /// What the scenario does to the server; none for a server that somebody else restarts.
    pub(super) action: Option<ServerAction>,
    /// The slots of the model from then on, where they are known.
    pub(super) slots: Option<u32>,
}

/// What a context noticed of exchanges.
#[derive(Clone, Copy, Debug, Default)]
struct Noticed {
    /// How many beginnings and ends its client noticed. A client that is made anew notices all of the run again.
    count: usize,
    /// How many of its streams are open.
    open: usize,
    /// Whether the last event was a beginning or an end.
    is_noticing: bool,
}

/// The exchanges of a run, while its history is read. Each context notices each of them, sooner or later, and some more than once.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// What the scenario does to the server, and how many slots the model has then.
    plan: Vec<(ServerAction, Option<u32>)>,
    /// Whether somebody else may restart the server, too.
    reconnects: bool,
    slots: Option<u32>,
    contexts: HashMap<ContextId, Noticed>,
    all: Vec<Exchange>,
}

impl Exchanges {
    pub(super) fn of(scenario: &Scenario, model: &Model) -> Self {
        let actions = scenario.phases.iter().filter_map(|phase| phase.server);
        Self {
            plan: actions.map(|action| (action, slots_after(action, model))).collect(),
            reconnects: scenario.limits.reconnect_ms.is_some(),
            slots: model.slots,
            ..Self::default()
        }
    }

    /// Takes over when the scenario's phases exchanged something, as the run itself noted it: contexts notice it later.
    pub(super) fn noted(&mut self, phases: &[PhaseSpan]) {
        let noted = phases.iter().filter(|phase| phase.server.is_some()).zip(&self.plan);
        let exchange = |(phase, (action, slots)): (&PhaseSpan, &(ServerAction, Option<u32>))| {
            let (from, until) = (phase.server_from_us?.saturating_mul(1000), phase.began_us.saturating_mul(1000));
            Some(Exchange { from, until: Some(until), action: Some(*action), slots: *slots })
        };
        // A history of another version does not tell.
        let noted: Vec<_> = noted.map_while(exchange).collect();
        self.all.splice(..noted.len().min(self.all.len()), noted);
    }

    pub(super) fn all(&self) -> &[Exchange] {
        &self.all
    }

    /// Events are missing: which exchange a context notices next is not known.
    pub(super) fn gap(&mut self) {
        self.contexts.clear();
    }

    pub(super) fn entry(&mut self, entry: &Entry) {
        let noticed = self.contexts.entry(entry.context).or_default();
        let EventKind::Disturbed(disturbance) = &entry.what else {
            match &entry.what {
                EventKind::Opened(..) => noticed.open += 1,
                EventKind::Closed | EventKind::Cut(_) | EventKind::NotClosed => {
                    noticed.open = noticed.open.saturating_sub(1);
                }
                _ => {}
            }
            noticed.is_noticing = false;
            return;
        };
        let begins = *disturbance != Disturbance::IsOver;
        // A client without streams may be a new one. One that is not counts too few, and others count all.
        if begins && !noticed.is_noticing && noticed.open == 0 {
            noticed.count = 0;
        }
        noticed.is_noticing = true;
        noticed.count += 1;
        let place = (noticed.count - 1) / 2;
        if begins && place == self.all.len() {
            let is_planned = !self.reconnects;
            let (action, slots) = self.plan.get(place).filter(|_| is_planned).copied().unzip();
            let is_same = self.plan.iter().all(|(_, slots)| *slots == self.slots);
            let slots = slots.unwrap_or(self.slots.filter(|_| is_same));
            self.all.push(Exchange { from: entry.at, until: None, action, slots });
        } else if let Some(exchange) = self.all.get_mut(place).filter(|_| !begins) {
            exchange.until.get_or_insert(entry.at);
        }
    }
}

/// How many slots the model has after the scenario did that.
fn slots_after(action: ServerAction, model: &Model) -> Option<u32> {
    let is_other =
        action.strategy().is_some_and(|strategy| model.strategy != Some(strategy)) || action.times_the_instances() > 1;
    match model.slots_in_phases {
        // A model that has two numbers of slots has one as it is configured, and one with the other strategy or more instances.
        Some(range) if is_other => Some(if model.slots == Some(range.most) { range.fewest } else { range.most }),
        _ => model.slots,
    }
}
