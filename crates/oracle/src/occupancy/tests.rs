use std::num::NonZeroU64;

use super::*;
use crate::{Evidence, ViolationKind};
use workload::{
    claim::Claim,
    conversation::Lane,
    event::{ContextId, Cut, Disturbance, EventKind},
    scenario::{Overrides, Source},
    sequence::{CorrelationId, Pattern, Step},
};

const MS: Nanos = 1_000_000;
const SLOTS: u32 = 2;
const BATCHING: Option<Batching> = Some(Batching { instances: 1, largest: SLOTS });
const IDLE: Duration = Duration::from_secs(1);

/// Contexts of one worker each, with two slots among them.
struct Story {
    occupancy: Occupancy,
    sent: u32,
    /// The number of all sequences that are told of.
    sequence: u32,
    now: Nanos,
}

fn story() -> Story {
    story_of(Some(SLOTS))
}

fn story_of(slots: Option<u32>) -> Story {
    let text = "load.workers = 4\ncontexts = { common = 3, rare = 0, rare_probability = 0 }";
    let scenario = Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
    Story {
        occupancy: Occupancy::new(&scenario, (slots, BATCHING), Some(IDLE), Duration::from_millis(20)),
        sent: 0,
        sequence: 0,
        now: 0,
    }
}

impl Story {
    fn tell(&mut self, at: Nanos, worker: u32, what: EventKind) {
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
        let request = RequestId { worker, context: 0, sequence: self.sequence, step: self.sent };
        let (start, end) = (flags.contains("START"), flags.contains("END"));
        let step = Step { request, pattern: Pattern::Valid, start, end, value: 1.into(), of: 9, special: None };
        self.tell(self.now, worker, EventKind::Sent(step));
        request
    }

    /// A START with a time limit.
    fn start_within(&mut self, worker: u32, limit_ms: u64) -> RequestId {
        self.sent += 1;
        self.now += MS;
        let request = RequestId { worker, context: 0, sequence: self.sequence, step: self.sent };
        self.limited_step(request, true, limit_ms);
        request
    }

    fn limited_step(&mut self, request: RequestId, start: bool, limit_ms: u64) {
        let special = Some(Special::TimeoutUs(limit_ms * 1000));
        let step = Step { request, pattern: Pattern::Timeout, start, end: false, value: 1.into(), of: 9, special };
        self.tell(self.now, request.worker, EventKind::Sent(step));
    }

    /// The requests that were executed beyond their limit.
    fn overdue(&mut self) -> Vec<RequestId> {
        self.occupancy.conclude();
        let found = self.occupancy.violations().into_iter();
        let overdue = found.filter(|violation| violation.kind == ViolationKind::MissingTimeout);
        overdue.filter_map(|violation| violation.place?.request_id).collect()
    }

    fn answer(&mut self, request: RequestId) -> &mut Self {
        self.now += MS;
        self.tell(self.now, request.worker, EventKind::Answered(request, 1.into(), None));
        self
    }

    /// The same, where the model tells in which slot it saw the step.
    fn answer_in(&mut self, slot: u32, request: RequestId) -> &mut Self {
        self.now += MS;
        let seen = Seen::new([None; 3], -1, Some(slot));
        self.tell(self.now, request.worker, EventKind::Answered(request, 1.into(), Some(seen)));
        self
    }

    /// A step that is answered at once, from this slot.
    fn step_in(&mut self, slot: u32, worker: u32, flags: &str) -> &mut Self {
        let request = self.send(worker, flags);
        self.answer_in(slot, request)
    }

    /// By worker and slot, the steps that were executed where another sequence was.
    fn wrong_slots(&mut self) -> Vec<(u32, u32)> {
        self.occupancy.conclude();
        let found = self.occupancy.violations().into_iter();
        let of = |violation: Violation| {
            let Evidence::TakenSlot { slot, .. } = violation.evidence else { panic!("{violation:?}") };
            (violation.place.expect("a place").worker, slot)
        };
        found.map(of).collect()
    }

    /// A step that is answered at once.
    fn step(&mut self, worker: u32, flags: &str) -> &mut Self {
        let request = self.send(worker, flags);
        self.answer(request)
    }

    #[track_caller]
    fn assert(&mut self, expected: [u64; 3]) {
        self.occupancy.make(true);
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
fn a_slot_is_taken_from_the_response_to_start_until_end_is_sent() {
    let mut story = story();
    let start = story.send(0, "START");
    story.occupancy.make(true);
    assert_eq!(story.occupancy.taken(), 0, "START may still be rejected");
    story.answer(start).step(1, "START");
    story.occupancy.make(true);
    assert_eq!(story.occupancy.taken(), 2);
    story.step(0, "END");
    story.occupancy.make(true);
    assert_eq!(story.occupancy.taken(), 1);
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
    for what in [EventKind::Cut(Cut::Cancelled), EventKind::GaveUp] {
        let mut lost = story();
        lost.step(0, "START");
        lost.tell(lost.now, 0, what);
        lost.step(1, "START").assert([0, 0, 0]);
    }
    let mut rejected = story();
    let start = rejected.send(0, "START");
    rejected.step(1, "START");
    let error = workload::event::Received { id: start.to_string(), result: Err("no".into()), code: None, outputs: 0 };
    rejected.tell(rejected.now, 0, EventKind::Received(Box::new(error)));
    rejected.assert([0, 0, 0]);
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

/// What was there to be executed in all: for how many ms there was something, and how many requests at a time, summed up over these.
fn offered(story: &mut Story) -> (u64, u64) {
    story.occupancy.conclude();
    let mut all = Offered::default();
    story.occupancy.offered().iter().for_each(|(_, second)| all.add(second));
    (all.busy_ns / MS, all.request_ns / MS)
}

#[test]
fn what_could_be_executed_is_one_request_of_each_sequence_with_a_slot() {
    let mut story = story();
    // Two STARTs have the two slots, and a third one waits. Each event takes 1 ms.
    let [first, second, third] = [1, 2, 3].map(|worker| story.send(worker, "START"));
    story.wait(10).answer(first);
    assert_eq!(offered(&mut story), (1 + 12, 1 + 2 * 12));
    // The first sequence rests with its slot, so the third one gets none.
    story.answer(second).wait(7);
    // A second request of a sequence is none that can be executed besides.
    let steps = [story.send(1, ""), story.send(1, "")];
    story.wait(4).answer(steps[0]).answer(steps[1]);
    let end = story.send(1, "END");
    story.wait(3).answer(end);
    assert_eq!(offered(&mut story), (1 + 7 + 4, 1 + 7 + 4));
    // Its slot is the third one's.
    story.wait(8).answer(third);
    assert_eq!(offered(&mut story), (9, 9));
}

#[test]
fn what_could_be_executed_is_not_known_where_entries_are_missing_or_the_model_is_unknown() {
    let mut story = story();
    let first = story.send(1, "START");
    story.wait(10).answer(first);
    story.occupancy.forget();
    story.send(2, "START");
    story.wait(10);
    story.occupancy.conclude();
    let seconds = story.occupancy.offered();
    assert!(seconds.iter().any(|(_, second)| second.is_partial), "{seconds:?}");
    let mut unknown = story_of(None);
    let first = unknown.send(1, "START");
    unknown.wait(10).answer(first);
    assert_eq!(offered(&mut unknown), (0, 0));
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
        value: 1.into(),
        of: 2,
        special: None,
    };
    late.tell(3 * MS - 1, 0, EventKind::Sent(end));
    late.assert([0, 0, 0]);
    let mut gap = story();
    gap.step(0, "START");
    gap.occupancy.forget();
    gap.step(1, "START").assert([0, 0, 0]);
}

#[test]
fn what_is_done_to_the_server_may_end_every_sequence() {
    let tell = |story: &mut Story, worker| {
        for disturbance in [Disturbance::Begins, Disturbance::IsOver] {
            story.tell(story.now, worker, EventKind::Disturbed(disturbance));
        }
    };
    let mut told = story();
    tell(told.step(0, "START"), 1);
    told.step(1, "START").assert([0, 0, 0]);
    // Told late by another context, it takes nothing from what began since.
    tell(&mut told, 0);
    told.step(2, "START").assert([1, 0, 0]);
    let mut waited = story();
    let waits = waited.step(0, "START").step(1, "START").send(2, "START");
    tell(&mut waited, 0);
    waited.answer(waits).assert([1, 0, 0]);
}

#[test]
fn where_the_number_of_slots_is_not_known_nothing_is_counted() {
    let mut story = story_of(None);
    story.step(0, "START").step(1, "START").assert([0, 0, 0]);
}

#[test]
fn a_step_in_a_slot_that_another_sequence_has_is_found_when_that_goes_on() {
    let mut story = story();
    story.step_in(0, 0, "START").step_in(0, 1, "START").step_in(1, 2, "START");
    assert_eq!(story.wrong_slots(), [], "the first one may be gone, whatever the client knows");
    story.step_in(0, 0, "END");
    assert_eq!(story.wrong_slots(), [(1, 0)], "one fault is one violation");
}

#[test]
fn where_there_are_several_clocks_nobody_is_accused_by_the_order_of_events() {
    let of_several = |mut story: Story| {
        story.occupancy = story.occupancy.of_several_clocks();
        story
    };
    let mut shared = of_several(story());
    shared.step_in(0, 0, "START").step_in(0, 1, "START").step_in(0, 0, "END");
    assert_eq!(shared.wrong_slots(), []);
    let mut withheld = of_several(steady_story());
    withheld.start_after(0, 4000);
    assert_eq!(withheld.withheld(), None);
    let mut overdue = of_several(story());
    overdue.step(0, "START").step(1, "START");
    let waits = overdue.start_within(2, 100);
    held_for(&mut overdue, 18);
    assert!(overdue.answer(waits).overdue().is_empty());
}

#[test]
fn a_slot_that_may_be_free_is_lawfully_anothers() {
    type Does = fn(&mut Story);
    let cases: [(&str, Does); 5] = [
        ("END is sent", |story| _ = story.send(0, "END")),
        ("it may have been idle for too long", |story| _ = story.wait(1001)),
        ("its stream is cut", |story| story.tell(story.now + 1, 0, EventKind::Cut(Cut::Cancelled))),
        ("its answer is given up", |story| {
            story.send(0, "");
            story.tell(story.now + 1, 0, EventKind::GaveUp);
        }),
        ("it is started anew", |story| _ = story.send(0, "START")),
    ];
    for (what, does) in cases {
        let mut story = story();
        story.step_in(0, 0, "START");
        does(&mut story);
        story.step_in(0, 1, "START").step_in(0, 1, "END").step_in(0, 0, "END");
        assert_eq!(story.wrong_slots(), [], "{what}");
    }
    let mut story = story();
    let pending = story.send(1, "START");
    story.step_in(0, 0, "START").answer_in(0, pending).step_in(0, 0, "END");
    assert_eq!(story.wrong_slots(), [], "it may have been executed before");
}

#[test]
fn a_sequence_that_was_started_anew_shows_nothing_of_the_one_before_it() {
    let mut story = story();
    story.step_in(0, 0, "START").step_in(0, 1, "START").step_in(0, 1, "END");
    story.sequence += 1;
    story.step_in(1, 0, "START").step_in(1, 0, "END");
    assert_eq!(story.wrong_slots(), [], "the server may have been started anew in between");
}

#[test]
fn the_longest_wait_tells_who_had_the_slots() {
    let mut story = story();
    story.step_in(0, 0, "START").step_in(1, 1, "START");
    let waits = story.send(2, "START");
    story.wait(40).step_in(0, 0, "END").step_in(0, 3, "START").wait(20).step_in(0, 3, "END");
    story.answer_in(0, waits);
    story.occupancy.conclude();
    let longest = story.occupancy.longest_wait().expect("a START waited");
    let holders: Vec<_> = longest.holders.iter().map(|holder| (holder.correlation_id.0.get(), holder.slot)).collect();
    assert_eq!((longest.correlation_id.0.get(), longest.waited_ms), (201, 67));
    assert_eq!(holders, [(101, Some(1)), (1, Some(0)), (301, Some(0))]);
    assert_eq!(longest.holders[0].held_ms, 67);
}

#[test]
fn who_went_on_had_the_slot_even_where_that_was_not_certain_meanwhile() {
    let mut story = story();
    // Its START took longer than the idle limit, so that it may have been gone again when it was answered.
    let slow = story.send(0, "START");
    story.wait(1100).answer_in(0, slow).step_in(1, 1, "START");
    story.step_in(0, 0, "").wait(50).step_in(0, 0, "");
    let waits = story.send(2, "START");
    story.wait(40).step_in(0, 0, "END").answer_in(0, waits);
    story.occupancy.conclude();
    let longest = story.occupancy.longest_wait().expect("a START waited");
    let holders: Vec<_> =
        longest.holders.iter().map(|holder| (holder.correlation_id.0.get(), holder.held_ms >= 40)).collect();
    assert_eq!(holders, [(101, true), (1, true)]);
}

/// Two sequences that go on for so many tenths of a second while a third one waits, and are ended.
fn held_for(story: &mut Story, tenths: u64) {
    for _ in 0..tenths {
        story.wait(98).step(0, "");
        story.now -= 2 * MS;
        story.step(1, "");
    }
    story.step(0, "END");
}

#[test]
fn a_sequence_that_was_executed_after_its_limit_had_passed_in_the_backlog_is_told() {
    let busy = || {
        let mut story = story();
        story.step(0, "START").step(1, "START");
        story
    };
    let overdue = |limit_ms, tenths, late_ms| {
        let mut story = busy();
        let waits = story.start_within(2, limit_ms);
        held_for(&mut story, tenths);
        story.wait(late_ms).answer(waits);
        (story.overdue(), waits)
    };
    let (found, waits) = overdue(100, 18, 0);
    assert_eq!(found, [waits]);
    // The limit had hardly passed when a slot was free, or when the answer may have been on its way.
    assert!(overdue(100, 10, 2000).0.is_empty());
    assert!(overdue(900, 18, 2000).0.is_empty());
    assert!(overdue(100, 13, 0).0.is_empty());
    // Others had the slots meanwhile, so the answer was not on its way.
    assert_eq!(overdue(100, 13, 500).0.len(), 1);

    // No limit, no matter how long.
    let mut without = busy();
    let waits = without.send(2, "START");
    held_for(&mut without, 18);
    assert!(without.answer(waits).overdue().is_empty());

    // The earliest limit of all steps counts.
    let mut shorter = busy();
    let waits = shorter.start_within(2, 60_000);
    shorter.limited_step(RequestId { step: 1000, ..waits }, false, 100);
    held_for(&mut shorter, 18);
    assert_eq!(shorter.answer(waits).overdue(), [waits]);
}

#[test]
fn nobody_is_told_to_have_waited_too_long_where_that_is_not_certain() {
    let after = |before: &dyn Fn(&mut Story), meanwhile: &dyn Fn(&mut Story, RequestId)| {
        let mut story = story();
        story.step(0, "START").step(1, "START");
        before(&mut story);
        let waits = story.start_within(2, 100);
        meanwhile(&mut story, waits);
        held_for(&mut story, 18);
        story.answer(waits).overdue().len()
    };
    assert_eq!(after(&|_| {}, &|_, _| {}), 1);
    // A slot was free all the while.
    assert_eq!(after(&|story| _ = story.step(1, "END"), &|_, _| {}), 0);
    // The client did not read; or something of the ID was under way before; or the model was exchanged.
    assert_eq!(after(&|_| {}, &|story, _| story.tell(story.now, 2, EventKind::StoppedReading(1))), 0);
    assert_eq!(after(&|story| _ = story.send(2, ""), &|_, _| {}), 0);
    let disturbed = EventKind::Disturbed(Disturbance::Begins);
    assert_eq!(after(&|story| story.tell(story.now, 3, disturbed.clone()), &|_, _| {}), 0);
    assert_eq!(after(&|_| {}, &|story, _| story.tell(story.now, 3, disturbed.clone())), 0);
    // Entries are missing.
    assert_eq!(after(&|_| {}, &|story, _| story.occupancy.forget()), 0);
    // It was sent again.
    let again = |story: &mut Story, waits: RequestId| {
        story.send(2, "START");
        assert_eq!(waits.worker, 2);
    };
    assert_eq!(after(&|_| {}, &again), 0);
}

#[test]
fn a_sequence_behind_a_slow_network_may_have_come_late() {
    let text =
        "load.workers = 4\ncontexts = { common = 1, rare = 0, rare_probability = 0 }\nnetwork.latency_ms.constant = 1";
    let scenario = Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
    let mut story = story();
    story.occupancy = Occupancy::new(&scenario, (Some(SLOTS), None), Some(IDLE), Duration::from_millis(20));
    story.step(0, "START").step(1, "START");
    let waits = story.start_within(2, 100);
    held_for(&mut story, 18);
    assert!(story.answer(waits).overdue().is_empty());
}

/// A run in which a START was answered at once, long after it began.
fn steady_story() -> Story {
    let mut story = story();
    story.wait(2500).step(1, "START").step(1, "END");
    story
}

impl Story {
    /// What is told of a START that waited although a slot was free.
    fn withheld(&mut self) -> Option<Evidence> {
        self.occupancy.conclude();
        let violation = self.occupancy.withheld()?;
        assert_eq!(violation.kind, ViolationKind::SlotWithheld);
        Some(violation.evidence)
    }

    /// A START that is answered after so long.
    fn start_after(&mut self, worker: u32, ms: u64) -> &mut Self {
        let start = self.send(worker, "START");
        self.wait(ms).answer(start)
    }
}

#[test]
fn a_start_that_waits_although_a_slot_is_free_is_told() {
    let mut story = steady_story();
    story.step(2, "START");
    // The slot of the sequence that ended is given to nobody for four seconds.
    assert_eq!(story.start_after(0, 2900).withheld(), None, "as long as that a busy machine may take");
    let mut story = steady_story();
    story.start_after(0, 4000);
    let told = |answered_ms, free_ms| Some(Evidence::Withheld { holders: 0, slots: 2, answered_ms, free_ms });
    assert_eq!(story.withheld(), told(4001, 4001));

    // Another START comes later and is answered before: the server still had a slot for that ID.
    let mut story = steady_story();
    let start = story.send(0, "START");
    story.wait(4000).step(1, "START");
    assert_eq!(story.wait(300).answer(start).withheld(), told(4303, 4002));
}

#[test]
fn a_start_that_may_have_to_wait_for_a_slot_is_not_told() {
    // Two sequences without END have the slots until they were idle for too long.
    let mut story = steady_story();
    story.step(2, "START").step(3, "START");
    assert_eq!(story.start_after(0, 4900).withheld(), None);

    // Steps of a stream that is gone may still begin a sequence.
    let mut story = steady_story();
    story.step(2, "START");
    story.send(3, "START");
    story.now += MS;
    let now = story.now;
    story.tell(now, 3, EventKind::Cut(Cut::Cancelled));
    assert_eq!(story.start_after(0, 4900).withheld(), None);

    // Others are given the slot, one after the other.
    let mut story = steady_story();
    let start = story.send(0, "START");
    for _ in 0..9 {
        story.wait(600).step(1, "START END");
    }
    assert_eq!(story.answer(start).withheld(), None);

    // Whoever used the model before the run.
    let mut story = story_from_the_beginning();
    assert_eq!(story.start_after(0, 4900).withheld(), None);

    // Steps take that long.
    let mut story = steady_story();
    story.step(2, "START");
    let step = story.send(2, "");
    story.wait(1000).answer(step);
    assert_eq!(story.start_after(0, 3900).withheld(), None);

    // The client may not have read the answer.
    let mut story = steady_story();
    let start = story.send(0, "START");
    story.now += MS;
    let now = story.now;
    story.tell(now, 0, EventKind::StoppedReading(4_500_000));
    assert_eq!(story.wait(4500).answer(start).withheld(), None);

    // Entries are missing.
    let mut story = steady_story();
    story.occupancy.forget();
    assert_eq!(story.start_after(0, 4900).withheld(), None);
}

fn story_from_the_beginning() -> Story {
    let mut story = story();
    story.step(1, "START END");
    story
}

/// By sequence with a slot: its slot, pattern, and for how many milliseconds it has it; by START that waits: its pattern and for how long.
type Shown = (Vec<(Option<u32>, Option<Pattern>, u64)>, Vec<(Option<Pattern>, u64)>);

fn seating(story: &mut Story) -> Shown {
    story.occupancy.make(true);
    let Seating { seated, waiting } = story.occupancy.seating();
    let ms = |since| (story.now - since) / MS;
    let seated = seated.iter().map(|its| (its.slot, its.pattern, ms(its.since)));
    let waiting = waiting.iter().map(|its| (its.pattern, ms(its.since)));
    (seated.collect(), waiting.collect())
}

#[test]
fn who_has_a_slot_and_who_waits_is_told_while_it_is_certain() {
    const VALID: Option<Pattern> = Some(Pattern::Valid);
    let mut story = story();
    let first = story.send(0, "START");
    assert_eq!(seating(&mut story), (vec![], vec![(VALID, 0)]));
    story.answer_in(1, first);
    let second = story.send(2, "START");
    story.answer_in(0, second).wait(10);
    // In the order of slots; the third waits.
    let third = story.send(1, "START");
    assert_eq!(seating(&mut story), (vec![(Some(0), VALID, 11), (Some(1), VALID, 13)], vec![(VALID, 0)]));
    story.wait(5).send(2, "END");
    assert_eq!(seating(&mut story), (vec![(Some(1), VALID, 19)], vec![(VALID, 6)]));
    // Without a slot of its own, behind those that have one.
    story.answer(third);
    assert_eq!(seating(&mut story), (vec![(Some(1), VALID, 20), (None, VALID, 0)], vec![]));
}

#[test]
fn a_start_waits_no_longer_when_it_is_rejected_given_up_or_cut() {
    for what in [EventKind::GaveUp, EventKind::Cut(Cut::ByClient)] {
        let mut story = story();
        let (_, other) = (story.send(0, "START"), story.send(1, "START"));
        let now = story.now;
        story.tell(now, 0, what);
        assert_eq!(seating(&mut story).1.len(), 1);
        story.answer(other);
        assert_eq!(seating(&mut story).1, []);
        // A step without START is none that waits.
        story.send(0, "");
        assert_eq!(seating(&mut story).1, []);
    }
}

#[test]
fn nobody_is_told_to_have_a_slot_where_entries_are_missing_or_slots_are_not_known() {
    let mut unknown = story_of(None);
    unknown.step(0, "START").send(1, "START");
    assert_eq!(seating(&mut unknown), (vec![], vec![]));
    let mut story = story();
    story.step(0, "START").send(1, "START");
    story.occupancy.forget();
    assert_eq!(seating(&mut story), (vec![], vec![]));
}

#[test]
fn what_is_told_of_slots_and_waits_is_bounded() {
    let text = "load.workers = 200\ncontexts = { common = 1, rare = 0, rare_probability = 0 }";
    let scenario = Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
    let occupancy = Occupancy::new(&scenario, (Some(100), BATCHING), Some(IDLE), Duration::from_millis(20));
    let mut story = Story { occupancy, ..story() };
    for worker in 0..100 {
        story.step(worker, "START");
    }
    for worker in 100..200 {
        story.send(worker, "START");
    }
    let (seated, waiting) = seating(&mut story);
    assert_eq!((seated.len(), waiting.len()), (64, 16));
    assert_eq!(waiting[0], (Some(Pattern::Valid), 99), "the one that waits longest comes first");
}

/// Three IDs whose STARTs share a stream, before two slots.
struct Queue {
    story: Story,
    sequences: u32,
}

impl Queue {
    /// Two sequences have the slots, and all three IDs have had one before.
    fn full() -> Self {
        let mut queue = Self { story: story(), sequences: 0 };
        for id in 0..3 {
            let start = queue.start(id);
            queue.answered(start);
            queue.end(id);
        }
        queue.story.step(2, "START").step(3, "START");
        queue
    }

    fn tell(&mut self, id: u32, what: EventKind) {
        self.story.now += MS;
        self.tell_at_once(id, what);
    }

    fn tell_at_once(&mut self, id: u32, what: EventKind) {
        let (at, context) = (self.story.now, ContextId { worker: 0, context: id });
        let entry = Entry { at, context, correlation_id: CorrelationId(NonZeroU64::MIN), lane: Lane(1), what };
        self.story.occupancy.take(&entry);
    }

    fn send(&mut self, request: RequestId, start: bool, end: bool, special: Option<Special>) -> RequestId {
        let step = Step { request, pattern: Pattern::SharedStream, start, end, value: 1.into(), of: 9, special };
        self.tell(request.context, EventKind::Sent(step));
        request
    }

    fn start(&mut self, id: u32) -> RequestId {
        self.sequences += 1;
        self.send(RequestId { worker: 0, context: id, sequence: self.sequences, step: 0 }, true, false, None)
    }

    /// A further step of the sequence that a START began.
    fn behind(&mut self, start: RequestId, step: u32) -> RequestId {
        self.send(RequestId { step, ..start }, false, false, None)
    }

    fn answered(&mut self, request: RequestId) -> &mut Self {
        self.tell(request.context, EventKind::Answered(request, 1.into(), None));
        self
    }

    fn end(&mut self, id: u32) {
        let end = RequestId { worker: 0, context: id, sequence: self.sequences, step: 8 };
        self.send(end, false, true, None);
        self.answered(end);
    }

    /// The STARTs that were passed over.
    fn out_of_turn(&mut self) -> Vec<RequestId> {
        self.story.occupancy.conclude();
        let found = self.story.occupancy.violations().into_iter();
        let found = found.filter(|violation| violation.kind == ViolationKind::SlotOutOfTurn);
        found.filter_map(|violation| violation.place?.request_id).collect()
    }
}

#[test]
fn a_start_that_waits_while_one_behind_it_has_a_slot_is_told() {
    let mut queue = Queue::full();
    let (first, second) = (queue.start(0), queue.start(1));
    queue.story.step(2, "END");
    // The other sequence and the second one have the slots.
    queue.answered(second);
    queue.story.step(3, "END");
    queue.answered(first);
    assert_eq!(queue.out_of_turn(), [first]);
    assert_eq!(queue.story.occupancy.reached().of(Claim::SlotsInTurn), 0);

    // The response to the second START is held back on the stream; that to the step behind it is not.
    let mut queue = Queue::full();
    let (first, second) = (queue.start(0), queue.start(1));
    let behind = queue.behind(second, 1);
    queue.story.step(2, "END");
    queue.answered(behind);
    queue.story.step(3, "END");
    queue.answered(first);
    assert_eq!(queue.out_of_turn(), [first]);

    // It is never answered, and its stream does not end.
    let mut queue = Queue::full();
    let (first, second) = (queue.start(0), queue.start(1));
    queue.story.step(2, "END");
    queue.answered(second);
    assert_eq!(queue.out_of_turn(), []);
    queue.story.wait(1000).step(2, "START END");
    assert_eq!(queue.out_of_turn(), [first]);
}

#[test]
fn slots_that_are_given_in_turn_are_counted() {
    let mut queue = Queue::full();
    let (first, second) = (queue.start(0), queue.start(1));
    queue.story.step(2, "END");
    queue.answered(first);
    queue.story.step(3, "END");
    queue.answered(second);
    assert_eq!(queue.out_of_turn(), []);
    assert_eq!(queue.story.occupancy.reached().of(Claim::SlotsInTurn), 1);
}

#[test]
fn a_start_that_may_have_its_slot_is_not_told() {
    /// What happens between the end of a sequence and the responses to two STARTs, the later one first.
    type Told = fn(&mut Queue, [RequestId; 2]);
    let cases: [(&str, Told); 8] = [
        ("two slots were released", |queue, _| _ = queue.story.step(3, "END")),
        ("it may have had its slot, and lost it by the idle limit", |queue, [_, _]| {
            queue.story.wait(500).step(3, "");
            queue.story.wait(600).step(3, "").step(1, "START");
        }),
        ("its stream was cut", |queue, [first, _]| queue.tell(first.context, EventKind::Cut(Cut::ByNetwork))),
        ("it was rejected", |queue, [first, _]| {
            let (id, result) = (first.to_string(), Err("cancelled".to_owned()));
            let received = workload::event::Received { id, result, code: None, outputs: 0 };
            queue.tell(first.context, EventKind::Received(Box::new(received)));
        }),
        ("it may have ended", |queue, [first, _]| _ = queue.send(RequestId { step: 8, ..first }, false, true, None)),
        ("the model was exchanged", |queue, [first, _]| {
            queue.tell(first.context, EventKind::Disturbed(Disturbance::Begins));
        }),
        ("its client does not read", |queue, [first, _]| queue.tell(first.context, EventKind::StoppedReading(1000))),
        ("there are more slots than are known", |queue, _| {
            for worker in [1, 2] {
                queue.story.step(worker, "START");
            }
        }),
    ];
    for (why, told) in cases {
        let mut queue = Queue::full();
        let (first, second) = (queue.start(0), queue.start(1));
        queue.story.step(2, "END");
        told(&mut queue, [first, second]);
        queue.answered(second);
        queue.story.step(3, "END");
        queue.answered(first);
        assert_eq!(queue.out_of_turn(), [], "{why}");
    }
}

#[test]
fn a_start_that_may_go_on_with_a_sequence_of_its_id_passes_nobody() {
    // The second ID has a sequence without END, which may have a slot: its next START needs none.
    let mut queue = Queue { story: story(), sequences: 0 };
    let open = queue.start(1);
    queue.answered(open);
    queue.story.step(3, "START");
    let (first, second) = (queue.start(0), queue.start(1));
    queue.answered(second);
    queue.story.step(3, "END");
    queue.answered(first);
    assert_eq!(queue.out_of_turn(), []);

    // A START with a time limit may be taken out of the backlog before its error comes.
    let mut queue = Queue::full();
    queue.sequences += 1;
    let limited = RequestId { worker: 0, context: 0, sequence: queue.sequences, step: 0 };
    queue.send(limited, true, false, Some(Special::TimeoutUs(5)));
    let second = queue.start(1);
    queue.story.step(2, "END");
    queue.answered(second);
    queue.story.step(3, "END");
    queue.answered(limited);
    assert_eq!(queue.out_of_turn(), []);
}
