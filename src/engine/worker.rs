//! One worker: its passes one after the other, each a conversation on one of its contexts.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use tonic::transport::Channel;

use super::{
    context::StreamContext,
    line::{End, Line},
    out::Out,
    shared::Shared,
};
use crate::{
    event::ContextId,
    plan::{Manner, Pace, Pacer, Pass, WorkerPlan, correlation_id},
    recorder::Recorder,
    scenario::{ConnectionOwner, Scenario},
    transport::{CallError, RequestTemplate, channel},
};

/// What pauses are shares of where the idle limit is not known: the server's default.
const USUAL_IDLE_LIMIT: Duration = Duration::from_secs(1);

/// A worker and what it owns.
pub(super) struct Worker {
    plan: WorkerPlan,
    pacer: Pacer,
    lines: Vec<Line>,
    sequences_begun: u32,
    manner: Manner,
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
            plan: WorkerPlan::new(scenario, shared.seed, index),
            pacer: Pacer::new(&scenario.load),
            lines: lines(scenario, &shared, index)?,
            sequences_begun: 0,
            manner: Manner {
                reuse: shared.preflight.reuse,
                stream: scenario.sending.stream,
                idle_limit: shared.preflight.model.idle_limit.unwrap_or(USUAL_IDLE_LIMIT),
            },
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

    /// Runs passes until the pacer or the run says stop.
    pub(super) async fn run(mut self) {
        let mut issued = 0;
        while !self.out.shared.is_stopping() && self.pacer.pace(self.out.shared.elapsed(), issued) == Pace::Go {
            let pass = self.plan.next_pass();
            self.run_pass(&pass).await;
            self.out.shared.finished_a_pass(self.out.thread);
            issued += 1;
        }
        for line in &mut self.lines {
            line.close_all(&self.out).await;
        }
    }

    async fn run_pass(&mut self, pass: &Pass) {
        let line = &mut self.lines[pass.context as usize];
        line.context.begin(pass.pattern, pass.acts(&self.manner), self.sequences_begun);
        self.sequences_begun += u32::try_from(pass.sequences.len()).expect("a pass has one sequence or two");
        // After a cut the rest of the pass is left out: its ID is in doubt, and the next pass begins with a new stream.
        if line.converse(&self.out).await == End::Suspicious {
            line.close_all(&self.out).await;
        }
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
