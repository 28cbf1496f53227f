use std::num::NonZeroU64;

use super::*;
use crate::{
    conversation::Lane,
    event::{ContextId, Cut},
    scenario::{Overrides, Source},
    sequence::{CorrelationId, Pattern, Step},
};

const MS: Nanos = 1_000_000;
const SLOTS: u32 = 2;
const IDLE: Duration = Duration::from_secs(1);

/// Contexts of one worker each, with two slots among them.
struct Story {
    occupancy: Occupancy,
    sent: u32,
    now: Nanos,
}

fn story() -> Story {
    let text = "load.workers = 4\ncontexts = { common = 1, rare = 0, rare_probability = 0 }";
    let scenario = Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
    Story { occupancy: Occupancy::new(&scenario, Some(SLOTS), Some(IDLE)), sent: 0, now: 0 }
}

impl Story {
    fn tell(&mut self, at: Nanos, worker: u32, what: What) {
        let context = ContextId { worker, context: 0 };
        let correlation_id = CorrelationId(NonZeroU64::MIN);
        self.occupancy.take(&Entry { at, context, correlation_id, lane: Lane::FIRST, what });
    }

    fn wait(&mut self, ms: u64) -> &mut Self {
        self.now += ms * MS;
        self
    }

    fn send(&mut self, worker: u32, flags: &str) -> RequestId {
        self.sent += 1;
        self.now += MS;
        let request = RequestId { worker, context: 0, sequence: self.sent, step: 0 };
        let (start, end) = (flags.contains("START"), flags.contains("END"));
        let step = Step { request, pattern: Pattern::Valid, start, end, value: 1, of: 9 };
        self.tell(self.now, worker, What::Sent(step));
        request
    }

    fn answer(&mut self, request: RequestId) -> &mut Self {
        self.now += MS;
        self.tell(self.now, request.worker, What::Answered(request, 1));
        self
    }

    /// A step that is answered at once.
    fn step(&mut self, worker: u32, flags: &str) -> &mut Self {
        let request = self.send(worker, flags);
        self.answer(request)
    }

    #[track_caller]
    fn assert(&mut self, expected: [u64; 3]) {
        self.occupancy.make_all();
        let reached = self.occupancy.board.claims;
        let counts = [Claim::AllSlotsBusy, Claim::Backlog, Claim::SlotReclaim].map(|claim| reached.of(claim));
        assert_eq!(counts, expected, "all-slots-busy, backlog, slot-reclaim");
    }
}

#[test]
fn slots_are_busy_while_as_many_sequences_are_certainly_open() {
    let mut story = story();
    story.step(0, "START").step(1, "START").step(2, "START END").step(0, "END").step(0, "START");
    story.assert([2, 0, 0]);
}

#[test]
fn what_may_have_ended_or_gone_idle_has_no_slot_for_certain() {
    let mut ended = story();
    ended.step(0, "START END").step(1, "START").step(2, "START END").assert([0, 0, 0]);
    let mut pipelined = story();
    let start = pipelined.send(0, "START");
    let end = pipelined.send(0, "END");
    pipelined.step(1, "START").answer(start).answer(end).assert([0, 0, 0]);
    let mut idle = story();
    idle.step(0, "START").wait(1000).step(1, "START").assert([0, 0, 0]);
    let mut kept = story();
    kept.step(0, "START").wait(900).step(0, "").wait(900).step(1, "START").assert([1, 0, 0]);
    for what in [What::Cut(Cut::Cancelled), What::GaveUp] {
        let mut lost = story();
        lost.step(0, "START");
        lost.tell(lost.now, 0, what);
        lost.step(1, "START").assert([0, 0, 0]);
    }
    let mut refused = story();
    let start = refused.send(0, "START");
    refused.step(1, "START");
    let error = crate::event::Received { id: start.to_string(), result: Err("no".into()) };
    refused.tell(refused.now, 0, What::Received(Box::new(error)));
    refused.assert([0, 0, 0]);
}

#[test]
fn a_start_waits_in_the_backlog_until_a_sequence_ends() {
    let mut story = story();
    let waits = story.step(0, "START").step(1, "START").send(2, "START");
    story.step(0, "END").answer(waits).assert([2, 1, 0]);
}

#[test]
fn a_slot_is_reclaimed_where_the_client_ended_nothing() {
    let mut reclaimed = story();
    let waits = reclaimed.step(0, "START").step(1, "START").send(2, "START");
    reclaimed.wait(1100).answer(waits).assert([1, 1, 1]);
    // A server that never reaps does not answer.
    let mut never = story();
    never.step(0, "START").step(1, "START").send(2, "START");
    never.wait(5000).assert([1, 0, 0]);
    // One that has more slots than it says is no backlog.
    let mut extra = story();
    extra.step(0, "START").step(1, "START").step(2, "START").assert([1, 0, 0]);
    let mut restarted = story();
    let waits = restarted.step(0, "START").step(1, "START").send(2, "START");
    restarted.step(0, "START").wait(1100).answer(waits).assert([2, 1, 1]);
    let mut restarted = story();
    let waits = restarted.step(0, "START").step(1, "START").send(2, "START");
    restarted.step(0, "START").step(0, "END").answer(waits).assert([3, 1, 0]);
    let mut restarted = story();
    let waits = restarted.step(0, "START").step(1, "START").send(2, "START");
    restarted.step(0, "START END").answer(waits).assert([2, 1, 0]);
}

#[test]
fn threads_may_tell_late_and_after_a_gap_nothing_is_certain() {
    let mut late = story();
    late.step(0, "START").step(1, "START").wait(500);
    // It was ended before the other one was started; its thread tells so now.
    let end = Step {
        request: RequestId { worker: 0, context: 0, sequence: 0, step: 1 },
        pattern: Pattern::Valid,
        start: false,
        end: true,
        value: 1,
        of: 2,
    };
    late.tell(3 * MS - 1, 0, What::Sent(end));
    late.assert([0, 0, 0]);
    let mut gap = story();
    gap.step(0, "START");
    gap.occupancy.forget();
    gap.step(1, "START").assert([0, 0, 0]);
}

#[test]
fn where_the_number_of_slots_is_not_known_nothing_is_counted() {
    let mut story = story();
    story.occupancy.slots = None;
    story.step(0, "START").step(1, "START").assert([0, 0, 0]);
}
