//! An iteration as the acts of a conversation.

use std::{
    num::{NonZeroU16, NonZeroU32},
    ops::Range,
    time::Duration,
};

use super::{Iteration, LANES, Twist};
use crate::{
    conversation::{Act, Connection, Lane},
    scenario::{Population, Reuse, Scenario, Sending, StreamLife},
    sequence::{Flaw, Pattern, STEADY_STEPS, Sequence, Special, Trait},
};

/// What the model makes of how passes are carried out.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Whether an ID's next START waits for the END's response, whatever the scenario says.
    pub after_answers: bool,
    /// What pauses are shares of.
    pub idle_limit: Duration,
    /// Whether the model takes batches, so that a request can have two elements in one.
    pub batches: bool,
    /// Whether a request is a whole sequence, so that a sequence has one step.
    pub one_step: bool,
}

/// How many connections that are made for one stream a worker may have at a time.
pub fn fresh_connections_of(population: &Population) -> usize {
    if population.draws_any(Trait::ConnectsOften) {
        // The first stream is the context's own, and the second a neighbour's.
        usize::from(*LANES.end()) - 2
    } else {
        usize::from(population.draws_any(Trait::Connects))
    }
}

/// For how long a sequence may be left alone in all and still has to live on, where the idle limit is this.
pub fn pauses_of(scenario: &Scenario, idle_limit: Duration) -> Duration {
    let is_steady = scenario.draws(Pattern::Steady).anywhere();
    if is_steady { idle_limit.saturating_mul((STEADY_STEPS - 1) * STEADY_PERCENT) / 100 } else { Duration::ZERO }
}

/// The pause before each step of a steady sequence but the first, in percent of the idle limit.
const STEADY_PERCENT: u32 = 60;
/// How long the client waits before it cancels a request that is to be executing: long enough for it to reach the server.
const TAKEN_UP_US: u64 = 2000;
/// The other stream, where there are two.
const SECOND: Lane = Lane(1);
/// How many steps of a stream are under way when one sequence is submitted over several: every order of them is possible, and
/// has to be looked at.
const AT_ONCE: u32 = 4;

impl Iteration {
    /// What is done, one after the other.
    pub fn acts(&self, sending: &Sending, manner: Manner) -> Vec<Act> {
        let reuse = if manner.after_answers { Reuse::AfterResponse } else { sending.reuse };
        let single = manner.one_step.then(|| self.of_single_steps());
        let iteration = single.as_ref().unwrap_or(self);
        let mut script = Script { iteration, sending, reuse, manner, sent: 0, acts: Vec::new() };
        script.think(self.think_ms);
        match self.twist {
            None => script.send_bursts(),
            Some(twist) => script.twisted(twist),
        }
        script.acts
    }

    /// The same with the first step of each sequence alone.
    fn of_single_steps(&self) -> Self {
        let mut iteration = self.clone();
        for sequence in &mut iteration.sequences {
            sequence.values.truncate(1);
            sequence.think_ms.clear();
        }
        iteration
    }
}

/// A conversation, being written down.
struct Script<'p> {
    iteration: &'p Iteration,
    sending: &'p Sending,
    reuse: Reuse,
    manner: Manner,
    /// How many steps it has so far.
    sent: usize,
    acts: Vec<Act>,
}

impl Script<'_> {
    /// All sequences, where they may be pipelined as one burst, else one by one.
    fn send_bursts(&mut self) {
        let last = self.iteration.sequences.len() - 1;
        for sequence in 0..=last {
            self.send_all(Lane::FIRST, sequence);
            if sequence == last || self.reuse == Reuse::AfterResponse {
                self.await_all(Lane::FIRST);
                self.finish();
            }
        }
    }

    fn twisted(&mut self, Twist { after, pause_percent, lanes }: Twist) {
        let (before, rest) = (0..after, after..self.steps(0));
        let are_calls = !self.sending.transport().is_stream();
        match self.iteration.pattern {
            Pattern::Pause => {
                self.ask(Lane::FIRST, 0, before);
                let us = self.share_of_the_idle_limit(pause_percent);
                self.acts.push(Act::Pause { us });
                self.ask(Lane::FIRST, 0, rest);
                self.finish();
            }
            Pattern::Steady => self.live_on(),
            Pattern::CancelQueued => self.send_and_cut(Lane::FIRST, Act::Cancel { lane: Lane::FIRST }),
            Pattern::CancelExecuting => {
                for step in before {
                    self.ask(Lane::FIRST, 0, step..step + 1);
                }
                self.send(Lane::FIRST, 0, after..after + 1);
                // Without it the step may be taken back before it was on the wire.
                self.acts.push(Act::Pause { us: TAKEN_UP_US });
                self.acts.push(Act::Cancel { lane: Lane::FIRST });
            }
            Pattern::CancelIdle => {
                self.ask(Lane::FIRST, 0, before);
                self.acts.push(Act::Cancel { lane: Lane::FIRST });
            }
            Pattern::CancelRestart => {
                self.send_and_cut(Lane::FIRST, Act::Cancel { lane: Lane::FIRST });
                self.open(SECOND, Connection::Neighbour);
                // While its END is not sent, a server that confuses the two can lose it.
                let last = self.steps(1) - 1;
                self.ask(SECOND, 1, 0..last);
                self.ask(SECOND, 1, last..last + 1);
                self.acts.push(Act::Close { lane: SECOND });
            }
            Pattern::HalfClose => {
                self.send_all(Lane::FIRST, 0);
                self.acts.push(Act::HalfClose { lane: Lane::FIRST });
                self.await_all(Lane::FIRST);
                self.acts.push(Act::Close { lane: Lane::FIRST });
            }
            Pattern::Reset if are_calls => self.cut_executing(Connection::Fresh, Act::Reset { lane: SECOND }, after),
            Pattern::KillClient if are_calls => {
                self.cut_executing(Connection::Process, Act::Kill { lane: SECOND }, after);
            }
            Pattern::MixedTransports => self.mix_transports(),
            Pattern::Deadline => self.outlive_the_deadline(after),
            Pattern::Reset => {
                self.open(SECOND, Connection::Fresh);
                self.send_and_cut(SECOND, Act::Reset { lane: SECOND });
            }
            Pattern::StopReading => {
                self.open(SECOND, Connection::Narrow);
                let us = self.share_of_the_idle_limit(pause_percent);
                self.send_and_cut(SECOND, Act::StopReading { us });
                self.await_all(SECOND);
                self.acts.push(Act::Close { lane: SECOND });
            }
            Pattern::KillClient => {
                self.open(SECOND, Connection::Process);
                self.send_and_cut(SECOND, Act::Kill { lane: SECOND });
            }
            Pattern::ContinueElsewhere => self.continue_over(Connection::Fresh, before, rest),
            Pattern::ContinueByNeighbour => self.continue_over(Connection::Neighbour, before, rest),
            Pattern::RestartElsewhere => {
                self.send_all(Lane::FIRST, 0);
                self.open(SECOND, Connection::Neighbour);
                self.send_all(SECOND, 1);
                self.await_all(Lane::FIRST);
                self.await_all(SECOND);
                self.acts.push(Act::Close { lane: SECOND });
                self.finish();
            }
            Pattern::Concurrent => self.submit_over(lanes),
            Pattern::SharedId => self.share_the_id(),
            Pattern::SharedStream => self.share_the_stream(),
            Pattern::Valid
            | Pattern::ValidValid
            | Pattern::ValidNoEnd
            | Pattern::NoStart
            | Pattern::NoEnd
            | Pattern::Restart
            | Pattern::Burst
            | Pattern::AfterEnd
            | Pattern::EndTwice
            | Pattern::Malformed
            | Pattern::Timeout => self.send_bursts(),
        }
    }

    /// A step at a time, with a pause before each but the first.
    fn live_on(&mut self) {
        for step in 0..self.steps(0) {
            if step > 0 {
                let us = self.share_of_the_idle_limit(STEADY_PERCENT);
                self.acts.push(Act::Pause { us });
            }
            self.ask(Lane::FIRST, 0, step..step + 1);
        }
        self.finish();
    }

    fn share_of_the_idle_limit(&self, percent: u32) -> u64 {
        u64::try_from((self.manner.idle_limit * percent / 100).as_micros()).unwrap_or(u64::MAX)
    }

    /// Does something to a stream when the first step over it is answered and the others are under way.
    fn send_and_cut(&mut self, lane: Lane, cut: Act) {
        self.send_all(lane, 0);
        self.acts.push(Act::Await { lane, unanswered: self.steps(0) - 1 });
        self.acts.push(cut);
    }

    /// Cuts the other stream while a step executes, all before it answered: what is sent as calls is never queued.
    fn cut_executing(&mut self, over: Connection, cut: Act, after: u32) {
        self.open(SECOND, over);
        self.send(SECOND, 0, 0..after + 1);
        // Without it the step may be taken back before it was on the wire.
        self.acts.push(Act::Pause { us: TAKEN_UP_US });
        self.acts.push(cut);
    }

    /// Each step over the transport that was drawn for it, which has a lane of its own; the first lane has the population's.
    fn mix_transports(&mut self) {
        let mut lanes = vec![self.sending.transport()];
        for (step, by) in (0..self.steps(0)).zip(&self.iteration.over) {
            let known = lanes.iter().position(|its| its == by);
            let lane = Lane(u8::try_from(known.unwrap_or(lanes.len())).expect("there are few transports"));
            if known.is_none() {
                lanes.push(*by);
                self.acts.push(Act::Open { lane, over: Connection::Own, by: Some(*by), within_us: None });
            }
            self.ask(lane, 0, step..step + 1);
        }
        for lane in (1..).map(Lane).take(lanes.len() - 1) {
            self.acts.push(Act::Close { lane });
        }
        self.finish();
    }

    /// Some steps within a deadline, START among them or not, and then the others, whatever became of those.
    fn outlive_the_deadline(&mut self, after: u32) {
        let last = self.steps(0) - 1;
        let first = after.saturating_sub(1).min(last.saturating_sub(1));
        self.ask(Lane::FIRST, 0, 0..first);
        let within_us = self.iteration.deadline_ms.and_then(|ms| NonZeroU32::new(ms.saturating_mul(1000)));
        // Servers may end the whole connection with what they say of a deadline.
        self.acts.push(Act::Open { lane: SECOND, over: Connection::Fresh, by: None, within_us });
        // Some steps are left for after it.
        self.ask(SECOND, 0, first..first + (last - first).div_ceil(2));
        self.acts.push(Act::Close { lane: SECOND });
        self.ask(Lane::FIRST, 0, first + (last - first).div_ceil(2)..last + 1);
        self.finish();
    }

    fn continue_over(&mut self, connection: Connection, before: Range<u32>, rest: Range<u32>) {
        self.ask(Lane::FIRST, 0, before);
        self.open(SECOND, connection);
        self.ask(SECOND, 0, rest);
        self.acts.push(Act::Close { lane: SECOND });
        self.finish();
    }

    /// The first sequence, its steps but START and END over several streams at once.
    fn submit_over(&mut self, lanes: u8) {
        let steps = self.steps(0);
        self.ask(Lane::FIRST, 0, 0..1);
        for lane in 1..lanes {
            self.open(Lane(lane), if lane == 1 { Connection::Neighbour } else { Connection::Fresh });
        }
        for (step, lane) in (1..steps - 1).zip((0..lanes).cycle()) {
            self.acts.push(Act::Await { lane: Lane(lane), unanswered: AT_ONCE - 1 });
            self.send(Lane(lane), 0, step..step + 1);
        }
        for lane in 0..lanes {
            self.await_all(Lane(lane));
        }
        self.ask(Lane::FIRST, 0, steps - 1..steps);
        for lane in 1..lanes {
            self.acts.push(Act::Close { lane: Lane(lane) });
        }
        self.finish();
    }

    /// Two sequences at once over a stream each, step by step in turn. The START of one restarts the other, and its END ends both.
    fn share_the_id(&mut self) {
        self.open(SECOND, Connection::Neighbour);
        for step in 0..self.steps(0).max(self.steps(1)) {
            for (sequence, lane) in [Lane::FIRST, SECOND].into_iter().enumerate() {
                if step < self.steps(sequence) {
                    self.acts.push(Act::Await { lane, unanswered: AT_ONCE - 1 });
                    self.send(lane, sequence, step..step + 1);
                }
            }
        }
        self.await_all(Lane::FIRST);
        self.await_all(SECOND);
        self.acts.push(Act::Close { lane: SECOND });
        self.finish();
    }

    /// Every ID's first START over one stream. Then one sequence after the other to its END, and behind that the next START of its ID. So each
    /// START comes behind all that wait for a slot.
    ///
    /// A server answers the requests of a stream in their order, so a START that waits would hold back the responses of all that share
    /// its stream. That is why an ID's other steps have a stream of their own, and why the first of them does not wait for the response
    /// to START: its response tells that the sequence has a slot.
    fn share_the_stream(&mut self) {
        let sequences = self.iteration.sequences.len();
        let ids = self.iteration.sequences.iter().map(|its| its.id).max().map_or(1, |last| last as usize + 1);
        let own = |sequence: usize| Lane(2 + u8::try_from(sequence % ids).expect("there are few lanes"));
        let lanes = (0..ids.min(sequences)).map(own);
        for lane in [SECOND].into_iter().chain(lanes.clone()) {
            self.open(lane, Connection::Own);
        }
        for first in 0..ids.min(sequences) {
            self.send(SECOND, first, 0..1);
        }
        self.acts.push(Act::Pause { us: TAKEN_UP_US });
        for first in 0..ids.min(sequences) {
            self.send(own(first), first, 1..2);
        }
        for sequence in 0..sequences {
            self.send(own(sequence), sequence, 2..self.steps(sequence));
            let next = sequence + ids;
            if next < sequences {
                self.send(SECOND, next, 0..1);
                self.acts.push(Act::Pause { us: TAKEN_UP_US });
                self.send(own(next), next, 1..2);
            }
        }
        for lane in lanes.chain([SECOND]) {
            self.await_all(lane);
            self.acts.push(Act::Close { lane });
        }
    }

    fn open(&mut self, lane: Lane, over: Connection) {
        self.acts.push(Act::Open { lane, over, by: None, within_us: None });
    }

    fn steps(&self, sequence: usize) -> u32 {
        self.iteration.sequences[sequence].steps()
    }

    /// Sends steps, and waits for all answers.
    fn ask(&mut self, lane: Lane, sequence: usize, steps: Range<u32>) {
        self.send(lane, sequence, steps);
        self.await_all(lane);
    }

    fn send_all(&mut self, lane: Lane, sequence: usize) {
        self.send(lane, sequence, 0..self.steps(sequence));
    }

    fn send(&mut self, lane: Lane, sequence: usize, steps: Range<u32>) {
        let of = self.steps(sequence);
        let its = &self.iteration.sequences[sequence];
        // A track may have fewer steps than the pattern asks for.
        for step in steps.start..steps.end.min(of) {
            let before = step.checked_sub(1).and_then(|before| its.think_ms.get(before as usize));
            self.think(before.copied().unwrap_or(0));
            // The first one is due when the conversation is.
            if let Some(&us) = self.iteration.due_us.get(self.sent).filter(|_| self.sent > 0) {
                self.acts.push(Act::At { us });
            }
            self.sent += 1;
            let (start, end) = its.flags(step);
            self.acts.push(Act::Send {
                lane,
                id: its.id,
                sequence: u32::try_from(sequence).expect("sequences are counted in 32 bits"),
                step,
                of,
                start,
                end,
                value: its.values[step as usize],
                elements: its.elements.get(step as usize).copied().unwrap_or(NonZeroU16::MIN),
                special: self.special(its, step),
            });
        }
    }

    fn special(&self, its: &Sequence, step: u32) -> Option<Special> {
        let flaw = its.flaws.get(&step).map(|flaw| match flaw {
            Flaw::BatchOfTwo if !self.manner.batches => Flaw::OtherShape,
            flaw => *flaw,
        });
        flaw.map(Special::Flaw).or_else(|| self.timeout(step))
    }

    /// How long the whole sequence may wait because of this step: the earliest time limit of those that wait counts.
    fn timeout(&self, step: u32) -> Option<Special> {
        let Twist { after, pause_percent, .. } =
            self.iteration.twist.filter(|_| self.iteration.pattern == Pattern::Timeout)?;
        let percent = match step {
            0 => pause_percent,
            step if step == after => pause_percent / 2,
            _ => return None,
        };
        Some(Special::TimeoutUs(self.share_of_the_idle_limit(percent)))
    }

    fn think(&mut self, ms: u32) {
        if ms > 0 {
            self.acts.push(Act::Pause { us: u64::from(ms) * 1000 });
        }
    }

    fn await_all(&mut self, lane: Lane) {
        self.acts.push(Act::Await { lane, unanswered: 0 });
    }

    /// What comes after the last answer of a sequence on the first stream.
    fn finish(&mut self) {
        if self.sending.stream == StreamLife::PerSequence {
            self.acts.push(Act::Close { lane: Lane::FIRST });
        }
    }
}

#[cfg(test)]
mod tests;
