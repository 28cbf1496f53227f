//! Ends a simulated run whose server answers nobody any more, by the rule of a run.

use std::time::Duration;

use super::{
    client::{Shared, wait},
    nanos,
};
use crate::run::PATIENCE_MAX;
use oracle::{Evidence, Sent, Violation, ViolationKind};
use workload::event::Nanos;

/// So often in the longest silence the run is looked at.
const LOOKS: u64 = 8;

/// Looks at the run until its server has answered nobody for too long.
pub(super) async fn listen(world: Shared<'_>) {
    let (listener, longest) = {
        let world = world.borrow();
        let taken_within = if world.network_takes() { PATIENCE_MAX } else { Duration::ZERO };
        (world.listener(), nanos(world.plan.preflight.limits.silence * 2 + taken_within))
    };
    let (mut answered, mut since): (u64, Nanos) = (0, 0);
    loop {
        let next = world.borrow().now + (longest / LOOKS).max(1);
        wait(&world, listener, Some(next)).await;
        let world = &mut *world.borrow_mut();
        let now_answered = world.tally().total().answered();
        if now_answered != answered || !world.owes_answers() || world.is_disturbed() {
            (answered, since) = (now_answered, world.now);
        }
        let silent = world.now - since;
        if silent > longest {
            let sent = Sent { requests: world.requests_sent, answered };
            let evidence = Evidence::Silence { sent, seconds: Duration::from_nanos(silent).as_secs() };
            world.hang = Some(Violation::of_the_run(ViolationKind::Hang, world.now, evidence));
            return;
        }
    }
}
