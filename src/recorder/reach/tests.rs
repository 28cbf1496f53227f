use super::*;
use workload::{
    conversation::{Connection, Transport},
    sequence::{Flaw, Pattern, Special},
};

const MS: Nanos = 1_000_000;
const IDLE: Nanos = 1000 * MS;

/// What happens on one correlation ID, as the recorder tells of it.
#[derive(Default)]
struct Story {
    reach: Reach,
    claims: Claims,
    now: Nanos,
    loads: u64,
    sequence: u32,
    sent: Vec<(Step, Nanos)>,
}

impl Story {
    fn here(&self, lane: u8) -> Here {
        Here { at: self.now, lane: Lane(lane), idle_limit: Some(IDLE), loads: self.loads }
    }

    fn wait(&mut self, ms: u64) -> &mut Self {
        self.now += ms * MS;
        self
    }

    fn tell(&mut self, lane: u8, kind: &EventKind) -> &mut Self {
        let here = self.here(lane);
        self.reach.event(kind, here, &mut self.claims);
        self
    }

    /// Sends a step with or without START and END; a START begins a new sequence.
    fn send(&mut self, lane: u8, flags: &str) -> &mut Self {
        self.send_with(lane, flags, None)
    }

    fn send_with(&mut self, lane: u8, flags: &str, special: Option<Special>) -> &mut Self {
        let start = flags.contains("START");
        self.sequence += u32::from(start);
        let number = self.sent.iter().filter(|(step, _)| step.request.sequence == self.sequence).count();
        let number = u32::try_from(number).expect("few");
        let request = RequestId { worker: 0, context: 0, sequence: self.sequence, step: number };
        let end = flags.contains("END");
        let step = Step { request, pattern: Pattern::Valid, start, end, value: 1.into(), of: 9, special };
        self.sent.push((step, self.now));
        self.wait(1).tell(lane, &EventKind::Sent(step))
    }

    /// The step that was sent as the one with this number comes to this.
    fn settle(&mut self, lane: u8, number: usize, outcome: Outcome, doubt: Option<Doubt>, is_right: bool) -> &mut Self {
        let (step, sent_at) = self.sent[number];
        let settled = Settled { step, sent_at, outcome, sum: None, doubt };
        self.now += MS;
        let here = self.here(lane);
        self.reach.settled(&settled, is_right, here, &mut self.claims);
        self
    }

    fn right(&mut self, lane: u8, number: usize) -> &mut Self {
        self.settle(lane, number, Outcome::Completed, None, true)
    }

    /// A step that is sent and answered rightly.
    fn step(&mut self, lane: u8, flags: &str) -> &mut Self {
        let number = self.sent.len();
        self.send(lane, flags).right(lane, number)
    }

    #[track_caller]
    fn assert(&self, expected: &[(Claim, u64)]) {
        assert_eq!(self.claims.iter().collect::<Vec<_>>(), expected);
    }
}

fn story() -> Story {
    Story::default()
}

#[test]
fn an_id_is_used_again_when_its_end_was_answered_rightly() {
    story().step(0, "START").step(0, "END").step(0, "START").assert(&[(Claim::ReuseOfAnId, 1)]);
    story().step(0, "START").step(0, "").assert(&[]);
    let mut wrong = story();
    wrong.step(0, "START").send(0, "END").settle(0, 1, Outcome::Completed, None, false).step(0, "START");
    wrong.assert(&[]);
    let mut wrong = story();
    wrong.step(0, "START END").send(0, "START").settle(0, 1, Outcome::Completed, None, false);
    wrong.assert(&[]);
}

#[test]
fn back_to_back_is_what_is_sent_before_the_ends_answer() {
    let mut pipelined = story();
    pipelined.send(0, "START").send(0, "END").send(0, "START").right(0, 0).right(0, 1).right(0, 2);
    pipelined.assert(&[(Claim::ReuseOfAnId, 1), (Claim::BackToBack, 1)]);
    let mut behind_a_wrong_end = story();
    behind_a_wrong_end.send(0, "START END").send(0, "START");
    behind_a_wrong_end.settle(0, 0, Outcome::Completed, None, false).right(0, 1).assert(&[]);
}

#[test]
fn a_restart_counts_within_the_idle_limit_only() {
    story().step(0, "START").step(0, "").step(0, "START").assert(&[(Claim::RestartOfALiveId, 1)]);
    story().step(0, "START").wait(999).step(0, "START").assert(&[]);
    let mut slow = story();
    slow.step(0, "START").wait(900).send(0, "START").wait(200).right(0, 1).assert(&[]);
}

#[test]
fn rejections_count_by_what_they_show() {
    let mut rejected = story();
    rejected.step(0, "START END").send(0, "").settle(0, 1, Outcome::Rejected, None, true);
    rejected.assert(&[(Claim::RejectedNoStart, 1), (Claim::RejectedAfterEnd, 1)]);
    let mut twice = story();
    twice.step(0, "START END").send(0, "END").settle(0, 1, Outcome::Rejected, None, true);
    twice.assert(&[(Claim::RejectedNoStart, 1), (Claim::RejectedSecondEnd, 1)]);
    let mut expired = story();
    expired.send(0, "START").settle(0, 0, Outcome::Expired, None, true).assert(&[(Claim::ExpiredInBacklog, 1)]);
    let mut wrongly = story();
    wrongly.step(0, "START").send(0, "").settle(0, 1, Outcome::Rejected, None, false).assert(&[]);
    let reaped = |doubt| {
        let mut story = story();
        story.step(0, "START").wait(1500).send(0, "").settle(0, 1, Outcome::Rejected, Some(doubt), false);
        story
    };
    reaped(Doubt::Idle).assert(&[(Claim::IdleReap, 1)]);
    reaped(Doubt::State).assert(&[]);
}

#[test]
fn sequences_of_one_step_count_in_a_row() {
    let expected = [(Claim::ReuseOfAnId, 1), (Claim::OneStepSequences, 1)];
    story().step(0, "START").step(0, "END").step(0, "START END").assert(&expected);
    story().step(0, "START END").step(0, "START").assert(&[(Claim::ReuseOfAnId, 1)]);
}

#[test]
fn a_flaw_is_survived_where_the_sequence_goes_on() {
    let flaw = Some(Special::Flaw(Flaw::IdZero));
    let flawed = |before: &str, after: &str| {
        let mut story = story();
        story.step(0, before).send_with(0, "", flaw).settle(0, 1, Outcome::Rejected, None, true).step(0, after);
        story
    };
    flawed("START", "").assert(&[(Claim::SurvivedAFlaw, 1)]);
    flawed("START", "START").assert(&[(Claim::RestartOfALiveId, 1)]);
    flawed("START END", "START").assert(&[(Claim::ReuseOfAnId, 1)]);
    // Sent while the sequence may have waited for its slot.
    let mut early = story();
    early.send(0, "START").send_with(0, "", flaw).right(0, 0);
    early.settle(0, 1, Outcome::Rejected, None, true).step(0, "").assert(&[]);
    // Others may be under way when it is sent.
    let mut later = story();
    later.step(0, "START").send(0, "").send_with(0, "", flaw).right(0, 1);
    later.settle(0, 2, Outcome::Rejected, None, true).step(0, "").assert(&[(Claim::SurvivedAFlaw, 1)]);
}

#[test]
fn a_sequence_goes_on_after_a_pause_that_is_one() {
    story().step(0, "START").wait(300).step(0, "").assert(&[(Claim::KeptThroughAPause, 1)]);
    story().step(0, "START").wait(200).step(0, "").assert(&[]);
    // A slow answer is no pause.
    let mut slow = story();
    slow.send(0, "START").send(0, "").wait(500).right(0, 0).right(0, 1).assert(&[]);
}

#[test]
fn cuts_count_by_what_was_under_way() {
    let cancel = EventKind::Cut(Cut::Cancelled);
    let reset = EventKind::Cut(Cut::Reset);
    let under_way = || {
        let mut story = story();
        story.step(0, "START").send(0, "").send(0, "END");
        story
    };
    let with_steps = (Claim::CutWithStepsUnderWay, 1);
    under_way().tell(0, &cancel).assert(&[with_steps]);
    under_way().tell(0, &reset).assert(&[with_steps, (Claim::ConnectionReset, 1)]);
    under_way().tell(0, &EventKind::Cut(Cut::Killed)).assert(&[with_steps, (Claim::ClientKilled, 1)]);
    // What the network does is not what the client does.
    under_way().tell(0, &EventKind::Cut(Cut::ByNetwork)).assert(&[(Claim::CutByTheNetwork, 1)]);
    under_way().tell(0, &EventKind::Cut(Cut::Broken("gone".into()))).step(1, "START").assert(&[]);
    let mut restarted = under_way();
    restarted
        .tell(0, &cancel)
        .tell(1, &EventKind::Opened(Connection::Fresh, Transport::GrpcStream))
        .step(1, "START")
        .step(1, "START");
    restarted.assert(&[(Claim::RestartOfALiveId, 1), with_steps, (Claim::StartAfterACut, 1)]);
    story().step(0, "START").tell(0, &cancel).step(0, "START").assert(&[(Claim::CutWhileIdle, 1)]);
    story().step(0, "START END").tell(0, &cancel).assert(&[]);
    // Nothing of it was answered: the server may not have seen it.
    story().send(0, "START").tell(0, &cancel).assert(&[]);
}

#[test]
fn sequences_that_live_when_the_server_is_disturbed_are_counted() {
    let begins = EventKind::Disturbed(Disturbance::Begins);
    let live = (Claim::LiveWhenDisturbed, 1);
    story().step(0, "START").tell(0, &begins).assert(&[live]);
    story().step(0, "START").tell(0, &EventKind::Disturbed(Disturbance::InstanceFails)).assert(&[live]);
    story().step(0, "START").tell(0, &EventKind::Disturbed(Disturbance::IsOver)).assert(&[]);
    story().step(0, "START").step(0, "END").tell(0, &begins).assert(&[]);
    story().step(0, "START").wait(1000).tell(0, &begins).assert(&[]);
    // Nothing of it was answered: the server may not have it.
    story().send(0, "START").tell(0, &begins).assert(&[]);
    // Its END may be executed by then.
    story().step(0, "START").send(0, "END").tell(0, &begins).assert(&[]);
    story().step(0, "START").send(0, "").tell(0, &begins).assert(&[live]);
}

#[test]
fn steps_count_that_go_on_rightly_after_another_model_was_loaded() {
    let loaded = |flags: [&str; 2], outcome| {
        let mut story = story();
        story.step(0, flags[0]).loads += 1;
        story.send(0, flags[1]).settle(0, 1, outcome, None, outcome == Outcome::Completed);
        story.step(0, "START").claims.of(Claim::LivedThroughALoad)
    };
    assert_eq!(loaded(["START", ""], Outcome::Completed), 1);
    assert_eq!(loaded(["START", "END"], Outcome::Completed), 1);
    assert_eq!(loaded(["START", ""], Outcome::Rejected), 0);
    assert_eq!(loaded(["START END", "START"], Outcome::Completed), 0, "another sequence");
    story().step(0, "START").step(0, "").assert(&[]);
    // It was sent before, and may have been executed before.
    let mut early = story();
    early.step(0, "START").send(0, "").loads += 1;
    early.settle(0, 1, Outcome::Completed, None, true).assert(&[]);
}

#[test]
fn a_half_closed_stream_brings_all_its_answers_rightly() {
    let half_closed = || {
        let mut story = story();
        story.send(0, "START").send(0, "END").tell(0, &EventKind::HalfClosed);
        story
    };
    half_closed().right(0, 0).right(0, 1).assert(&[(Claim::HalfClosed, 1)]);
    half_closed().right(0, 0).settle(0, 1, Outcome::Failed, None, false).assert(&[]);
    story().step(0, "START END").tell(0, &EventKind::HalfClosed).step(0, "START").assert(&[(Claim::ReuseOfAnId, 1)]);
}

#[test]
fn a_stream_that_was_not_read_brings_all_its_answers_rightly() {
    let unread = |due: u32| {
        let mut story = story();
        story.step(0, "START");
        (0..due).for_each(|_| _ = story.send(0, ""));
        story.tell(0, &EventKind::StoppedReading(1000));
        story
    };
    let all = |mut story: Story, due: u32| {
        (1..=due as usize).for_each(|step| _ = story.right(0, step));
        story
    };
    all(unread(UNREAD_MAX + 1), UNREAD_MAX + 1).assert(&[(Claim::ReadOn, 1)]);
    all(unread(UNREAD_MAX + 1), UNREAD_MAX).assert(&[]);
    // So many may have come through.
    all(unread(UNREAD_MAX), UNREAD_MAX).assert(&[]);
    let mut wrong = unread(UNREAD_MAX + 1);
    wrong.settle(0, 1, Outcome::Failed, None, false);
    all(wrong, UNREAD_MAX + 1).assert(&[]);
}

#[test]
fn another_stream_goes_on_or_overtakes_or_goes_side_by_side() {
    story().step(0, "START").step(1, "").step(1, "END").assert(&[(Claim::ContinuedElsewhere, 1)]);
    let mut lost = story();
    lost.step(0, "START").send(1, "").settle(1, 1, Outcome::Completed, Some(Doubt::State), false).assert(&[]);
    let mut overtakes = story();
    overtakes.send(0, "START").send(0, "END").send(1, "START").send(1, "END").right(0, 0);
    overtakes.right(1, 2).right(1, 3).right(0, 1).assert(&[(Claim::RestartElsewhere, 1)]);
    let mut at_once = story();
    at_once.step(0, "START").send(0, "").send(1, "").right(1, 2).right(0, 1);
    at_once.assert(&[(Claim::ConcurrentSubmission, 1)]);
}

#[test]
fn an_answer_to_what_was_not_seen_leaves_the_other_streams_as_they_are() {
    // A step is unanswered on one stream. After a gap, an answer comes over another one.
    let mut story = story();
    story.send(1, "START").settle(0, 0, Outcome::Completed, None, true);
    story.wait(300).send(0, "").right(0, 1);
    assert_eq!(story.claims.of(Claim::KeptThroughAPause), 0, "the sequence had a step under way all the while");
}

#[test]
fn deadlines_that_pass_and_sequences_that_go_on() {
    let passed = EventKind::Cut(Cut::Deadline);
    let mut story = Story::default();
    story.step(0, "START").send(1, "").tell(1, &passed);
    assert_eq!((story.claims.of(Claim::DeadlinePassed), story.claims.of(Claim::WentOnPastADeadline)), (1, 0));
    story.step(0, "");
    assert_eq!(story.claims.of(Claim::WentOnPastADeadline), 1);
    // Once is once, and another sequence is not the same that goes on.
    story.step(0, "END");
    story.send(1, "START").tell(1, &passed).step(0, "START").step(0, "");
    assert_eq!((story.claims.of(Claim::DeadlinePassed), story.claims.of(Claim::WentOnPastADeadline)), (2, 1));
    // One that passes while nothing is under way is none, and one after which the step is rejected went on nowhere.
    let mut story = Story::default();
    story.step(0, "START").tell(1, &passed);
    assert_eq!(story.claims.of(Claim::DeadlinePassed), 0);
    story.send(1, "").tell(1, &passed).send(0, "").settle(0, 2, Outcome::Rejected, Some(Doubt::Stragglers), false);
    assert_eq!((story.claims.of(Claim::DeadlinePassed), story.claims.of(Claim::WentOnPastADeadline)), (1, 0));
}
