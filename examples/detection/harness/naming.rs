//! Which causes name a planted fault rightly.

#![allow(clippy::enum_glob_use, reason = "a table of them")]

use sequence_stress::{
    oracle::diagnosis::Cause::{self, *},
    reference::Fault,
};

/// START that goes on from an old sum: what it is, and whether it was told, cannot be seen from outside.
const NOT_RESET: &[Cause] = &[StaleStateOfId, StaleStateOfSlot, StartNotTold];
/// A step in the middle of a sequence that finds nothing.
const RESET: &[Cause] = &[StateReset, StartTold, EndTold];

/// The causes that name a fault rightly; of those that cannot be told apart from outside all.
pub fn causes_of(fault: Fault) -> &'static [Cause] {
    match fault {
        Fault::OffByOne | Fault::WrongElement => &[WrongArithmetic],
        Fault::KeepState | Fault::StaleState | Fault::StartMissing => NOT_RESET,
        Fault::ResetState | Fault::StartSpurious | Fault::EndSpurious => RESET,
        Fault::SwapStates => &[SwappedStates],
        // Two sequences of which each goes on from the other's steps.
        Fault::CutIds | Fault::FoldIds | Fault::FoldTexts => {
            &[SharedState, StrayStep, LeakedState, SwappedStates, SlotWrong, IdTakenForAnother]
        }
        Fault::DoubleRelease => &[SharedState],
        Fault::ExecuteTwice => &[ExecutedTwice],
        Fault::SkipStep => &[NotExecuted],
        Fault::OutOfOrder => &[OutOfOrder],
        Fault::EndBeforeLast => &[EndBeforeLast],
        Fault::StateNotSaved => &[EffectLost],
        Fault::StateOfAnotherSlot => &[LeakedState],
        Fault::EndMissing | Fault::LoseEnd => &[EndNotTold],
        Fault::ReadyMissing => &[ReadyNotTold, OutputMissing],
        Fault::ReadySpurious => &[ReadyTold],
        Fault::CorridZero | Fault::CorridOther => &[CorridWrong],
        // Where the server keeps the order of a stream's answers, those behind one that is dropped are late for ever.
        Fault::DropResponse => &[AnswerDropped, AnswerLate],
        Fault::DuplicateResponse | Fault::SurplusResponse => &[AnsweredTwice],
        Fault::SwapResponses | Fault::SwapOwnResponses => &[AnswersReordered],
        Fault::LoseOwnResponse | Fault::LoseFinalMark => &[AnswerDropped],
        Fault::Misdeliver => &[AnswerElsewhere, AnswerOfAnother],
        Fault::WrongRequestId => &[UnknownRequestId],
        Fault::WrongModelName => &[OtherModelsName],
        Fault::WrongModelVersion => &[OtherVersion],
        Fault::WrongOutputName => &[OutputName, OutputRefused],
        Fault::WrongOutputType => &[OutputType],
        Fault::WrongOutputShape => &[OutputShape],
        Fault::WrongOutputLength => &[OutputTooLong],
        Fault::TruncateOutput => &[OutputTooShort],
        Fault::EmptyResponse => &[OutputMissing],
        Fault::LateResponse => &[AnswerLate],
        Fault::ModelError => &[ModelError],
        Fault::WrongErrorText | Fault::WrongErrorCode => &[ErrorText],
        Fault::CloseStream => &[StreamClosedEarly],
        Fault::LoseFinalAnswers => &[FinalAnswersLost],
        Fault::NeverClose => &[StreamKeptOpen],
        Fault::LeakSlotAtEnd | Fault::LeakSlotAtCancel | Fault::OrphanAtCancel | Fault::LeakSlotAtDisconnect => {
            &[SlotLeak]
        }
        // Whether the slot or the sequence is kept cannot be seen while nobody uses either.
        Fault::LeakSlotAtIdle | Fault::NeverReap => &[SlotLeak, MissingReap],
        // It gets the place of another one's.
        Fault::ExtraSlot => &[ExtraSlot, SharedState],
        Fault::ReapEarly | Fault::ClockFromStart => &[PrematureReap],
        Fault::RefuseMidSequence => &[SpuriousRefusal],
        Fault::RefuseStart => &[StartRefused],
        // In the slot of the ID's last sequence it goes on from that one's sum, as after an END without effect.
        Fault::AcceptNoStart => &[RefusalMissing, EndNotTold],
        Fault::AcceptBatch => &[FlawTaken],
        Fault::RefusalEndsSequence => &[EndedByRefusal],
        Fault::ExpireEarly => &[ExpiredEarly],
        Fault::IgnoreTimeout => &[ExpiryMissing],
        Fault::StarveBacklog | Fault::BacklogOrder => &[Starvation],
        // An instance that does nothing for longer than an answer is waited for.
        Fault::HangInstance | Fault::SlowExecution | Fault::LateRelease => &[Stall, ServerHang],
        // What was executing is still answered, so others may have been answered meanwhile.
        Fault::ReaperLivelock => &[ServerHang, Stall],
        Fault::Crash => &[Crash, Restart],
        Fault::Restart => &[Restart],
        Fault::CountTwice => &[CountedTwice],
        Fault::CountNot => &[NotCounted],
        Fault::LeakMemory | Fault::GoAway => &[],
    }
}

/// The causes that name a fault rightly that is there at each chance: where nothing else is ever seen, less can be told.
pub fn causes_of_always(fault: Fault) -> Vec<Cause> {
    let more: &[Cause] = match fault {
        // Nothing is answered at all.
        Fault::DropResponse
        | Fault::LateResponse
        | Fault::LoseFinalMark
        | Fault::HangInstance
        | Fault::SlowExecution => &[ServerHang],
        // Where all wait nobody shows that there is a slot for who comes later.
        Fault::StarveBacklog => &[SlotLeak],
        // No step after an empty answer has one that is not.
        Fault::EmptyResponse => &[ReadyNotTold],
        // Two slots that each get the other's state.
        Fault::StateOfAnotherSlot => &[SwappedStates],
        // A state that is never kept is one that is always reset; where START is executed last there is none until then; and
        // where START had another ID, the second step finds none.
        Fault::StateNotSaved | Fault::OutOfOrder | Fault::CorridOther | Fault::CorridZero => RESET,
        _ => &[],
    };
    causes_of(fault).iter().chain(more).copied().collect()
}

/// Whether a cause names the fault of this name rightly; native models commit theirs by the same names.
pub fn names_rightly(fault: &str, named: Cause, always: bool) -> bool {
    let info = Fault::TABLE.iter().find(|info| info.name == fault);
    let right = |fault| if always { causes_of_always(fault) } else { causes_of(fault).to_vec() };
    info.is_some_and(|info| right(info.fault).contains(&named))
}
