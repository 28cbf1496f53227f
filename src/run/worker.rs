//! One worker: its iterations one after the other, each a conversation on one of its contexts.

use std::{collections::BTreeSet, mem, sync::Arc, time::Duration};

use super::{
    context::StreamContext,
    driver::Driver,
    iterations::Iterations,
    shared::{Out, Shared},
};
use wire::transport::{CallError, Link, RequestTemplate};
use workload::{
    conversation::{Conversation, Transport},
    event::{ContextId, Due},
    plan::correlation_id,
    scenario::{ConnectionOwner, Population},
};

pub(super) struct Worker {
    index: u32,
    iterations: Iterations,
    drivers: Vec<Driver>,
    sequences_begun: u32,
    out: Out,
}

impl Worker {
    pub(super) fn new(index: u32, out: Out) -> Result<Self, CallError> {
        Ok(Self {
            index,
            iterations: Iterations::of(&out.shared, index),
            drivers: drivers(&out.shared, index)?,
            sequences_begun: 0,
            out,
        })
    }

    /// The connections that the worker will use, each once, but for those over a faulty network.
    pub(super) fn connections(&self) -> impl Iterator<Item = (Link, Transport)> {
        let Population { sending, network, .. } = self.out.shared.setup.scenario.population_of(self.index);
        let to_prove = match sending.connection {
            // A faulty network may take what is only to be proven.
            _ if !network.is_clear() => 0,
            ConnectionOwner::PerContext => self.drivers.len(),
            ConnectionOwner::PerWorker => 1,
        };
        self.drivers.iter().take(to_prove).map(|driver| (driver.link.clone(), driver.context.transport))
    }

    /// Holds its iterations until there are no more, or the run says stop.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.out.shared);
        let phase = shared.setup.scenario.phase_of(self.index).filter(|_| shared.setup.given.is_none());
        let began = match phase {
            Some(phase) => tokio::select! {
                began = shared.phases.begins(phase) => began,
                () = shared.gate.stopped() => return,
            },
            None => Duration::ZERO,
        };
        self.hold_all(began).await;
        self.close_all().await;
        if let Some(phase) = phase {
            shared.phases.leave(phase);
        }
    }

    /// Closes the streams of its contexts in good order.
    pub(super) async fn close_all(&mut self) {
        for driver in &mut self.drivers {
            driver.close_all(&self.out).await;
        }
    }

    /// Holds the next iteration, which was due at a time of its own.
    pub(super) async fn hold_one(&mut self, due: Due) {
        // When there are no more is for the schedule to say.
        if let Some((iteration, sequences)) = self.iterations.next(Duration::ZERO) {
            self.hold(iteration, sequences, Some(due)).await;
        }
    }

    /// Holds its iterations; the first may begin at this time.
    async fn hold_all(&mut self, began: Duration) {
        while !self.out.shared.gate.is_stopping()
            && let Some((iteration, sequences)) =
                self.iterations.next(self.out.shared.clock.elapsed().saturating_sub(began))
        {
            let early = Duration::from_micros(iteration.at_us).saturating_sub(self.out.shared.clock.elapsed());
            if !early.is_zero() && tokio::time::timeout(early, self.out.shared.gate.stopped()).await.is_ok() {
                break;
            }
            self.hold(iteration, sequences, None).await;
        }
    }

    /// Closes what the contexts have open, because the conversation's streams take the place of theirs, and has each of them know as much
    /// of what was done to the server.
    async fn gather(&mut self, own: usize, others: BTreeSet<u32>) {
        let all: Vec<_> = others.iter().map(|other| *other as usize).chain([own]).collect();
        for context in &all {
            self.drivers[*context].close_all(&self.out).await;
        }
        // More may be done meanwhile.
        loop {
            for context in &all {
                self.drivers[*context].heed(&self.out);
            }
            if all.iter().all(|context| self.drivers[*context].heeded == self.drivers[own].heeded) {
                break;
            }
        }
        self.drivers[own].others = others;
    }

    async fn hold(&mut self, iteration: Conversation, sequences: u32, due: Option<Due>) {
        let own = iteration.context as usize;
        let others = iteration.others();
        if !others.is_empty() {
            self.gather(own, others).await;
        }
        let driver = &mut self.drivers[own];
        driver.context.begin(iteration.pattern, iteration.acts, self.sequences_begun, due);
        self.sequences_begun += sequences;
        // After a cut the rest of the iteration is left out: its ID is in doubt, and the next iteration begins with a new stream.
        let is_suspicious = matches!(driver.converse(&self.out).await, Ok(true));
        if is_suspicious || !driver.others.is_empty() {
            driver.close_all(&self.out).await;
        }
        let (others, heeded) = (mem::take(&mut driver.others), driver.heeded);
        for other in others {
            self.drivers[other as usize].heeded = heeded;
        }
        self.out.shared.threads[self.out.thread].finished_an_iteration();
    }
}

fn drivers(shared: &Shared, worker: u32) -> Result<Vec<Driver>, CallError> {
    let scenario = &shared.setup.scenario;
    let Population { sending, contexts, .. } = scenario.population_of(worker);
    let model = &shared.preflight.model;
    let dialer = shared.dialer(worker, 0);
    let common = shared.connection_of(worker)?.clone();
    let id = |context| correlation_id(scenario, worker, context).on_the_wire(scenario.id_form(worker));
    let template = RequestTemplate::of(&scenario.model_of(worker, model), id(0));
    let templates = (0..contexts.count()).map(|context| template.with_id(id(context))).collect();
    let driver = |(context, template)| {
        let has_own = context > 0 && sending.connection == ConnectionOwner::PerContext;
        let dialer = if has_own { shared.dialer(worker, context) } else { dialer.clone() };
        let link = if has_own { dialer.link()? } else { common.clone() };
        let context =
            StreamContext::new(ContextId { worker, context }, sending.window, sending.transport(), model.arithmetic);
        Ok(Driver::new(context, dialer, link, template))
    };
    (0..).zip(RequestTemplate::with_each_other(templates)).map(driver).collect()
}
