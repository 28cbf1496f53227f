//! The gaps of a failure: from an act to the next one of its conversation, and before a conversation begins.

use std::collections::{BTreeMap, VecDeque};

use crate::failure::Failure;
use workload::{
    conversation::{Act, Lane},
    scenario::Window as Room,
    sequence::Trait,
};

/// What a gap begins or ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The replay begins.
    Beginning,
    /// The conversation before this one of the same worker began.
    BeforeBegan,
    /// The conversation before this one of the same worker is over.
    BeforeEnded,
    /// The request of the context with this number, from 1, is answered.
    Answered(u32),
    /// The request of the context with this number, from 1, is sent.
    Sent {
        /// The number.
        number: u32,
        /// Whether it carries START.
        start: bool,
        /// Whether it carries END.
        end: bool,
    },
    /// Another act is done.
    Done(Act),
}

/// A gap of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Its number, from 1.
    pub number: usize,
    /// The worker of its conversation.
    pub worker: u32,
    /// The context of its conversation.
    pub context: u32,
    /// What it begins with.
    pub from: Mark,
    /// What it ends with.
    pub to: Mark,
    /// How long the failure waits there, in microseconds.
    pub recorded_us: u64,
    /// How many executions of the conversation's own requests follow one another from its beginning on, as far as that is known.
    pub executions: u32,
    /// The index of its conversation.
    pub(super) conversation: usize,
    pub(super) place: Place,
}

/// What is changed to change a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// When the conversation begins.
    Start,
    /// The pauses from the first index up to the act with the second.
    Pause(usize, usize),
}

impl Gap {
    /// The failure with so many microseconds in this gap.
    pub fn set(&self, failure: &Failure, us: u64) -> Failure {
        let mut failure = failure.clone();
        let its = &mut failure.conversations[self.conversation];
        match self.place {
            Place::Pause(first, act) => {
                let pause = (us > 0).then_some(Act::Pause { us });
                its.acts.splice(first..act, pause);
            }
            Place::Start => {
                let (worker, at_us) = (its.worker, its.at_us);
                // What the worker does later keeps its distance and its place in the order.
                for later in &mut failure.conversations[self.conversation..] {
                    if later.worker == worker && later.at_us >= at_us {
                        later.at_us = later.at_us.saturating_sub(self.recorded_us).saturating_add(us);
                    }
                }
            }
        }
        failure
    }
}

/// The gaps of a failure, in the order of its conversations. Its conversations are in the order in which they begin.
pub fn gaps(failure: &Failure) -> Vec<Gap> {
    let window = failure.scenario.populations[0].sending.window();
    let (workers, _) = failure.size();
    let mut starts: BTreeMap<u32, u64> = BTreeMap::new();
    let mut contexts: BTreeMap<(u32, u32), Context> = BTreeMap::new();
    let mut found: Vec<Gap> = Vec::new();
    for (conversation, its) in failure.conversations.iter().enumerate() {
        let context = contexts.entry((its.worker, its.context)).or_default();
        // A conversation is over when all is answered.
        context.unanswered.clear();
        let room = if its.pattern.has(Trait::Queues) { Room::All } else { window };
        let before = starts.insert(its.worker, its.at_us);
        let mut from = None;
        let mut waits = Vec::new();
        for (place, act) in its.acts.iter().enumerate() {
            if let Act::Pause { us } = act {
                waits.push(*us);
                continue;
            }
            from = from.map(|from| context.response_before(act, room).unwrap_or(from));
            let (to, done, executions) = context.take_in(act);
            let pauses = std::mem::take(&mut waits);
            let waited = pauses.iter().copied().fold(0, u64::saturating_add);
            let here = Place::Pause(place - pauses.len(), place);
            let gap = |from, recorded_us, place, executions| Gap {
                number: 0,
                worker: its.worker,
                context: its.context,
                from,
                to,
                recorded_us,
                executions,
                conversation,
                place,
            };
            match (from, before) {
                // Waiting before waiting is no gap of its own.
                _ if matches!(act, Act::Await { .. }) => {}
                (Some((from, executions)), _) => found.push(gap(from, waited, here, executions)),
                (None, Some(began)) if its.at_us > began => {
                    found.push(gap(Mark::BeforeBegan, its.at_us - began, Place::Start, 0));
                }
                (None, Some(_)) => found.push(gap(Mark::BeforeEnded, waited, here, 0)),
                (None, None) if workers > 1 => found.push(gap(Mark::Beginning, its.at_us, Place::Start, 0)),
                (None, None) => {}
            }
            from = Some((done, executions));
        }
    }
    for (number, gap) in (1..).zip(&mut found) {
        gap.number = number;
    }
    found
}

/// What is known of a context from what it did.
#[derive(Default)]
struct Context {
    sent: u32,
    /// The numbers of the requests without a response, of each lane.
    unanswered: BTreeMap<Lane, VecDeque<u32>>,
}

impl Context {
    /// The response that a step has to wait for because the window has no room, and how many executions follow it: a pause before the step begins
    /// there.
    fn response_before(&mut self, act: &Act, room: Room) -> Option<(Mark, u32)> {
        let Act::Send { lane, .. } = act else { return None };
        let waiting = self.unanswered.entry(*lane).or_default();
        let mut last = None;
        while !room.has_room(waiting.len())
            && let Some(number) = waiting.pop_front()
        {
            last = Some(number);
        }
        let left = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
        last.map(|number| (Mark::Answered(number), left))
    }

    /// What an act is as the end of a gap, what as the beginning of one, and how many executions follow it one after the other.
    fn take_in(&mut self, act: &Act) -> (Mark, Mark, u32) {
        let done = Mark::Done(*act);
        match *act {
            Act::Send { lane, start, end, .. } => {
                self.sent += 1;
                let waiting = self.unanswered.entry(lane).or_default();
                waiting.push_back(self.sent);
                // Where nothing else is under way its execution begins at once.
                let executions = u32::from(self.unanswered.values().map(VecDeque::len).sum::<usize>() == 1);
                let sent = Mark::Sent { number: self.sent, start, end };
                (sent, sent, executions)
            }
            Act::Await { lane, unanswered } => {
                let waiting = self.unanswered.entry(lane).or_default();
                let mut last = None;
                while waiting.len() > unanswered as usize {
                    last = waiting.pop_front();
                }
                // The next one's execution begins when the one before it is over.
                let left = u32::try_from(waiting.len()).unwrap_or(u32::MAX);
                last.map_or((done, done, 0), |number| (done, Mark::Answered(number), left))
            }
            Act::Cancel { lane } | Act::Close { lane } | Act::Reset { lane } | Act::Kill { lane } => {
                self.unanswered.remove(&lane);
                (done, done, 0)
            }
            _ => (done, done, 0),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
