//! What a run claims to exercise, and how often it did.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::keys;
#[allow(clippy::enum_glob_use, reason = "the table names them all")]
use crate::sequence::Pattern::{self, *};

/// What the claims need that are about all slots.
const SLOTS: &str = "as many sequences have to be left without END within the idle limit, here {idle}, as the model has slots, here {slots}: \
                     more workers (-t, here {workers})";

table! {
    /// Something that a run may claim to exercise. It is counted from what was answered, never from what was planned.
    pub enum Claim: Row {
        /// A START was answered rightly, and before it an END of the same ID.
        ReuseOfAnId = "reuse-of-an-id", Row(&[ValidValid, ValidNoEnd], "");
        /// The same, where the START was sent before the END was answered.
        BackToBack = "back-to-back", Row(
            &[ValidValid, ValidNoEnd],
            "it needs sending.reuse = \"pipelined\", sending.window above 1, and a model that keeps no state by correlation ID"
        );
        /// A START was answered rightly while the ID's sequence was certainly live: a step without END was answered, and the idle limit not reached.
        RestartOfALiveId = "restart-of-a-live-id", Row(
            &[ValidNoEnd, NoEnd, Restart],
            "the START has to be answered within the idle limit, here {idle}, of the sending of the step before it"
        );
        /// A step without START was rejected for want of START, as it had to be.
        RejectedNoStart = "rejected-no-start", Row(&[NoStart], "");
        /// A step was rejected whose sequence was certainly live before a pause beyond the idle limit.
        IdleReap = "idle-reap", Row(&[Pause], "the pause has to be longer than the idle limit, here {idle}");
        /// A sequence went on rightly after nothing was sent for a quarter of the idle limit.
        KeptThroughAPause = "kept-through-a-pause", Row(
            &[Pause],
            "the pause has to be from a quarter of the idle limit, here {idle}, to all of it"
        );
        /// A sequence went on rightly more than two idle limits after its START, with pauses below the idle limit.
        LivedOn = "lived-on", Row(&[Steady], "the pauses between steps, and the wait for a slot, have to stay below the idle limit, here {idle}");
        /// As many sequences certainly had a slot as there are slots: START answered, no END sent, the idle limit not reached.
        AllSlotsBusy = "all-slots-busy", Row(&[ValidNoEnd, NoEnd], SLOTS);
        /// A START was sent while every slot was certainly taken, and was answered when one was free.
        Backlog = "backlog", Row(&[ValidNoEnd, NoEnd], SLOTS);
        /// The same, and the client had ended none of the sequences that had the slots: the server had to.
        SlotReclaim = "slot-reclaim", Row(&[ValidNoEnd, NoEnd], SLOTS);
        /// The client cut a stream while steps of a sequence that had been answered before were under way.
        CutWithStepsUnderWay = "cut-with-steps-under-way", Row(
            &[CancelQueued, CancelExecuting, CancelRestart, Reset, KillClient],
            ""
        );
        /// The client cut a stream in the middle of a sequence, all that was sent answered.
        CutWhileIdle = "cut-while-idle", Row(&[CancelIdle], "");
        /// The client reset a connection while steps of a sequence that had been answered before were under way.
        ConnectionReset = "connection-reset", Row(&[Reset], "");
        /// A START was answered rightly, as the first step of its ID since a stream was cut with steps under way.
        StartAfterACut = "start-after-a-cut", Row(&[CancelRestart], "");
        /// A stream was half-closed while responses were due, and all of them came rightly.
        HalfClosed = "half-closed-with-responses-due", Row(&[HalfClose], "");
        /// A step of a sequence was answered rightly over another stream than the step before it.
        ContinuedElsewhere = "continued-elsewhere", Row(&[ContinueElsewhere, ContinueByNeighbour], "");
        /// A START was answered rightly that was sent while the ID's sequence was under way on another stream.
        RestartElsewhere = "restart-elsewhere", Row(&[RestartElsewhere, SharedId], "");
        /// A step was answered rightly while another one of its sequence was under way on another stream.
        ConcurrentSubmission = "concurrent-submission", Row(&[Concurrent], "");
        /// A stream was not read while more responses were due than flow control lets through, and all of them came rightly.
        ReadOn = "read-on-after-stopping", Row(&[StopReading], "");
        /// The process of a client was killed while steps of a sequence that had been answered before were under way.
        ClientKilled = "client-killed", Row(&[KillClient], "");
        /// The faulty network cut a connection while steps of a sequence that had been answered before were under way.
        CutByTheNetwork = "cut-by-the-network", Row(
            &[],
            "it needs a population with network.cut or network.black_hole"
        );
        /// A step with START and END was answered rightly, and before it an END of the same ID.
        OneStepSequences = "one-step-sequences", Row(&[Burst], "");
        /// A step with neither START nor END was rejected for want of START, right after an END of its ID was answered.
        RejectedAfterEnd = "rejected-after-end", Row(&[AfterEnd], "");
        /// An END without START was rejected for want of START, right after an END of its ID was answered.
        RejectedSecondEnd = "rejected-second-end", Row(&[EndTwice], "");
        /// A sequence went on rightly after a step was rejected for a flaw that was sent when a step of it had been answered: the sequence had its slot.
        SurvivedAFlaw = "survived-a-flaw", Row(
            &[Malformed],
            "the step with the flaw has to be sent after a step of its sequence was answered: sending.window = 1"
        );
        /// A step was rejected because its sequence waited for a slot for longer than it might.
        ExpiredInBacklog = "expired-in-the-backlog", Row(
            &[Timeout],
            "slots have to be taken for longer than the steps may wait, a share of the idle limit, here {idle}: sequences without END, and more workers (-t, here {workers}) than slots, here {slots}"
        );
        /// A step was answered rightly over another transport than the step before it of its sequence.
        MixedTransports = "mixed-transports", Row(&[MixedTransports], "");
        /// A client's deadline passed while steps of a sequence were under way.
        DeadlinePassed = "deadline-passed", Row(
            &[Deadline],
            "deadlines (sending.deadline_ms) have to be shorter than the execution, or than the wait for a slot"
        );
        /// A step of a sequence was answered rightly after a client's deadline had passed while steps of the sequence were under way.
        WentOnPastADeadline = "went-on-past-a-deadline", Row(
            &[Deadline],
            "the step under way has to be executing when its deadline passes: sending.window = 1, or calls"
        );
        /// Two STARTs of one stream waited while other sequences certainly had every slot, and the one that was sent first had its slot first.
        SlotsInTurn = "slots-in-turn", Row(
            &[SharedStream],
            "the workers' common IDs, here {workers} times contexts.common, have to be more than the model has slots, here {slots}"
        );
        /// The tool began to reload the model, to kill an instance of it or to restart the server while a sequence was certainly live.
        LiveWhenDisturbed = "live-when-disturbed", Row(
            &[],
            "it needs a phase with server, and a population that sends when this phase begins"
        );
        /// A step of a sequence was answered rightly, and another model was loaded since the answer to the step before it.
        LivedThroughALoad = "lived-through-a-load", Row(&[], "it needs a phase with other_model");
        /// The server ended a stream with the status of a request's error, rightly, while other requests of the stream were under way.
        EndedByAnError = "ended-by-an-error", Row(
            &[],
            "it needs sending.transport = \"grpc-status\", the pattern timeout, and slots that are taken for longer than steps may wait"
        );
    }
}

/// The patterns that are for a claim, and what it needs besides them.
struct Row(&'static [Pattern], &'static str);

impl Claim {
    /// The patterns that are for it.
    pub fn patterns(self) -> &'static [Pattern] {
        self.row().0
    }

    /// What it needs besides those patterns, if anything; `{slots}`, `{idle}` and `{workers}` stand for the run's.
    pub fn needs(self) -> &'static str {
        self.row().1
    }
}

/// A number for each claim: how often it was reached, or has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims([u64; Claim::ALL.len()]);

impl Default for Claims {
    fn default() -> Self {
        Self([0; Claim::ALL.len()])
    }
}

impl Claims {
    /// The number of one claim.
    pub fn of(&self, claim: Claim) -> u64 {
        self.0[claim as usize]
    }

    /// Sets the number of one claim.
    pub fn set(&mut self, claim: Claim, number: u64) {
        self.0[claim as usize] = number;
    }

    /// Counts one more.
    pub fn reach(&mut self, claim: Claim) {
        self.0[claim as usize] += 1;
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The claims whose number is not zero, with it.
    pub fn iter(&self) -> impl Iterator<Item = (Claim, u64)> {
        Claim::ALL.into_iter().map(|claim| (claim, self.of(claim))).filter(|(_, number)| *number > 0)
    }
}

impl Serialize for Claims {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let what = "a table of claims and how often each has to be reached";
        keys::table(deserializer, what, "claim", Claim::NAMES).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_know_their_places_and_are_read_back() {
        let mut claims = Claims::default();
        for (index, claim) in Claim::ALL.into_iter().enumerate() {
            assert_eq!(claim as usize, index);
            claims.set(claim, index as u64);
        }
        let text = serde_json::to_string(&claims).expect("JSON");
        assert_eq!(serde_json::from_str::<Claims>(&text).expect("claims"), claims);
        assert!(serde_json::from_str::<Claims>("{\"no-such\": 1}").is_err());
    }

    /// The plain sequence is what every run has to have; each other pattern is drawn for something.
    #[test]
    fn there_is_a_claim_for_every_pattern_but_the_plain_one() {
        for pattern in Pattern::ALL {
            let is_claimed = Claim::ALL.iter().any(|claim| claim.patterns().contains(&pattern));
            assert_eq!(is_claimed, pattern != Pattern::Valid, "{pattern}");
        }
    }
}
