//! Where the time of a step goes on average, and how full the model's batches were: what the server counted beside what the client saw.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{probe::Accounting, recorder::Executed, run::RunResult};
use oracle::Offered;
use workload::model::{Counted, Model, Spent};

/// The mean time of the steps that the server executed, and its parts, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct MeanStep {
    /// Steps that the server executed, as the client counted them.
    pub(super) steps: u64,
    /// From when a step was due, or was sent where it has no time of its own, to its response; of several responses to the last one.
    pub(super) total: f64,
    /// Of this, how late the client sent it, where it waited for the step's time alone.
    pub(super) client_late: f64,
    /// How late it sent the others: the step before had no response yet, or no worker was free.
    pub(super) held_back: f64,
    /// What the model's statistics say; null where they cannot be read, or do not fit what the client counted.
    pub(super) server: Option<InServer>,
    /// The rest of the total: network, protocols on both sides, and what the client took to read the response. Null where the server's part
    /// is not known, or is longer than the client waited.
    pub(super) outside: Option<f64>,
}

/// The mean time of a request in the server, and its parts, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct InServer {
    /// Requests that succeeded in the run. More than `steps` are requests whose response the client did not wait for.
    pub(super) requests: u64,
    /// How long they waited until the model began with their batch; the wait for a slot is in it.
    pub(super) queue: f64,
    /// How long the model computed, with its inputs and outputs.
    pub(super) compute: f64,
    /// Of this, until it had the inputs.
    pub(super) compute_input: f64,
    /// Until it had computed.
    pub(super) compute_infer: f64,
    /// Until the outputs were there.
    pub(super) compute_output: f64,
    /// What a request took in the server besides.
    pub(super) other: f64,
}

/// The mean of a sum in ns, in µs.
#[expect(clippy::cast_precision_loss, reason = "an average")]
fn mean_us(ns: u64, of: u64) -> f64 {
    ns as f64 / of as f64 / 1000.0
}

impl InServer {
    fn of(counted: Counted, spent: &Spent) -> Option<Self> {
        let requests = counted.success;
        let mean = |ns| mean_us(ns, requests);
        (requests > 0).then(|| Self {
            requests,
            queue: mean(spent.queue_ns),
            compute: mean(spent.compute_ns()),
            compute_input: mean(spent.compute_input_ns),
            compute_infer: mean(spent.compute_infer_ns),
            compute_output: mean(spent.compute_output_ns),
            // A server may count no time of whole requests.
            other: mean(spent.request_ns.saturating_sub(spent.queue_ns + spent.compute_ns())),
        })
    }

    /// All of it.
    pub(super) fn total(&self) -> f64 {
        self.queue + self.compute + self.other
    }
}

impl MeanStep {
    /// That of a run; none where the server executed nothing.
    pub(super) fn of(result: &RunResult) -> Option<Self> {
        let Executed { steps, late_ns, held_back_ns, from_sending_ns } = result.tally.executed;
        let mean = |ns| mean_us(ns, steps);
        let server = match &result.accounting {
            Accounting::Agrees { rose, spent, .. } => InServer::of(*rose, spent),
            // Then other clients' requests are in the counts, or they are wrong.
            Accounting::Differs { .. } | Accounting::NotCheckable { .. } => None,
        };
        let seen = mean(from_sending_ns);
        (steps > 0).then(|| Self {
            steps,
            total: mean(late_ns + held_back_ns + from_sending_ns),
            client_late: mean(late_ns),
            held_back: mean(held_back_ns),
            server,
            outside: server.map(|server| seen - server.total()).filter(|outside| *outside >= 0.0),
        })
    }
}

/// How many requests the model executed at a time, and how many there were to be executed. Both are null for an iterative model, whose
/// requests are counted once however often they are executed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct MeanBatch {
    /// Inferences of an execution, on average; null where the model's statistics cannot be read, or do not fit what the client counted.
    pub(super) mean: Option<f64>,
    /// How many there could have been: sequences that had a slot and a request without a response, on average over the time in which there
    /// was one, and no more than a batch has places. Null where slots, batches or idle limit are not known, or the run changed the server.
    pub(super) possible: Option<f64>,
}

impl MeanBatch {
    /// That of a run.
    pub(super) fn of(result: &RunResult) -> Self {
        let model = &result.preflight.model;
        let mean = match &result.accounting {
            Accounting::Agrees { rose, .. } => mean_batch(model, *rose),
            Accounting::Differs { .. } | Accounting::NotCheckable { .. } => None,
        };
        Self { mean, possible: possible_batch(model, &result.series.offered_in_all()) }
    }
}

/// Inferences of an execution, where the counts rose so far.
#[expect(clippy::cast_precision_loss, reason = "an average")]
pub(super) fn mean_batch(model: &Model, rose: Counted) -> Option<f64> {
    let says_something = rose.execution > 0 && !model.arithmetic.answers.are_iterative();
    says_something.then(|| rose.inference as f64 / rose.execution as f64)
}

/// How many there could have been.
pub(super) fn possible_batch(model: &Model, offered: &Offered) -> Option<f64> {
    let batching = model.batching.filter(|_| !model.arithmetic.answers.are_iterative())?;
    offered.possible_batch(batching.instances)
}
