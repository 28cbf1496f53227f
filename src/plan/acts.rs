//! A pass as the acts of a conversation.

use std::{ops::Range, time::Duration};

use super::{LANES, Pass, Twist};
use crate::{
    conversation::{Act, Connection, Lane},
    scenario::{Patterns, Reuse, StreamLife},
    sequence::Pattern,
};

/// How a pass is carried out, as the scenario and the model have it.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// When an ID's next START is sent.
    pub reuse: Reuse,
    /// How long a stream lasts.
    pub stream: StreamLife,
    /// What pauses are shares of.
    pub idle_limit: Duration,
}

/// How many connections that are made for one stream a worker may have at a time.
#[must_use]
pub fn fresh_connections_of(patterns: &Patterns) -> usize {
    let is_drawn = |pattern| patterns.common.of(pattern) > 0.0 || patterns.rare.of(pattern) > 0.0;
    if is_drawn(Pattern::Concurrent) {
        // Its first stream is the context's own, and the second a neighbour's.
        usize::from(*LANES.end()) - 2
    } else {
        usize::from(is_drawn(Pattern::Reset) || is_drawn(Pattern::ContinueElsewhere))
    }
}

/// How long the client waits before it cancels a request that is to be executing: long enough for it to reach the server.
const TAKEN_UP_US: u64 = 2000;
/// The other stream, where there are two.
const SECOND: Lane = Lane(1);
/// How many steps of a stream are under way when one sequence is submitted over several: every order of them is possible, and
/// has to be looked at.
const AT_ONCE: u32 = 4;

impl Pass {
    /// What is done, one after the other.
    #[must_use]
    pub fn acts(&self, manner: &Manner) -> Vec<Act> {
        let mut script = Script { pass: self, manner, acts: Vec::new() };
        match self.twist {
            None => script.send_bursts(),
            Some(twist) => script.twisted(twist),
        }
        script.acts
    }
}

/// A conversation, being written down.
struct Script<'p> {
    pass: &'p Pass,
    manner: &'p Manner,
    acts: Vec<Act>,
}

impl Script<'_> {
    /// All sequences, where they may be pipelined as one burst, else one by one.
    fn send_bursts(&mut self) {
        let last = self.pass.sequences.len() - 1;
        for sequence in 0..=last {
            self.send_all(Lane::FIRST, sequence);
            if sequence == last || self.manner.reuse == Reuse::AfterAnswer {
                self.await_all(Lane::FIRST);
                self.finish();
            }
        }
    }

    fn twisted(&mut self, Twist { after, pause_percent, lanes }: Twist) {
        let (all, before, rest) = (0..self.steps(0), 0..after, after..self.steps(0));
        match self.pass.pattern {
            Pattern::Pause => {
                self.send(Lane::FIRST, 0, before);
                self.await_all(Lane::FIRST);
                let us = (self.manner.idle_limit * pause_percent / 100).as_micros();
                self.acts.push(Act::Pause { us: u64::try_from(us).unwrap_or(u64::MAX) });
                self.send(Lane::FIRST, 0, rest);
                self.await_all(Lane::FIRST);
                self.finish();
            }
            Pattern::CancelQueued => self.cancel_with_steps_queued(),
            Pattern::CancelExecuting => {
                for step in before.clone() {
                    self.send(Lane::FIRST, 0, step..step + 1);
                    self.await_all(Lane::FIRST);
                }
                self.send(Lane::FIRST, 0, after..after + 1);
                // Without it the step may be taken back before it was on the wire.
                self.acts.push(Act::Pause { us: TAKEN_UP_US });
                self.acts.push(Act::Cancel { lane: Lane::FIRST });
            }
            Pattern::CancelIdle => {
                self.send(Lane::FIRST, 0, before);
                self.await_all(Lane::FIRST);
                self.acts.push(Act::Cancel { lane: Lane::FIRST });
            }
            Pattern::CancelRestart => {
                self.cancel_with_steps_queued();
                self.open(SECOND, Connection::Neighbour);
                // While its END is not sent, a server that confuses the two can lose it.
                let last = self.steps(1) - 1;
                self.send(SECOND, 1, 0..last);
                self.await_all(SECOND);
                self.send(SECOND, 1, last..last + 1);
                self.await_all(SECOND);
                self.acts.push(Act::Close { lane: SECOND });
            }
            Pattern::HalfClose => {
                self.send(Lane::FIRST, 0, all);
                self.acts.push(Act::HalfClose { lane: Lane::FIRST });
                self.await_all(Lane::FIRST);
                self.acts.push(Act::Close { lane: Lane::FIRST });
            }
            Pattern::Reset => {
                self.open(SECOND, Connection::Fresh);
                self.send(SECOND, 0, all.clone());
                self.acts.push(Act::Await { lane: SECOND, unanswered: all.end - 1 });
                self.acts.push(Act::Reset { lane: SECOND });
            }
            Pattern::ContinueElsewhere => self.continue_over(Connection::Fresh, before, rest),
            Pattern::ContinueByNeighbour => self.continue_over(Connection::Neighbour, before, rest),
            Pattern::RestartElsewhere => {
                self.send(Lane::FIRST, 0, all);
                self.open(SECOND, Connection::Neighbour);
                self.send_all(SECOND, 1);
                self.await_all(Lane::FIRST);
                self.await_all(SECOND);
                self.acts.push(Act::Close { lane: SECOND });
                self.finish();
            }
            Pattern::Concurrent => self.submit_over(lanes),
            Pattern::Valid | Pattern::ValidValid | Pattern::ValidNoEnd | Pattern::NoStart | Pattern::NoEnd => {
                self.send_bursts();
            }
        }
    }

    fn cancel_with_steps_queued(&mut self) {
        self.send_all(Lane::FIRST, 0);
        self.acts.push(Act::Await { lane: Lane::FIRST, unanswered: self.steps(0) - 1 });
        self.acts.push(Act::Cancel { lane: Lane::FIRST });
    }

    fn continue_over(&mut self, connection: Connection, before: Range<u32>, rest: Range<u32>) {
        self.send(Lane::FIRST, 0, before);
        self.await_all(Lane::FIRST);
        self.open(SECOND, connection);
        self.send(SECOND, 0, rest);
        self.await_all(SECOND);
        self.acts.push(Act::Close { lane: SECOND });
        self.finish();
    }

    /// The first sequence, its steps but START and END over several streams at once.
    fn submit_over(&mut self, lanes: u8) {
        let steps = self.steps(0);
        self.send(Lane::FIRST, 0, 0..1);
        self.await_all(Lane::FIRST);
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
        self.send(Lane::FIRST, 0, steps - 1..steps);
        self.await_all(Lane::FIRST);
        for lane in 1..lanes {
            self.acts.push(Act::Close { lane: Lane(lane) });
        }
        self.finish();
    }

    fn open(&mut self, lane: Lane, over: Connection) {
        self.acts.push(Act::Open { lane, over });
    }

    fn steps(&self, sequence: usize) -> u32 {
        u32::try_from(self.pass.sequences[sequence].values.len()).expect("a length is a 32-bit number")
    }

    fn send_all(&mut self, lane: Lane, sequence: usize) {
        self.send(lane, sequence, 0..self.steps(sequence));
    }

    fn send(&mut self, lane: Lane, sequence: usize, steps: Range<u32>) {
        let of = self.steps(sequence);
        let its = &self.pass.sequences[sequence];
        self.acts.extend(steps.map(|step| Act::Send {
            lane,
            sequence: u32::try_from(sequence).expect("a pass has one sequence or two"),
            step,
            of,
            start: its.start && step == 0,
            end: its.end && step + 1 == of,
            value: its.values[step as usize],
        }));
    }

    fn await_all(&mut self, lane: Lane) {
        self.acts.push(Act::Await { lane, unanswered: 0 });
    }

    /// What comes after the last answer of a sequence on the first stream.
    fn finish(&mut self) {
        if self.manner.stream == StreamLife::PerSequence {
            self.acts.push(Act::Close { lane: Lane::FIRST });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::{
        conversation::fresh_connections,
        scenario::{Overrides, Scenario, Source},
        sequence::{CorrelationId, Sequence},
    };

    fn pass(pattern: Pattern, twist: Option<Twist>) -> Pass {
        let sequence = |first| Sequence { start: true, end: true, values: (first..first + 4).collect() };
        Pass {
            worker: 0,
            pass: 0,
            context: 0,
            correlation_id: CorrelationId(NonZeroU64::MIN),
            pattern,
            sequences: vec![sequence(10), sequence(20)],
            twist,
        }
    }

    fn manner(reuse: Reuse, stream: StreamLife) -> Manner {
        Manner { reuse, stream, idle_limit: Duration::from_millis(100) }
    }

    /// One letter for each act, with its lane.
    fn short(acts: &[Act]) -> String {
        let letter = |act: &Act| match act {
            Act::Open { lane, over } => format!("o{}{over:?}", lane.0),
            Act::Send { lane, value, .. } => format!("{}:{value}", lane.0),
            Act::Await { lane, unanswered } => format!("a{}<={unanswered}", lane.0),
            Act::Pause { us } => format!("p{us}"),
            Act::HalfClose { lane } => format!("h{}", lane.0),
            Act::Close { lane } => format!("c{}", lane.0),
            Act::Cancel { lane } => format!("x{}", lane.0),
            Act::Reset { lane } => format!("r{}", lane.0),
        };
        acts.iter().map(letter).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sequences_go_out_as_bursts() {
        let pass = pass(Pattern::ValidValid, None);
        for (reuse, stream, expected) in [
            (Reuse::Pipelined, StreamLife::PerSequence, "0:10 0:11 0:12 0:13 0:20 0:21 0:22 0:23 a0<=0 c0"),
            (Reuse::Pipelined, StreamLife::PerContext, "0:10 0:11 0:12 0:13 0:20 0:21 0:22 0:23 a0<=0"),
            (Reuse::AfterAnswer, StreamLife::PerSequence, "0:10 0:11 0:12 0:13 a0<=0 c0 0:20 0:21 0:22 0:23 a0<=0 c0"),
        ] {
            assert_eq!(short(&pass.acts(&manner(reuse, stream))), expected);
        }
    }

    #[test]
    fn clients_faults_are_acts() {
        let twist = Twist { after: 2, pause_percent: 50, lanes: 3 };
        for (pattern, expected) in [
            (Pattern::Pause, "0:10 0:11 a0<=0 p50000 0:12 0:13 a0<=0 c0"),
            (Pattern::CancelQueued, "0:10 0:11 0:12 0:13 a0<=3 x0"),
            (Pattern::CancelExecuting, "0:10 a0<=0 0:11 a0<=0 0:12 p2000 x0"),
            (Pattern::CancelIdle, "0:10 0:11 a0<=0 x0"),
            (Pattern::CancelRestart, "0:10 0:11 0:12 0:13 a0<=3 x0 o1Neighbour 1:20 1:21 1:22 a1<=0 1:23 a1<=0 c1"),
            (Pattern::HalfClose, "0:10 0:11 0:12 0:13 h0 a0<=0 c0"),
            (Pattern::Reset, "o1Fresh 1:10 1:11 1:12 1:13 a1<=3 r1"),
            (Pattern::ContinueElsewhere, "0:10 0:11 a0<=0 o1Fresh 1:12 1:13 a1<=0 c1 c0"),
            (Pattern::ContinueByNeighbour, "0:10 0:11 a0<=0 o1Neighbour 1:12 1:13 a1<=0 c1 c0"),
            (Pattern::RestartElsewhere, "0:10 0:11 0:12 0:13 o1Neighbour 1:20 1:21 1:22 1:23 a0<=0 a1<=0 c1 c0"),
            (
                Pattern::Concurrent,
                "0:10 a0<=0 o1Neighbour o2Fresh a0<=3 0:11 a1<=3 1:12 a0<=0 a1<=0 a2<=0 0:13 a0<=0 c1 c2 c0",
            ),
        ] {
            let acts = pass(pattern, Some(twist)).acts(&manner(Reuse::Pipelined, StreamLife::PerSequence));
            assert_eq!(short(&acts), expected, "{pattern}");
        }
    }

    #[test]
    fn no_pattern_makes_more_connections_than_are_counted() {
        for pattern in Pattern::ALL {
            let weights = format!("patterns.common = {{ {pattern} = 1 }}\npatterns.rare = {{ valid = 1 }}");
            let source = Source::from_text("test", &weights);
            let scenario = Scenario::resolve(&source, Overrides::default()).expect("a scenario");
            let counted = fresh_connections_of(&scenario.patterns);
            let twist = Twist { after: 2, pause_percent: 50, lanes: *LANES.end() };
            let acts = pass(pattern, Some(twist)).acts(&manner(Reuse::Pipelined, StreamLife::PerSequence));
            assert_eq!(fresh_connections(&acts), counted, "{pattern}");
        }
    }
}
