//! What becomes of each step, as the log tells it.

use std::time::Duration;

use oracle::Settled;
use workload::{
    event::{ContextId, Nanos},
    sequence::Step,
};

pub(crate) fn sent(context: ContextId, step: &Step) {
    tell(context, step, "sent");
}

pub(crate) fn settled(context: ContextId, at: Nanos, settled: &Settled) {
    if tracing::enabled!(tracing::Level::DEBUG) {
        let sum = settled.sum.map_or(String::new(), |sum| format!(" {sum}"));
        let ms = Duration::from_nanos(at.saturating_sub(settled.sent_at)).as_secs_f64() * 1000.0;
        tell(context, &settled.step, &format!("{:?}{sum} after {ms:.1} ms:", settled.outcome).to_lowercase());
    }
}

fn tell(context: ContextId, step: &Step, what: &str) {
    tracing::debug!("worker {} context {} request {}: {what} {step}", context.worker, context.context, step.request);
}
