//! What a worker does in one iteration: the acts of a conversation, on one or more streams, of one correlation ID or several.

mod text;
mod transport;

use std::{
    collections::BTreeSet,
    num::{NonZeroU16, NonZeroU32},
    time::Duration,
};

use serde::{Deserialize, Serialize};
pub use text::parse_acts;
pub use transport::Transport;

use crate::{
    said::is_default,
    sequence::{Pattern, Special},
};

/// One of the streams of a conversation, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(pub u8);

impl Lane {
    /// The stream that every conversation has.
    pub const FIRST: Self = Self(0);
    /// The most streams of one conversation.
    pub const MAX: u8 = 8;

    /// The lane's place in a list of lanes.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

table! {
    /// What a stream is opened over.
    #[derive(Default)]
    pub enum Connection {
        /// The context's own.
        #[default]
        Own = "own";
        /// One that is made for this stream.
        Fresh = "fresh";
        /// The one of the next worker.
        Neighbour = "neighbour";
        /// One that is made for this stream, with so little room for what is not read that a server soon has to wait.
        Narrow = "narrow";
        /// One that is made for this stream, through a process that can be killed.
        Process = "process";
    }
}

impl Connection {
    /// Whether it is made for one stream, and ends with it.
    pub fn is_made_for_it(self) -> bool {
        matches!(self, Self::Fresh | Self::Narrow | Self::Process)
    }
}

/// One thing that a worker does; each begins when the one before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "act")]
pub enum Act {
    /// Opens a stream. The first lane needs none: its stream is opened over the context's own connection when it is used.
    Open {
        /// The stream.
        lane: Lane,
        /// Over what.
        over: Connection,
        /// How what it carries travels; none where that is as the worker's steps do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Transport>,
        /// The deadline of the stream, or of each call that stands in its place, in microseconds from its beginning; none where it has
        /// none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_us: Option<NonZeroU32>,
    },
    /// Sends a step, as soon as the lane's window has room.
    Send {
        /// The stream.
        lane: Lane,
        /// Which of the worker's contexts has its ID, counted from the conversation's own.
        #[serde(default, skip_serializing_if = "is_default")]
        id: u32,
        /// The how-manieth sequence of the conversation it belongs to, from 0.
        sequence: u32,
        /// The step's index in its sequence.
        step: u32,
        /// How many steps its sequence has.
        of: u32,
        /// Whether it carries START.
        start: bool,
        /// Whether it carries END.
        end: bool,
        /// The sum of the INPUT tensor's elements, as the model's type takes it.
        value: i64,
        /// How many elements these are, where the tensor's shape leaves that open.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        elements: NonZeroU16,
        /// What sets it apart, if anything does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        special: Option<Special>,
    },
    /// Waits until at most so many requests of a stream are unanswered.
    Await {
        /// The stream.
        lane: Lane,
        /// The most that may be unanswered.
        unanswered: u32,
    },
    /// Does nothing for a while, but take in what comes.
    Pause {
        /// For how long, in microseconds.
        us: u64,
    },
    /// Does nothing until the next act is due, but take in what comes. It is due whether or not those before it could be done in time.
    At {
        /// How long after the beginning of the conversation, pauses not counted, in microseconds.
        us: u64,
    },
    /// Does nothing for a while, and does not even read what comes.
    StopReading {
        /// For how long, in microseconds.
        us: u64,
    },
    /// Says that no further step follows on a stream.
    HalfClose {
        /// The stream.
        lane: Lane,
    },
    /// Closes a stream in good order: half-closes it where that is not done, and reads it to its end.
    Close {
        /// The stream.
        lane: Lane,
    },
    /// Cancels a stream, whatever is under way on it.
    Cancel {
        /// The stream.
        lane: Lane,
    },
    /// Resets the connection of a stream; only one that was made for it.
    Reset {
        /// The stream.
        lane: Lane,
    },
    /// Kills the process that a stream goes through; only one that was opened over a process.
    Kill {
        /// The stream.
        lane: Lane,
    },
}

fn one() -> NonZeroU16 {
    NonZeroU16::MIN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_one(elements: &NonZeroU16) -> bool {
    *elements == one()
}

impl Act {
    /// The stream that the act concerns.
    pub fn lane(&self) -> Option<Lane> {
        { *self }.lane_mut().copied()
    }

    /// Which ID a step has, counted from the conversation's own; none where the act sends none.
    pub fn id(&self) -> Option<u32> {
        match self {
            Self::Send { id, .. } => Some(*id),
            _ => None,
        }
    }

    /// The same on another stream.
    pub fn on(mut self, other: Lane) -> Self {
        if let Some(lane) = self.lane_mut() {
            *lane = other;
        }
        self
    }

    fn lane_mut(&mut self) -> Option<&mut Lane> {
        match self {
            Self::Open { lane, .. }
            | Self::Send { lane, .. }
            | Self::Await { lane, .. }
            | Self::HalfClose { lane }
            | Self::Close { lane }
            | Self::Cancel { lane }
            | Self::Reset { lane }
            | Self::Kill { lane } => Some(lane),
            Self::Pause { .. } | Self::At { .. } | Self::StopReading { .. } => None,
        }
    }
}

/// How many connections that are made for one stream acts have open at a time.
pub fn fresh_connections(acts: &[Act]) -> usize {
    let mut fresh = [false; Lane::MAX as usize];
    let mut most = 0;
    for act in acts {
        match *act {
            Act::Open { lane, over, .. } => fresh[lane.index()] = over.is_made_for_it(),
            Act::Close { lane } | Act::Cancel { lane } | Act::Reset { lane } | Act::Kill { lane } => {
                fresh[lane.index()] = false;
            }
            Act::Send { .. }
            | Act::Await { .. }
            | Act::Pause { .. }
            | Act::At { .. }
            | Act::StopReading { .. }
            | Act::HalfClose { .. } => {}
        }
        most = most.max(fresh.iter().filter(|is_fresh| **is_fresh).count());
    }
    most
}

/// One conversation of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conversation {
    /// The worker, from 0.
    pub worker: u32,
    /// The worker's context, from 0.
    pub context: u32,
    /// The pattern that it comes from.
    pub pattern: Pattern,
    /// When it began, in microseconds since the first one did.
    pub at_us: u64,
    /// Whether what was wrong was seen in it.
    pub accused: bool,
    /// What is done.
    pub acts: Vec<Act>,
}

impl Conversation {
    /// How many requests it sends.
    pub fn messages(&self) -> usize {
        self.acts.iter().filter(|act| matches!(act, Act::Send { .. })).count()
    }

    /// How many sequences it has.
    pub fn sequences(&self) -> u32 {
        let numbers = self.acts.iter().filter_map(|act| match act {
            Act::Send { sequence, .. } => Some(*sequence + 1),
            _ => None,
        });
        numbers.max().unwrap_or(0)
    }

    /// The worker's other contexts whose IDs it uses.
    pub fn others(&self) -> BTreeSet<u32> {
        let others = self.acts.iter().filter_map(Act::id).filter(|id| *id > 0);
        others.map(|id| self.context.saturating_add(id)).collect()
    }

    /// The same with other numbers for the worker's contexts, which keep their order.
    #[must_use]
    pub fn with_contexts(mut self, number: impl Fn(u32) -> u32) -> Self {
        let before = self.context;
        self.context = number(before);
        for act in &mut self.acts {
            if let Act::Send { id, .. } = act {
                *id = number(before.saturating_add(*id)) - self.context;
            }
        }
        self
    }

    /// How long it does nothing in all, at the most.
    pub fn pauses(&self) -> Duration {
        let mut due = 0;
        let each = self.acts.iter().map(|act| match *act {
            Act::Pause { us } | Act::StopReading { us } => us,
            Act::At { us } => us.saturating_sub(std::mem::replace(&mut due, us)),
            _ => 0,
        });
        Duration::from_micros(each.fold(0, u64::saturating_add))
    }

    /// The same without any waiting but for answers.
    pub fn at_once(mut self) -> Self {
        self.acts.retain(|act| !matches!(act, Act::Pause { .. } | Act::At { .. } | Act::StopReading { .. }));
        Self { at_us: 0, ..self }
    }

    /// The same with these acts, which are what is left of its own, or none where nothing is sent any more: steps are
    /// numbered anew, streams that carry nothing are gone, and what was sent is waited for at the end.
    pub fn with_acts(&self, acts: impl IntoIterator<Item = Act>) -> Option<Self> {
        let acts = text::tidy(acts.into_iter().collect());
        (!acts.is_empty()).then(|| Self { acts, ..self.clone() })
    }
}
