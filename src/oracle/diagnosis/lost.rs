//! Answers that did not come.

use super::{
    Cause, Question,
    hypothesis::{Fit, Hypothesis},
    story::{Asked, Spot, Told},
};
use crate::event::Nanos;

/// What else was answered, or not, while an answer was waited for.
struct Around {
    /// The number of later requests of its stream that were answered.
    behind: usize,
    /// The number of answers to anything else that was sent after it.
    anything: usize,
    /// The number of other sequences that stopped in the middle, for as long.
    stuck: usize,
    /// The number of sequences that began later and were answered.
    overtook: usize,
    /// The number of sequences without END that were left.
    left: usize,
}

/// What may explain that an answer did not come.
pub(super) fn explain(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    if let Some((_, entry)) = question.story.strays.iter().find(|(request, _)| *request == asked.step.request) {
        let evidence = format!("its answer came to worker {} context {}", entry.context.worker, entry.context.context);
        return vec![Hypothesis::new(Cause::AnswerElsewhere, 1, Fit::Yes, evidence)];
    }
    let around = Around::new(question, spot);
    let has_begun = question.story.told(spot).steps[..=spot.step].iter().any(|step| step.answer.is_some());
    let causes = if around.behind > 0 {
        vec![Cause::AnswerDropped]
    } else if around.anything == 0 {
        vec![Cause::ServerHang, Cause::Stall, Cause::AnswerLate, Cause::AnswerDropped]
    } else if has_begun || !asked.step.start {
        mid_sequence(&around)
    } else {
        no_slot(question, &around)
    };
    let evidence = around.told();
    (1..).zip(causes).map(|(rank, cause)| Hypothesis::new(cause, rank, Fit::NotKnown, evidence.clone())).collect()
}

fn mid_sequence(around: &Around) -> Vec<Cause> {
    if around.stuck > 0 {
        vec![Cause::Stall, Cause::AnswerLate]
    } else {
        vec![Cause::AnswerLate, Cause::Stall, Cause::AnswerDropped]
    }
}

fn no_slot(question: &Question, around: &Around) -> Vec<Cause> {
    if around.stuck > 0 {
        return vec![Cause::Stall, Cause::Starvation, Cause::SlotLeak];
    }
    if around.overtook > 0 {
        // It may have a slot, and not its answer.
        let scarce = question.known.slots.is_some_and(|slots| live(question) >= slots as usize);
        let lone = vec![Cause::AnswerLate, Cause::Starvation, Cause::SlotLeak];
        return if scarce { vec![Cause::Starvation, Cause::SlotLeak, Cause::AnswerLate] } else { lone };
    }
    if around.left > 0 {
        vec![Cause::SlotLeak, Cause::MissingReap, Cause::Stall]
    } else {
        vec![Cause::SlotLeak, Cause::Stall]
    }
}

/// How many sequences have, or wait for, a slot when the answer was given up.
fn live(question: &Question) -> usize {
    let at = question.violation.at_ns;
    let limit = question.known.idle_limit.map_or(0, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let is_live =
        |told: &&Told| told.first_sent() <= at && !told.has_ended() && told.last_at().saturating_add(limit) >= at;
    question.story.sequences.iter().filter(is_live).count()
}

impl Around {
    fn new(question: &Question, spot: Spot) -> Self {
        let story = question.story;
        let asked = story.asked(spot);
        let (since, until) = (asked.sent_at, question.violation.at_ns);
        let own = story.told(spot);
        let others = || story.sequences.iter().filter(|told| told.context != own.context);
        let answered = |asked: &&Asked| asked.answer.is_some() && asked.sent_at > since;
        let same_stream = story.sequences.iter().filter(|told| told.context == own.context);
        Self {
            behind: same_stream.flat_map(|told| &told.steps).filter(answered).filter(|its| its.at() <= until).count(),
            anything: others().flat_map(|told| &told.steps).filter(answered).count(),
            stuck: others().filter(|told| is_stuck(told, since, until)).count(),
            overtook: others().filter(|told| overtook(told, since, until)).count(),
            left: others().filter(|told| is_left(told, until)).count(),
        }
    }

    fn told(&self) -> String {
        let Self { behind, anything, stuck, overtook, left } = self;
        format!(
            "while it was waited for, {behind} later requests of its stream were answered, and {anything} of others; {overtook} \
             sequences that began later got their slots; {stuck} other sequences stopped in the middle; {left} were left without \
             END"
        )
    }
}

/// Whether a sequence that was answered before has had no answer for most of the wait.
fn is_stuck(told: &Told, since: Nanos, until: Nanos) -> bool {
    let last_answer = told.steps.iter().filter(|asked| asked.answer.is_some()).map(Asked::at).max();
    let waits = told.steps.iter().any(|asked| asked.answer.is_none() && asked.sent_at < since + (until - since) / 2);
    waits && last_answer.is_some_and(|at| at < since + until.saturating_sub(since) / 2)
}

fn overtook(told: &Told, since: Nanos, until: Nanos) -> bool {
    told.steps
        .first()
        .is_some_and(|first| first.step.start && first.sent_at > since && first.sum().is_some() && first.at() < until)
}

fn is_left(told: &Told, until: Nanos) -> bool {
    let is_over = told.steps.last().is_some_and(|last| last.step.is_last() && !last.step.end && last.answer.is_some());
    is_over && told.last_at() <= until
}
