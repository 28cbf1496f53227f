//! Ends a simulated run whose server answers nobody any more, by the rule of a run.

use std::time::Duration;

use super::{
    client::{Shared, wait},
    nanos,
};
use crate::run::hang;
use oracle::Sent;
use workload::event::Nanos;

/// So often in the longest silence the run is looked at.
const LOOKS: u64 = 8;

/// Looks at the run until its server has answered nobody for too long.
pub(super) async fn listen(world: Shared<'_>) {
    let (listener, longest, network_takes) = {
        let world = world.borrow();
        let (scenario, limits) = (&world.plan.scenario, world.plan.preflight.limits);
        (world.listener(), nanos(limits.longest_silence(scenario)), scenario.has_network_that_takes())
    };
    let (mut answered, mut abandoned, mut since): (u64, u64, Nanos) = (0, 0, 0);
    loop {
        let next = world.borrow().now + (longest / LOOKS).max(1);
        wait(&world, listener, Some(next)).await;
        let world = &mut *world.borrow_mut();
        let total = world.tally().total();
        // Nothing is owed that the network took; what is sent then has a right to be waited for as long.
        let is_taken = network_takes && total.indeterminate != abandoned;
        if total.answered() != answered || is_taken || !world.owes_answers() || world.is_disturbed() {
            (answered, abandoned, since) = (total.answered(), total.indeterminate, world.now);
        }
        let silent = world.now - since;
        if silent > longest {
            let sent = Sent { requests: world.requests_sent, answered };
            world.hang = Some(hang(world.now, sent, Duration::from_nanos(silent)));
            return;
        }
    }
}
