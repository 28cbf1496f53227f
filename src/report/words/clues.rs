//! What speaks for a cause, in words.

use super::Description;
use oracle::{
    Evidence, Violation,
    diagnosis::{Clue, Explanation, Left, Relation, SequenceId, WentOn},
};
use workload::{event::ContextId, wording::counted};

/// The evidence of a violation's explanation, in a sentence.
pub fn evidence(violation: &Violation, explanation: &Explanation) -> String {
    let words = Description::of(violation);
    let mut phrases: Vec<_> = explanation.clues.iter().map(|clue| phrase(clue, violation, &words)).collect();
    phrases.extend(explanation.by_chance.map(|cases| format!("by chance this matches in 1 of {cases} cases")));
    phrases.join("; ")
}

#[expect(clippy::too_many_lines, reason = "one arm for each clue")]
fn phrase(clue: &Clue, violation: &Violation, words: &Description) -> String {
    // There is no number that could be too high.
    let is_golden = matches!(violation.evidence, Evidence::Output { .. });
    match clue {
        Clue::Seen => seen(violation, words),
        Clue::SeenAndExpected => seen_and_expected(violation, words),
        Clue::SeenAgain => format!("the stream brought {} again", words.seen),
        Clue::OfItsAnswers => format!("of its responses there came {}", words.seen),
        Clue::WrongBy { off_by } => format!("the response is wrong by {off_by}"),
        Clue::TooHighByOwnValue { value } if is_golden => {
            format!("the response is that to a state that has the step's own input, {value}, twice")
        }
        Clue::TooHighByEarlierValue { value, back } if is_golden => {
            format!("the response is that to a state that has {value}, the input of the step {back} before, twice")
        }
        Clue::OwnValue if is_golden => "the response is that to the step's own input on a new state".to_owned(),
        Clue::TooHighByOwnValue { value } => format!("the response is too high by the step's own value, {value}"),
        Clue::TooHighByEarlierValue { value, back } => {
            format!("the response is too high by {value}, the value of the step {back} before")
        }
        Clue::TooHighById { id } => format!("the response is too high by the correlation ID, {id}"),
        Clue::OneBit { right, bit } => format!("the response differs from {right} in bit {bit} alone"),
        Clue::AtTheLimit { answer } => format!("the response, {answer}, is the limit of {}", answer.datatype()),
        Clue::AnswerOfEnd { to_end: true } => "the response is that to the same step with END".to_owned(),
        Clue::AnswerOfEnd { to_end: false } => "the response is that to the same step without END".to_owned(),
        Clue::OneElement { element, of } => format!("element {element} of {of} differs, and the others are right"),
        Clue::ShownAlone => "the idle server did so by itself after the run".to_owned(),
        Clue::AllAlike { steps } => format!("the responses to {steps} steps of a sequence are the same"),
        Clue::StartDiffers => "of equal sequences, one after the other, START was answered in two ways".to_owned(),
        Clue::StartWrongTwice => {
            "of equal sequences, one after the other, START had the same wrong outputs".to_owned()
        }
        Clue::NextRight => "the next response of the sequence is right, and so is its state".to_owned(),
        Clue::RightBefore { step } => {
            format!("step {step} of a sequence had the same wrong outputs twice, and the steps before it had the right ones")
        }
        Clue::SameStepAgain => "the same step, twice in a row, had the same outputs".to_owned(),
        Clue::NextUnlike => {
            "neither this response nor the next one of the sequence is that of a known state, or one that the idle server gave".to_owned()
        }
        Clue::StateBefore { state } => format!("the response is the state before the step, {state}"),
        Clue::AfterALaterStep { late, early, sum } => {
            format!("step {late} was executed after step {early}: its response goes on from that one's, {sum}")
        }
        Clue::HasLaterValues { up_to } => format!("the response has the values of steps up to {up_to} in it"),
        Clue::LacksEarlierValues { back: 1, missing } => {
            format!("the response lacks the value of the step before, {missing}")
        }
        Clue::LacksEarlierValues { back, missing } => {
            format!("the response lacks the value of the steps from {back} before on, {missing}")
        }
        Clue::OwnValue => "the response is the step's own value".to_owned(),
        Clue::OwnValueAsBehindEnd => {
            "the response is the step's own value: END before it would have removed the state".to_owned()
        }
        Clue::NoState => "the step found no state".to_owned(),
        Clue::EndFoundTheState => {
            "the step found no state, and END behind it had found the one that the step should have".to_owned()
        }
        Clue::TakenByAnother => "another sequence went on from this one's state".to_owned(),
        Clue::NothingExplains { off_by } => format!("wrong by {off_by}, which no known sequence explains"),
        Clue::StartWentOn { from } => format!("START went on from {from}, of an older sequence or of none"),
        Clue::StartUnanswered { found } => {
            format!("the client had cancelled START, no step before was answered, and the step went on from {found}")
        }
        Clue::StartNotKept { found } => {
            format!("the step after START found {found}, as if START's own state had not been kept")
        }
        Clue::CountFound { found } => format!("the step found {found}, which is what the other state has to be"),
        Clue::WentOn { from } => went_on(*from),
        Clue::FromSequence { state, sequence } => {
            format!("the step went on from {state}, of sequence {}", name(*sequence))
        }
        Clue::EndOfAnother { sequence } => format!(
            "the step found no state; sequence {} of its ID was live too, and its END takes the state away",
            name(*sequence)
        ),
        Clue::StaleState { state, step, sequence, id, relation } => {
            let whose = match relation {
                Relation::Predecessor => "the ID's previous sequence",
                Relation::SameId => "an earlier sequence of the ID",
                Relation::OtherId => "a sequence of another ID",
            };
            let name = name(*sequence);
            format!("START went on from {state}, the state after step {step} of {name}, {whose} (correlation ID {id})")
        }
        Clue::SameFound { state, times } => {
            format!("the step found {state}, which no sequence left, and {times} other steps found the same")
        }
        Clue::BelongsTo { answer, request, stream } => format!(
            "the response, {answer}, belongs to request {request} (worker {}, context {}, lane {stream})",
            request.worker, request.context
        ),
        Clue::Exchanged => "that one was answered with what belongs here".to_owned(),
        Clue::HasValuesOf { requests } => {
            let named: Vec<_> = requests.iter().map(ToString::to_string).collect();
            format!("the response has the values of {} in it", named.join(", "))
        }
        Clue::StateOf { state, step, sequence, id } => format!(
            "the step went on from {state}, the state of sequence {} (worker {}, context {}, correlation ID {id}) after step {step}",
            name(*sequence),
            sequence.worker,
            sequence.context
        ),
        Clue::ThatWentOnFromThis => "that one went on from this one's state".to_owned(),
        Clue::ThatWentOnFromTheAnswer => "that one went on from this one's response".to_owned(),
        Clue::ThatWentOnUntouched => "that one went on as if nothing had been".to_owned(),
        Clue::BothUsedTheState => "steps of both sequences used the state".to_owned(),
        Clue::AfterACancel { context, ms } => format!(
            "two sequences in one slot after a cancel: worker {} cut its stream of context {} {ms} ms before",
            context.worker, context.context
        ),
        Clue::CutBefore { context, ms } => format!(
            "worker {} cut its stream of context {} {ms} ms before: the server may have taken the request for a cancelled one",
            context.worker, context.context
        ),
        Clue::ErrorSays { error } => format!("the error says '{error}'"),
        Clue::UnknownId { id } => format!("the response carries the ID '{id}', and no request with it is known"),
        Clue::AnswerTo { request, id, context } => {
            let whose = context.map_or("which an earlier stream of this context carried".to_owned(), of_context);
            format!("the response is to request {request}, {whose}; correlation ID {id}")
        }
        Clue::NoOutput { executed } => {
            let executed = match executed {
                None => "no later response shows whether the step was executed",
                Some(true) => "later responses have the step's value in them",
                Some(false) => "later responses are as if the step had not been",
            };
            format!("the response has no output; {executed}")
        }
        Clue::CarriesStart => "the request carries START".to_owned(),
        Clue::NoAcceptedStep => "no accepted step of the sequence is known".to_owned(),
        Clue::RejectedForAFlaw { step } => format!("step {step} before it was rejected for a flaw"),
        Clue::StreamBroke { reason } => {
            format!("a stream broke at about that time: {}", reason.as_deref().unwrap_or("the server ended the stream"))
        }
        Clue::OtherConnection { rejected, executed } => format!(
            "all {rejected} rejected steps of the sequence came over another connection than its START, and none of its {executed} \
             executed ones; no sequence went on over another connection"
        ),
        Clue::SeveralServers { servers } => format!(
            "the endpoint leads to {} servers, and nothing tells which of them answered a step: have the load balancer name the \
             server in a header, and give --server-header NAME",
            if *servers == 0 { "several".to_owned() } else { servers.to_string() }
        ),
        Clue::NearIdEnded { sequence, id } => format!(
            "between the last accepted step and the rejection sequence {} of correlation ID {id} ended, which is nearly the same ID",
            name(*sequence)
        ),
        Clue::Idle { since_ms, limit_ms, pause_ms, went_on } => {
            let limit = limit_ms.map_or("?".to_owned(), |limit| limit.to_string());
            let after = match went_on {
                None => "no later step tells whether the sequence was still there",
                Some(true) => "later steps found the sequence still there",
                Some(false) => "later steps were rejected too",
            };
            format!(
                "the last accepted step was sent {since_ms} ms before, of {limit} ms that it may be idle, and the pause before this \
                 one was {pause_ms} ms; {after}"
            )
        }
        Clue::LimitSinceStart { ms } => format!(
            "the rejection came {ms} ms after START: an idle clock that steps do not reset ran out between the last accepted step and \
             this one"
        ),
        Clue::Flaw { flaw } => format!("what is wrong with it: {}", flaw.what()),
        Clue::RejectedAfter { ms } => format!("the rejection came {ms} ms after the step was sent"),
        Clue::StartAnsweredAfter { ms } => format!("the response to START came {ms} ms after it was sent"),
        Clue::FromZero => "the step was executed from zero on".to_owned(),
        Clue::FromBeforeARejection { state, step } => {
            format!("the sequence went on from {state}, its sum before step {step} was rejected")
        }
        Clue::FromPredecessor { state, sequence, left } => {
            let left = match left {
                None => String::new(),
                Some(Left::Ended) => ", which had ended".to_owned(),
                Some(Left::IdleMs(ms)) => format!(", which got no request for {ms} ms"),
            };
            let name = name(*sequence);
            format!("the step went on from {state}, the sum of the ID's previous sequence, {name}{left}")
        }
        Clue::FromState { state, sequence } => {
            let whose = sequence.map_or("which no known sequence left".to_owned(), |sequence| {
                format!("the state of sequence {}", name(sequence))
            });
            format!("the step went on from {state}, {whose}")
        }
        Clue::NothingBeside => "nothing that was sent beside it is known".to_owned(),
        Clue::CameTo { context } => {
            format!("its response came to worker {} context {}", context.worker, context.context)
        }
        Clue::Meanwhile { behind, others, overtook, stuck, begun_in_vain, left, live } => format!(
            "while it was waited for, {behind} later requests of its stream were answered, and {others} of others; {overtook} \
             sequences that began later got their slots; {stuck} other sequences stopped in the middle and {begun_in_vain} at \
             START; {left} were left without END; {live} were live when it was sent"
        ),
        Clue::AllSlotsFree { slots } => format!("after the run all {slots} slots were free, and a slot that leaks stays lost"),
        Clue::WaitLonger => "a longer limits.lost_after_ms shows whether the stream brings it later".to_owned(),
        Clue::SlowingDown { early_ms, late_ms, waited_ms } => format!(
            "responses to steps that have a slot took {early_ms} ms in the first quarter of what is known and {late_ms} ms in the last; \
             this one was waited for for {waited_ms} ms"
        ),
        Clue::HalfClosed => "the client had half-closed it".to_owned(),
        Clue::BrokeTogether { contexts } => {
            format!("streams of {} broke within half a second", counted(*contexts as u64, "context"))
        }
        Clue::SteadyGrowth => {
            "in each eighth of them; a cache that fills looks alike, and ends where it is full".to_owned()
        }
        Clue::AcrossRanks { rank, worker, from_rank, from_worker } => {
            format!("rank {rank} worker {worker} was answered from rank {from_rank} worker {from_worker}")
        }
        Clue::AskTheLog => {
            "the server's log says whether another client loaded or unloaded a model, or the server was ending"
                .to_owned()
        }
    }
}

/// What was seen, as evidence.
fn seen(violation: &Violation, Description { seen, .. }: &Description) -> String {
    use oracle::ViolationKind as Kind;
    match violation.kind {
        Kind::WrongControl => format!("the model tells what it saw: {seen}"),
        Kind::WrongModel
        | Kind::WrongVersion
        | Kind::WrongOutputName
        | Kind::WrongOutputType
        | Kind::WrongOutputShape
        | Kind::WrongOutputSize => format!("the response has {seen}"),
        _ => seen.clone(),
    }
}

/// What was seen beside what was expected, as evidence.
fn seen_and_expected(violation: &Violation, Description { seen, expected, .. }: &Description) -> String {
    use oracle::ViolationKind as Kind;
    match violation.kind {
        Kind::Statistics => format!("the counts rose by {seen}, and had to by {expected}"),
        Kind::WrongSlot => format!("the model tells {seen}; it had to be {expected}"),
        Kind::SequenceSplit => format!("the step was answered by {seen}, and had to be by {expected}"),
        _ => format!("the stream brought {seen}, and there should be {expected}"),
    }
}

fn went_on(from: WentOn) -> String {
    match from {
        WentOn::NotKnown => "no later response shows from what the sequence went on".to_owned(),
        WentOn::WrongSum => "the sequence went on from the wrong state".to_owned(),
        WentOn::RightSum => "the sequence went on from the right state".to_owned(),
        WentOn::StateBefore => "the sequence went on as if the step had not been".to_owned(),
        WentOn::Other(state) => format!("the sequence went on from {state}"),
    }
}

fn name(SequenceId { worker, context, sequence }: SequenceId) -> String {
    format!("{worker}-{context}-{sequence}")
}

fn of_context(ContextId { worker, context }: ContextId) -> String {
    format!("of worker {worker} context {context}")
}
