//! How the instances of a model execute what they are handed.

use std::{
    ops::Range,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::sync::mpsc;

use super::{
    super::{
        execution::{Executed, Instance, Ticket},
        fault::Fault,
        model::Outputs,
        refusal::{FAILING, instance_failed, model_error},
        scheduler::Moment,
    },
    Asks, Failed, Reply, Served,
};
use wire::proto::{ModelInferResponse, model_infer_response::InferOutputTensor};

/// The part of an execution in which a cancel comes late, for the fault of losing a slot then.
pub(in super::super) const LATE_PART: u32 = 4;

impl Served {
    pub(super) async fn run_instance(
        self: Arc<Self>,
        index: u32,
        mut instance: Instance,
        mut batches: mpsc::UnboundedReceiver<Asks>,
    ) {
        let spec = self.spec();
        let execution = spec.parameters.execution * spec.parameters.iterations;
        let mut resets = self.core().resets;
        while let Some(batch) = batches.recv().await {
            let began = self.now();
            if self.faults.has(Fault::LeakSlotAtLateCancel) {
                let late = began + execution / LATE_PART * (LATE_PART - 1);
                self.core().nearly_over.insert(index, late..began + execution);
            }
            // No time at all costs nothing.
            if !execution.is_zero() {
                tokio::time::sleep(execution).await;
            }
            self.faults.hold_up(Fault::SlowExecution).await;
            let size = batch.len();
            if std::mem::replace(&mut resets, self.core().resets) != resets {
                instance = Instance::new(index, Arc::clone(&spec), Arc::clone(&self.faults));
            }
            let failed = if index == FAILING { self.core().failed.take() } else { None };
            if failed.is_some() {
                instance.restart();
            }
            let mut executed = match failed {
                _ if spec.parameters.calls.is_some() => self.call(batch).await,
                Some(Failed::WithItsBatch) => Instance::fail(batch, &instance_failed(&self.name)),
                Some(Failed::Alone) | None => instance.execute(batch),
            };
            if let (Some(Failed::WithItsBatch), Some(_)) = (&failed, &spec.parameters.calls) {
                // What the other model executed stays executed.
                for executed in &mut executed {
                    (executed.outcome, executed.succeeded) = (Err(instance_failed(&self.name)), false);
                }
            }
            self.spoil(&mut executed);
            self.count(size, &executed, &(began..self.now()));
            if spec.is_iterative {
                self.core().statistics.iterated(size, spec.parameters.iterations, executed.len());
            }
            for executed in executed {
                self.answer(executed);
            }
            self.faults.hold_up(Fault::LateRelease).await;
            {
                let core = &mut *self.core();
                core.executing -= 1;
                core.scheduler.finished(index);
                if index == FAILING && core.failed.is_some() {
                    // The batch was executed before.
                    core.failed = Some(Failed::Alone);
                }
            }
            self.advance();
        }
    }

    /// Lets requests fail, where that is planted.
    fn spoil(&self, executed: &mut [Executed<Reply>]) {
        for executed in executed {
            if self.faults.happens(Fault::ModelError) {
                (executed.outcome, executed.succeeded) = (Err(model_error()), false);
            }
        }
    }

    fn count(&self, batch_size: usize, executed: &[Executed<Reply>], span: &Range<Moment>) {
        let each = executed.iter().map(|executed| (executed.request.arrived, executed.succeeded));
        let epoch_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let times = match () {
            () if self.faults.happens(Fault::CountNot) => 0,
            () if self.faults.happens(Fault::CountTwice) => 2,
            () => 1,
        };
        let statistics = &mut self.core().statistics;
        for _ in 0..times {
            statistics.executed(batch_size, each.clone(), span, u64::try_from(epoch_ms).unwrap_or(u64::MAX));
        }
    }

    fn answer(&self, executed: Executed<Reply>) {
        let Ticket { request_id, version, reply, wants, .. } = executed.request.payload;
        let answers = executed.outcome.map(|responses| {
            let mut all: Vec<_> =
                responses.into_iter().map(|outputs| self.response(&request_id, version, outputs)).collect();
            if all.is_empty() && wants.empty_final {
                // Nothing of the model is in it, not even its version.
                let (model_name, id) = (self.name.clone(), request_id.clone());
                all.push(ModelInferResponse { model_name, id, ..Default::default() });
            }
            all
        });
        reply.send(&self.name, request_id, answers);
    }

    pub(super) fn response(&self, request_id: &str, version: i64, outputs: Outputs) -> ModelInferResponse {
        let mut response = ModelInferResponse {
            model_name: self.name.clone(),
            model_version: version.to_string(),
            id: request_id.to_owned(),
            ..Default::default()
        };
        for (name, tensor) in outputs {
            response.outputs.push(InferOutputTensor {
                name: name.to_string(),
                datatype: tensor.datatype.name().to_owned(),
                shape: tensor.shape,
                ..Default::default()
            });
            response.raw_output_contents.push(tensor.data);
        }
        response
    }
}
