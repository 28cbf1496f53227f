//! The patterns: what one iteration of a worker sends.

use self::{
    Shape::{Burst, EachId, EndOrNot, Exactly, Flawed, Open, Stray, Whole},
    Trait::{
        Connects, ConnectsOften, Cuts, IsKilled, LeavesNone, MixesTransports, OfTriton, Queues, Restarts, SharesStream,
        SingleSteps, Streams,
    },
};
use super::UNREAD_MAX;

/// The steps of a steady sequence.
pub const STEADY_STEPS: u32 = 5;

table! {
    /// The life cycle of what one iteration of a worker sends on one correlation ID.
    pub enum Pattern: Row {
        /// START … END.
        Valid = "valid", Row(&[Whole(1)], &[OfTriton, LeavesNone, SingleSteps]);
        /// START … END, START … END, back to back: a slot, and an ID, used again.
        ValidValid = "valid-valid", Row(&[Whole(1), Whole(1)], &[OfTriton, LeavesNone, SingleSteps]);
        /// START … END, START … with no END: the server has to reclaim the slot by its idle limit.
        ValidNoEnd = "valid-no-end", Row(&[Whole(1), Open], &[OfTriton, SingleSteps]);
        /// One step with no START on an ID that has no sequence: it has to be rejected.
        NoStart = "no-start", Row(&[Stray { end: false }], &[OfTriton, LeavesNone, SingleSteps]);
        /// START … with no END: the server has to end the sequence itself and use its slot again.
        NoEnd = "no-end", Row(&[Open], &[OfTriton, SingleSteps]);
        /// A pause around the idle limit in the middle of a sequence.
        Pause = "pause", Row(&[Whole(2)], &[]);
        /// The stream is cancelled while one step executes and others, END among them or not, are queued.
        CancelQueued = "cancel-queued", Row(&[EndOrNot(3)], &[Queues, Cuts, Streams]);
        /// The stream is cancelled while a step executes, after all earlier steps were answered.
        CancelExecuting = "cancel-executing", Row(&[Whole(2)], &[Cuts]);
        /// The stream is cancelled when all that was sent is answered.
        CancelIdle = "cancel-idle", Row(&[Whole(2)], &[Cuts]);
        /// The stream is cancelled with END queued, and the ID is started at once over another connection.
        CancelRestart = "cancel-restart", Row(&[Whole(3), Whole(2)], &[Queues, Cuts, Streams]);
        /// START … END, half-closed while responses are due: all of them have to come.
        HalfClose = "half-close", Row(&[Whole(1)], &[LeavesNone, Queues, Streams]);
        /// The TCP connection is reset while steps are under way.
        Reset = "reset", Row(&[EndOrNot(3)], &[Queues, Cuts, Connects]);
        /// The sequence is continued over another connection.
        ContinueElsewhere = "continue-elsewhere", Row(&[Whole(2)], &[LeavesNone, Cuts, Connects]);
        /// The sequence is continued over another worker's connection.
        ContinueByNeighbour = "continue-by-neighbour", Row(&[Whole(2)], &[LeavesNone, Cuts]);
        /// The ID is started again over another connection while its sequence is under way.
        RestartElsewhere = "restart-elsewhere", Row(&[Whole(3), Whole(2)], &[Cuts]);
        /// One sequence is submitted over several connections at once.
        Concurrent = "concurrent", Row(&[Whole(3)], &[LeavesNone, Cuts, ConnectsOften]);
        /// The client stops reading until flow control holds the responses back, then reads on: all of them have to come.
        StopReading = "stop-reading", Row(&[Whole(UNREAD_MAX + 4)], &[LeavesNone, Queues, Streams, Connects]);
        /// The client's process is killed while steps are under way.
        KillClient = "kill-client", Row(&[EndOrNot(3)], &[Queues, Cuts, Connects, IsKilled]);
        /// START …, START … END on one stream: the ID is started again while its sequence is live.
        Restart = "restart", Row(&[Open, Whole(1)], &[LeavesNone, Restarts]);
        /// Sequences of one step, START and END at once, in a row.
        Burst = "burst", Row(&[Burst], &[LeavesNone, Queues, SingleSteps]);
        /// START … END, then one step more: it has to be rejected.
        AfterEnd = "after-end", Row(&[Whole(1), Stray { end: false }], &[LeavesNone, SingleSteps]);
        /// START … END, then END again: it has to be rejected.
        EndTwice = "end-twice", Row(&[Whole(1), Stray { end: true }], &[LeavesNone, SingleSteps]);
        /// Two sequences of one ID at once, step by step: one over the worker's own connection, one over another worker's.
        SharedId = "shared-id", Row(&[Whole(2), Whole(2)], &[]);
        /// START … END, with steps in between that have a flaw and have to be rejected for it.
        Malformed = "malformed", Row(&[Flawed], &[LeavesNone]);
        /// START … END, all sent at once, with a time limit: the server rejects the sequence if it waits too long for a slot.
        Timeout = "timeout", Row(&[Whole(2)], &[LeavesNone, Queues, Cuts]);
        /// START … END, with four pauses of 60 % of the idle limit: the sequence has to live on.
        Steady = "steady", Row(&[Exactly(STEADY_STEPS)], &[LeavesNone]);
        /// START … END: each step waits for the response to the one before, and takes another transport.
        MixedTransports = "mixed-transports", Row(&[Whole(2)], &[LeavesNone, Cuts, MixesTransports]);
        /// START … END, all but END within a client's deadline that may pass: what was executed all the same shows in the steps after it.
        Deadline = "deadline", Row(&[Whole(3)], &[Cuts, Connects]);
        /// Sequences of several IDs: every START over one stream, all else over a stream of the ID's own, one sequence after the other.
        SharedStream = "shared-stream", Row(&[EachId(3)], &[LeavesNone, Queues, Streams, SharesStream]);
    }
}

/// What a pattern is like: its sequences, in the order in which they begin, and its traits.
struct Row(&'static [Shape], &'static [Trait]);

/// What a sequence of a pattern is drawn as. Where there is a number, the sequence has at least so many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// START … END.
    Whole(u32),
    /// START …, with no END.
    Open,
    /// START …, with END or without, by chance.
    EndOrNot(u32),
    /// START … END, of exactly so many steps.
    Exactly(u32),
    /// One step without START.
    Stray {
        /// Whether it carries END.
        end: bool,
    },
    /// Several sequences of one step, each with START and END.
    Burst,
    /// START … END, in which some steps have a flaw.
    Flawed,
    /// START … END on each of the worker's first IDs in turn, several times.
    EachId(u32),
}

/// What some patterns have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// Triton's own stress test has it. Scenario files then list its weight even where that is 0, and it does nothing but send.
    OfTriton,
    /// The ID certainly has no sequence on a correct server once all responses to this pattern are there.
    LeavesNone,
    /// It starts a sequence again that it has not ended.
    Restarts,
    /// It can be done with sequences of one step that end by themselves, one after the other.
    SingleSteps,
    /// It is about steps that are queued in the server, so that no window holds them back.
    Queues,
    /// It is about a stream, or about steps that are queued on one, so that single calls cannot do it.
    Streams,
    /// Steps may be left under way when the next sequence of the ID begins: where something is cut, or given up, or where a
    /// sequence is elsewhere, too.
    Cuts,
    /// It makes a connection for one stream.
    Connects,
    /// It makes connections for all of its streams but the first two.
    ConnectsOften,
    /// A stream of it goes through a process of its own, which is killed.
    IsKilled,
    /// Its steps travel over every transport that the server speaks.
    MixesTransports,
    /// Its sequences have several IDs, whose STARTs share one stream. An ID's START and the step behind it go out at once, and each other
    /// step waits for the responses to those before it.
    SharesStream,
}

impl Pattern {
    /// Its sequences, in the order in which they begin; never empty.
    pub fn shapes(self) -> &'static [Shape] {
        self.row().0
    }

    /// Whether it has this trait.
    pub fn has(self, its: Trait) -> bool {
        self.row().1.contains(&its)
    }

    /// Whether its first step has to find no sequence on its ID.
    pub fn begins_without_start(self) -> bool {
        matches!(self.shapes()[0], Stray { .. })
    }

    /// The pattern's place in [`Pattern::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}
