//! Answers that did not come.

use std::time::Duration;

use super::{
    Cause, Clue, Explanation, Question,
    hypothesis::{Hypothesis, in_order},
    story::{Asked, Spot, Story, Told},
};
use crate::{ms, nanos};
use workload::event::Nanos;

/// What was sent so much later was certainly sent later: in parts of the wait.
const LATER: Nanos = 8;

/// How long before a call others may have been given up that took the rest with them.
const JUST_BEFORE: Duration = Duration::from_secs(1);

/// How many steps it takes to see that answers take longer and longer.
const SLOW_STEPS: usize = 40;
/// The share of the wait that they take in the end.
const SLOW_SHARE: Nanos = 8;

/// What else was answered, or not, while an answer was waited for; most of it as in [`Clue::Meanwhile`].
struct Around {
    behind: usize,
    others: usize,
    /// The number of answers to others before it was sent.
    before: usize,
    stuck: usize,
    begun_in_vain: usize,
    overtook: usize,
    left: usize,
    live: usize,
}

/// What may explain that an answer did not come to a step of which nothing else is known.
pub(super) fn alone() -> Vec<Hypothesis> {
    in_order(&[Cause::Stall, Cause::ServerHang, Cause::ResponseLate, Cause::ResponseDropped], [Clue::NothingBeside])
}

/// What may explain that nobody was answered any more: the same as for the answer that was waited for longest.
pub(super) fn by_anybody(question: &Question) -> Vec<Hypothesis> {
    let until = question.violation.at_ns;
    let waited = |spot: &Spot| question.story.asked(*spot).waited(0, until);
    let longest = question.story.spots().filter(|spot| waited(spot) > 0).max_by_key(waited);
    longest.map_or_else(|| in_order(&[Cause::ServerHang], [Clue::Seen]), |spot| explain(question, spot))
}

/// What may explain that an answer did not come.
pub(super) fn explain(question: &Question, spot: Spot) -> Vec<Hypothesis> {
    let asked = question.story.asked(spot);
    if let Some((_, entry)) = question.story.strays.iter().find(|(request, _)| *request == asked.step.request) {
        return in_order(&[Cause::ResponseElsewhere], [Clue::CameTo { context: entry.context }]);
    }
    if asked.answer.is_some() && asked.at() <= question.violation.at_ns {
        return in_order(&[Cause::ResponseDropped], [Clue::OfItsAnswers]);
    }
    let around = Around::new(question, spot);
    // Later answers of its stream show more than slow ones.
    if let Some(slow) = slowing_down(question, spot).filter(|_| around.behind == 0) {
        return in_order(&[Cause::SlowingDown], [slow]);
    }
    let has_begun = question.story.told(spot).steps[..=spot.step].iter().any(|step| step.answer.is_some());
    let causes: &[Cause] = if around.behind > 0 {
        &[Cause::ResponseDropped]
    } else if only_calls_wait(question, spot) {
        &[Cause::CallsDead, Cause::Stall, Cause::ResponseLate]
    } else if around.others == 0 && asked.step.start && around.only_starts_wait() {
        &[Cause::SlotLeak, Cause::MissingReap, Cause::Starvation, Cause::ServerHang]
    } else if around.others == 0 {
        &[Cause::ServerHang, Cause::Stall, Cause::ResponseLate, Cause::ResponseDropped]
    } else if has_begun || !asked.step.start {
        mid_sequence(&around, asked.by.is_stream())
    } else {
        no_slot(question, &around)
    };
    let mut all = in_order(causes, [around.clue()]);
    for dead in all.iter_mut().filter(|hypothesis| hypothesis.cause == Cause::StreamDead) {
        dead.clues.push(Clue::WaitLonger);
    }
    all
}

/// Takes back that a slot leaked, where all slots were free after the run: what leaks stays lost.
pub(super) fn with_all_slots_free(explanations: &mut Vec<Explanation>, slots: u32) {
    let Some(Explanation { cause: Cause::SlotLeak, clues, .. }) = explanations.first() else { return };
    // With slots to spare, what was left without END did not keep it waiting.
    let had_room = |clue: &Clue| match clue {
        Clue::Meanwhile { begun_in_vain: 0, left, live, .. } => left + live < slots as usize,
        _ => false,
    };
    let causes: &[Cause] = if clues.iter().any(had_room) {
        &[Cause::ResponseLate, Cause::Stall]
    } else {
        &[Cause::MissingReap, Cause::ResponseLate, Cause::Stall]
    };
    let clues: Vec<_> = clues.iter().cloned().chain([Clue::AllSlotsFree { slots }]).collect();
    *explanations = causes.iter().map(|cause| Explanation::new(*cause, clues.clone())).collect();
}

/// Whether several calls wait, or one that follows calls that their clients gave up, none that was sent since was answered, and streams were
/// answered meanwhile.
fn only_calls_wait(question: &Question, spot: Spot) -> bool {
    let (sent_at, until) = (question.story.asked(spot).sent_at, question.violation.at_ns);
    let steps = || question.story.sequences.iter().flat_map(|told| &told.steps);
    let is_call = |asked: &&Asked| !asked.by.is_stream();
    let waiting = |asked: &&Asked| asked.waited(sent_at, until) > until.saturating_sub(sent_at) / 2;
    let just_before = sent_at.saturating_sub(nanos(JUST_BEFORE))..=sent_at;
    let given_up = steps().filter(is_call).filter_map(|asked| asked.given_up).filter(|at| just_before.contains(at));
    let since = match steps().filter(waiting).count() {
        0 => None,
        1 => given_up.max(),
        _ => Some(sent_at),
    };
    let Some(since) = since else { return false };
    let answered = |asked: &&Asked| asked.answer.is_some() && asked.sent_at > since && asked.at() <= until;
    steps().filter(waiting).all(|asked| is_call(&asked))
        && steps().filter(answered).all(|asked| asked.by.is_stream())
        && steps().filter(answered).count() > 0
}

fn mid_sequence(around: &Around, by_stream: bool) -> &'static [Cause] {
    if around.stuck + around.begun_in_vain > 0 {
        &[Cause::Stall, Cause::ResponseLate]
    } else if !by_stream {
        &[Cause::ResponseLate, Cause::Stall]
    } else {
        &[Cause::ResponseLate, Cause::StreamDead, Cause::Stall, Cause::ResponseDropped]
    }
}

/// Where steps of sequences that had their slots took longer and longer, and in the end a good part of the wait.
fn slowing_down(question: &Question, spot: Spot) -> Option<Clue> {
    let since = question.story.asked(spot).sent_at;
    let wait = question.violation.at_ns.saturating_sub(since);
    let steps = question.story.sequences.iter().flat_map(|told| &told.steps);
    let answered = steps.filter(|asked| asked.answer.is_some() && !asked.step.start);
    let mut took: Vec<_> = answered.map(|asked| (asked.sent_at, asked.at().saturating_sub(asked.sent_at))).collect();
    if took.len() < SLOW_STEPS {
        return None;
    }
    took.sort_unstable();
    let median = |steps: &[(Nanos, Nanos)]| {
        let mut times: Vec<_> = steps.iter().map(|(_, took)| *took).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let quarter = took.len() / 4;
    let (early, late) = (median(&took[..quarter]), median(&took[took.len() - quarter..]));
    let clue = Clue::SlowingDown { early_ms: ms(early), late_ms: ms(late), waited_ms: ms(wait) };
    let is_slow = late >= early.saturating_add(early / 2) && late >= wait / SLOW_SHARE;
    is_slow.then_some(clue)
}

fn no_slot(question: &Question, around: &Around) -> &'static [Cause] {
    if around.stuck > 0 {
        return &[Cause::Stall, Cause::Starvation, Cause::SlotLeak];
    }
    if around.overtook > 0 {
        // Where there was room for it, it has a slot, and not its answer.
        let scarce = question.known.slots.is_none_or(|slots| around.live >= slots as usize);
        // An instance that stands still keeps no more than its own slots.
        let too_many = question.known.slots.is_some_and(|slots| around.begun_in_vain >= slots as usize);
        return match (scarce || too_many, around.begun_in_vain > 0) {
            (true, _) => &[Cause::Starvation, Cause::Stall, Cause::ResponseLate],
            (false, true) => &[Cause::Stall, Cause::Starvation, Cause::ResponseLate],
            (false, false) => &[Cause::ResponseLate, Cause::Stall, Cause::Starvation],
        };
    }
    if around.left > 0 {
        &[Cause::SlotLeak, Cause::MissingReap, Cause::Stall]
    } else {
        &[Cause::SlotLeak, Cause::Stall]
    }
}

/// Whether a sequence had a slot, or waited for one, when the step was sent.
fn is_live(told: &Told, at: Nanos, idle_limit: Option<Duration>) -> bool {
    let limit = idle_limit.map_or(Nanos::MAX, nanos);
    let ended = told.has_ended() && told.last_at() <= at;
    told.first_sent() < at && !ended && told.last_at().saturating_add(limit) >= at
}

impl Around {
    fn new(question: &Question, spot: Spot) -> Self {
        let story = question.story;
        let asked = story.asked(spot);
        let (since, until) = (asked.sent_at, question.violation.at_ns);
        let own = story.told(spot);
        let others = || story.sequences.iter().filter(|told| told.context != own.context);
        let answered = |asked: &&Asked| asked.answer.is_some() && asked.sent_at > since;
        let same_context = story.sequences.iter().filter(|told| told.context == own.context);
        let behind =
            same_context.flat_map(|told| &told.steps).filter(|its| its.answer.is_some() && its.is_behind(asked));
        Self {
            behind: behind.filter(|its| its.at() <= until).count(),
            // How much is known of what came later differs from one look at it to the next.
            others: others().flat_map(|told| &told.steps).filter(answered).filter(|its| its.at() <= until).count(),
            before: others().flat_map(|told| &told.steps).filter(|its| its.sum().is_some() && its.at() < since).count(),
            stuck: others().filter(|told| is_stuck(told, since, until)).count(),
            begun_in_vain: others().filter(|told| has_begun_in_vain(told, since, until)).count(),
            overtook: (0..story.sequences.len()).filter(|index| overtook(story, own, *index, since, until)).count(),
            left: others().filter(|told| is_left(told, until)).count(),
            live: others().filter(|told| is_live(told, since, question.known.idle_limit)).count(),
        }
    }

    /// Whether the server was there, and all that it does not answer any more are sequences that begin: who has a slot is
    /// served, and there is no slot left.
    fn only_starts_wait(&self) -> bool {
        self.before > 0 && self.begun_in_vain > 0 && self.stuck == 0
    }

    fn clue(&self) -> Clue {
        let Self { behind, others, before: _, stuck, begun_in_vain, overtook, left, live } = *self;
        Clue::Meanwhile { behind, others, overtook, stuck, begun_in_vain, left, live }
    }
}

/// Whether a sequence that was answered before has had no answer for most of the wait.
fn is_stuck(told: &Told, since: Nanos, until: Nanos) -> bool {
    let last_answer = told.steps.iter().filter(|asked| asked.answer.is_some()).map(Asked::at).max();
    waited(told, since, until) && last_answer.is_some_and(|at| at < since + until.saturating_sub(since) / 2)
}

/// Whether a sequence was begun during the first half of the wait, and not answered.
fn has_begun_in_vain(told: &Told, since: Nanos, until: Nanos) -> bool {
    told.steps.iter().all(|asked| asked.answer.is_none()) && waited(told, since, until)
}

/// Whether an answer of the sequence was waited for, for most of that time, and did not come.
fn waited(told: &Told, since: Nanos, until: Nanos) -> bool {
    told.steps.iter().any(|asked| asked.waited(since, until) > until.saturating_sub(since) / 2)
}

/// Whether a sequence was begun clearly later, and got a slot. Where the ID's sequence before has no END it may have one still.
fn overtook(story: &Story, own: &Told, index: usize, since: Nanos, until: Nanos) -> bool {
    let told = &story.sequences[index];
    let later = since + until.saturating_sub(since) / LATER;
    let began = |first: &&Asked| first.step.start && first.sent_at > later;
    let got_a_slot = told.steps.first().filter(began).is_some_and(|first| first.sum().is_some() && first.at() < until);
    let may_have_one = || story.predecessor(index).is_some_and(|before| !story.sequences[before].has_ended());
    told.context != own.context && got_a_slot && !may_have_one()
}

fn is_left(told: &Told, until: Nanos) -> bool {
    let is_over = told.steps.last().is_some_and(|last| last.step.is_last() && !last.step.end && last.answer.is_some());
    is_over && told.last_at() <= until
}
