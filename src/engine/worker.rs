//! One worker: its passes one after the other, each a conversation on one of its contexts.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use tonic::transport::Channel;

use super::{
    context::StreamContext,
    line::{End, Line},
    out::Out,
    passes::{Held, Passes},
    shared::Shared,
};
use crate::{
    event::ContextId,
    plan::{Pacer, WorkerPlan, correlation_id},
    recorder::Recorder,
    scenario::{ConnectionOwner, Scenario},
    transport::{CallError, RequestTemplate, channel},
};

/// A worker and what it owns.
pub(super) struct Worker {
    passes: Passes,
    lines: Vec<Line>,
    sequences_begun: u32,
    out: Out,
}

impl Worker {
    pub(super) fn new(
        index: u32,
        thread: usize,
        shared: Arc<Shared>,
        recorder: Rc<RefCell<Recorder>>,
    ) -> Result<Self, CallError> {
        let scenario = &shared.scenario;
        Ok(Self {
            passes: passes(&shared, index),
            lines: lines(scenario, &shared, index)?,
            sequences_begun: 0,
            out: Out { shared, recorder, thread },
        })
    }

    /// The connections that the worker will use, each once.
    pub(super) fn connections(&self) -> impl Iterator<Item = Channel> {
        let count = match self.out.shared.scenario.sending.connection {
            ConnectionOwner::PerContext => self.lines.len(),
            ConnectionOwner::PerWorker => 1,
        };
        self.lines.iter().take(count).map(|line| line.channel().clone())
    }

    /// Holds its passes until there are no more, or the run says stop.
    pub(super) async fn run(mut self) {
        while !self.out.shared.is_stopping()
            && let Some(held) = self.passes.next(self.out.shared.elapsed())
        {
            let early = held.not_before.saturating_sub(self.out.shared.elapsed());
            if !early.is_zero() {
                tokio::time::sleep(early).await;
            }
            self.hold(held).await;
            self.out.shared.finished_a_pass(self.out.thread);
        }
        for line in &mut self.lines {
            line.close_all(&self.out).await;
        }
    }

    async fn hold(&mut self, Held { context, pattern, acts, sequences, .. }: Held) {
        let line = &mut self.lines[context as usize];
        line.context.begin(pattern, acts, self.sequences_begun);
        self.sequences_begun += sequences;
        // After a cut the rest of the pass is left out: its ID is in doubt, and the next pass begins with a new stream.
        if line.converse(&self.out).await == End::Suspicious {
            line.close_all(&self.out).await;
        }
    }
}

fn passes(shared: &Shared, worker: u32) -> Passes {
    if let Some(given) = &shared.given {
        return given.of_worker(worker);
    }
    let scenario = &shared.scenario;
    Passes::Drawn {
        plan: Box::new(WorkerPlan::new(scenario, shared.seed, worker)),
        pacer: Pacer::new(&scenario.load),
        manner: shared.preflight.manner(scenario),
        issued: 0,
    }
}

fn lines(scenario: &Scenario, shared: &Shared, worker: u32) -> Result<Vec<Line>, CallError> {
    let model = &shared.preflight.model;
    let connect = || channel(&scenario.target.endpoint, scenario.limits.connect_ms.duration());
    let common_channel = connect()?;
    shared.lend_connection(worker, common_channel.clone());
    let line = |context| {
        let channel = match scenario.sending.connection {
            ConnectionOwner::PerContext if context > 0 => connect()?,
            ConnectionOwner::PerContext | ConnectionOwner::PerWorker => common_channel.clone(),
        };
        let id = correlation_id(scenario, worker, context);
        let template = RequestTemplate::new(&model.name, &model.input.name, &model.shape, &model.output.name, id);
        Ok(Line::new(StreamContext::new(ContextId { worker, context }, scenario.sending.window), channel, template))
    };
    (0..scenario.contexts.count()).map(line).collect()
}
