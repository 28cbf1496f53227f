//! Counts what was exercised on each correlation ID, from what was answered.

use std::mem;

use oracle::{Doubt, Outcome, Settled};
use workload::{
    claim::{Claim, Claims},
    conversation::{Lane, Transport},
    event::{Cut, Disturbance, EventKind, Nanos},
    sequence::{RequestId, Step, UNREAD_MAX},
};

/// A pause is a share of the idle limit of at least one in so many.
const PAUSE: u64 = 4;

/// What was exercised on one correlation ID last.
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    lanes: [Traffic; Lane::MAX as usize],
    /// The step that was answered last; none where it was not answered rightly, or a stream was cut since.
    last: Option<Answered>,
    /// The sequence whose START was answered last, and how often another model had been loaded by then.
    begun: Option<(u32, u64)>,
    /// The latest step that was sent in some special way, as long as it is unanswered.
    special: Option<(RequestId, Special)>,
    /// When the server answered the START of its sequence, if the sequence was never idle for the idle limit since.
    alive_since: Option<Nanos>,
    /// Whether a step with a flaw was sent and rejected since, in the middle of a sequence.
    is_flawed: bool,
    /// Whether a stream was cut with steps under way, and none was answered since.
    is_cut: bool,
    /// The sequence that had steps under way when a client's deadline passed, as long as none was answered since.
    past_a_deadline: Option<u32>,
    /// Whether a request's error just ended its stream, and other requests with it.
    ends_others: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Here {
    pub(super) at: Nanos,
    pub(super) lane: Lane,
    pub(super) idle_limit: Option<Nanos>,
    /// How often another model was loaded so far.
    pub(super) loads: u64,
}

/// What is under way on a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    unanswered: u32,
    /// The sequence of the step that was sent last.
    sequence: u32,
    /// Whether that step carried END.
    ends: bool,
    /// Whether it was half-closed with answers due.
    half_closed: bool,
    /// Whether it was not read while more answers were due than flow control lets through.
    unread: bool,
    by: Transport,
}

#[derive(Clone, Copy, Debug)]
struct Answered {
    request: RequestId,
    lane: Lane,
    by: Transport,
    end: bool,
    sent_at: Nanos,
    at: Nanos,
}

#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a step may show")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Special {
    /// START behind an END that is not answered yet.
    pipelined: bool,
    /// START while steps of a sequence before are under way on another stream.
    overtakes: bool,
    /// The sequence goes on over another stream.
    elsewhere: bool,
    /// The sequence goes on over another transport.
    differently: bool,
    /// The sequence goes on after a pause.
    paused: bool,
    /// Another model was loaded since its START was answered, and since such a step before.
    loaded: bool,
    /// It has a flaw, and a step of its sequence was answered before: the sequence has its slot.
    has_slot: bool,
}

impl Reach {
    /// Takes in what happened, but for what was received.
    pub(super) fn event(&mut self, kind: &EventKind, here: Here, claims: &mut Claims) {
        match kind {
            EventKind::Sent(step) => self.sent(step, here),
            EventKind::HalfClosed => {
                let traffic = &mut self.lanes[here.lane.index()];
                traffic.half_closed = traffic.unanswered > 0;
            }
            EventKind::StoppedReading(_) => {
                let traffic = &mut self.lanes[here.lane.index()];
                traffic.unread = traffic.unanswered > UNREAD_MAX;
            }
            EventKind::Cut(cut) => self.cut(cut, here.lane, claims),
            EventKind::Disturbed(disturbance) => {
                let begins = *disturbance != Disturbance::IsOver;
                // An END that is not answered may be executed.
                let may_be_over = self.lanes.iter().any(|traffic| traffic.unanswered > 0 && traffic.ends);
                let is_live = !may_be_over && self.last.is_some_and(|last| last.is_live(here));
                reach(claims, Claim::LiveWhenDisturbed, begins && is_live);
                // What was answered before is no measure of what comes.
                (self.special, self.last, self.begun) = (None, None, None);
            }
            EventKind::Opened(_, by) => self.lanes[here.lane.index()].by = *by,
            _ => {}
        }
    }

    /// Steps that are unanswered on all lanes.
    fn unanswered(&self) -> u32 {
        self.lanes.iter().map(|traffic| traffic.unanswered).sum()
    }

    fn sent(&mut self, step: &Step, Here { at, lane, idle_limit, loads }: Here) {
        let unanswered = self.unanswered();
        let traffic = &mut self.lanes[lane.index()];
        let others_are_quiet = unanswered == traffic.unanswered;
        let mut special = Special::default();
        if step.flaw().is_some() {
            special.has_slot = self.last.is_some_and(|last| last.goes_on_in(step.request));
        } else if step.start {
            special.pipelined = traffic.unanswered > 0 && traffic.ends && others_are_quiet;
            special.overtakes = !others_are_quiet;
        } else if let Some(last) = self.last.filter(|last| unanswered == 0 && last.goes_on_in(step.request)) {
            special.elsewhere = lane != last.lane;
            special.differently = traffic.by != last.by;
            special.paused = idle_limit.is_some_and(|limit| at.saturating_sub(last.at) >= limit / PAUSE);
        }
        // It is executed behind that load, and its sequence had begun before.
        special.loaded = !step.start && self.begun.is_some_and(|(its, at)| its == step.request.sequence && at < loads);
        if special.loaded {
            // Each load counts once.
            self.begun = Some((step.request.sequence, loads));
        }
        if special != Special::default() {
            self.special = Some((step.request, special));
        }
        traffic.unanswered += 1;
        self.ends_others = false;
        (traffic.sequence, traffic.ends) = (step.request.sequence, step.end);
    }

    /// Takes in what became of a request; `is_right` where its answer could be judged, and was right.
    pub(super) fn settled(&mut self, settled: &Settled, is_right: bool, here: Here, claims: &mut Claims) {
        let Settled { step, sent_at, outcome, doubt, .. } = settled;
        let traffic = &mut self.lanes[here.lane.index()];
        // After a gap in a history there may be answers to what was not seen.
        traffic.unanswered = traffic.unanswered.saturating_sub(1);
        traffic.half_closed &= is_right;
        traffic.unread &= is_right;
        if traffic.unanswered == 0 {
            reach(claims, Claim::HalfClosed, mem::take(&mut traffic.half_closed));
            reach(claims, Claim::ReadOn, mem::take(&mut traffic.unread));
        }
        let special = self.special.take_if(|(request, _)| *request == step.request).map(|(_, special)| special);
        let last = self.last.take();
        match outcome {
            Outcome::Completed if is_right => {
                self.accepted(step, last, special.unwrap_or_default(), here, claims);
                self.lives_on(step, last, *sent_at, here, claims);
                // A sequence that was overtaken may end after the one that overtook it.
                let is_latest = last.is_none_or(|last| last.request.sequence <= step.request.sequence);
                let Here { at, lane, loads, .. } = here;
                if step.start {
                    self.begun = Some((step.request.sequence, loads));
                }
                let by = self.lanes[lane.index()].by;
                let answered = Answered { request: step.request, lane, by, end: step.end, sent_at: *sent_at, at };
                self.last = is_latest.then_some(answered);
                (self.is_cut, self.is_flawed, self.past_a_deadline) = (false, false, None);
            }
            Outcome::Rejected if is_right && step.flaw().is_some() => {
                self.last = last;
                self.is_flawed = special.is_some_and(|special| special.has_slot) && last.is_some_and(|last| !last.end);
            }
            Outcome::Rejected if is_right => {
                claims.reach(Claim::RejectedNoStart);
                if last.is_some_and(|last| last.end) {
                    claims.reach(if step.end { Claim::RejectedSecondEnd } else { Claim::RejectedAfterEnd });
                }
            }
            Outcome::Expired if is_right => {
                claims.reach(Claim::ExpiredInBacklog);
                reach(claims, Claim::EndedByAnError, mem::take(&mut self.ends_others));
            }
            // The sequence was certainly live, may have been idle for too long, and is gone.
            Outcome::Rejected if *doubt == Some(Doubt::Idle) && here.idle_limit.is_some() => {
                claims.reach(Claim::IdleReap);
            }
            Outcome::Completed | Outcome::Rejected | Outcome::Expired | Outcome::Failed | Outcome::Indeterminate => {}
        }
    }

    fn lives_on(&mut self, step: &Step, last: Option<Answered>, sent_at: Nanos, here: Here, claims: &mut Claims) {
        let Some(limit) = here.idle_limit else { return };
        let was_busy =
            last.is_some_and(|last| last.goes_on_in(step.request) && sent_at < last.sent_at.saturating_add(limit));
        self.alive_since = if step.start { Some(here.at) } else { self.alive_since.filter(|_| was_busy) };
        let has_lived = self.alive_since.is_some_and(|since| sent_at >= since.saturating_add(2 * limit));
        reach(claims, Claim::LivedOn, has_lived);
    }

    fn accepted(&self, step: &Step, last: Option<Answered>, special: Special, here: Here, claims: &mut Claims) {
        let mut reach = |claim, is_reached| reach(claims, claim, is_reached);
        if step.start {
            let was_ended = last.is_some_and(|last| last.end);
            let is_live = last.is_some_and(|last| last.is_live(here));
            reach(Claim::ReuseOfAnId, was_ended);
            reach(Claim::OneStepSequences, was_ended && step.end);
            reach(Claim::BackToBack, was_ended && special.pipelined);
            reach(Claim::RestartOfALiveId, is_live && !special.overtakes);
            reach(Claim::RestartElsewhere, special.overtakes);
            reach(Claim::StartAfterACut, self.is_cut);
        } else {
            reach(Claim::LivedThroughALoad, special.loaded);
            reach(Claim::ContinuedElsewhere, special.elsewhere);
            reach(Claim::MixedTransports, special.differently);
            reach(Claim::KeptThroughAPause, special.paused);
            reach(Claim::SurvivedAFlaw, self.is_flawed);
            reach(Claim::WentOnPastADeadline, self.past_a_deadline == Some(step.request.sequence));
            reach(Claim::ConcurrentSubmission, self.is_submitted_beside(step, here.lane));
        }
    }

    /// Whether another stream has a step of the same sequence under way.
    fn is_submitted_beside(&self, step: &Step, lane: Lane) -> bool {
        let is_beside = |other: &Traffic| other.unanswered > 0 && other.sequence == step.request.sequence;
        self.lanes.iter().enumerate().any(|(index, other)| index != lane.index() && is_beside(other))
    }

    fn cut(&mut self, cut: &Cut, lane: Lane, claims: &mut Claims) {
        let traffic = mem::take(&mut self.lanes[lane.index()]);
        let last = self.last.take();
        if traffic.unanswered == 0 {
            let is_in_a_sequence = last.is_some_and(|last| !last.end && last.lane == lane);
            reach(claims, Claim::CutWhileIdle, *cut == Cut::Cancelled && is_in_a_sequence);
            return;
        }
        if *cut == Cut::Deadline {
            claims.reach(Claim::DeadlinePassed);
            (self.is_cut, self.past_a_deadline) = (true, Some(traffic.sequence));
            return;
        }
        self.ends_others = matches!(cut, Cut::Status(..)) && traffic.unanswered > 1;
        let is_under_way = last.is_some_and(|last| last.request.sequence == traffic.sequence);
        if is_under_way && matches!(cut, Cut::Cancelled | Cut::Reset | Cut::Killed | Cut::ByNetwork) {
            reach(claims, Claim::ConnectionReset, *cut == Cut::Reset);
            reach(claims, Claim::ClientKilled, *cut == Cut::Killed);
            reach(claims, Claim::CutByTheNetwork, *cut == Cut::ByNetwork);
            // What the network does is not what the client does.
            reach(claims, Claim::CutWithStepsUnderWay, *cut != Cut::ByNetwork);
            self.is_cut = true;
        }
    }
}

fn reach(claims: &mut Claims, claim: Claim, is_reached: bool) {
    if is_reached {
        claims.reach(claim);
    }
}

impl Answered {
    /// Whether a later step goes on with its sequence.
    fn goes_on_in(&self, later: RequestId) -> bool {
        !self.end && self.request.sequence == later.sequence
    }

    /// Whether its sequence was certainly live when what comes now was taken in.
    fn is_live(&self, now: Here) -> bool {
        !self.end && now.idle_limit.is_some_and(|limit| now.at.saturating_sub(self.sent_at) < limit)
    }
}

#[cfg(test)]
mod tests;
