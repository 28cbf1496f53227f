//! Which correlation ID belongs to which context.

use std::num::NonZeroU64;

use crate::{scenario::Scenario, sequence::CorrelationId};

/// The correlation ID of a worker's context: IDs of one block, the common contexts' first.
///
/// # Panics
/// When the worker or the context is not one of the scenario's, whose blocks are known to fit the IDs.
pub fn correlation_id(scenario: &Scenario, worker: u32, context: u32) -> CorrelationId {
    let ids = &scenario.correlation_ids;
    let offset = u64::from(worker) * u64::from(ids.block.get()) + u64::from(context);
    let id = ids.first.get().checked_add(offset).and_then(NonZeroU64::new);
    CorrelationId(id.expect("a scenario's blocks do not overflow"))
}
