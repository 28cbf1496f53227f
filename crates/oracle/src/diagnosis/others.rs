//! Wrong sums that another sequence explains.

use super::{
    Cause, Clue, Relation,
    hypothesis::{Fit, Hypothesis},
    pair,
    story::{Asked, Said, Spot, Told},
    sums::{Case, SMALL, start_may_be_dropped},
};

use std::cmp::Ordering;

use workload::{event::Nanos, number::Number};

/// How many of the matches nearest in time are looked at.
const MATCHES: usize = 4;

pub(super) fn explain(case: &Case) -> Vec<Hypothesis> {
    let mut all = of_states(case);
    // Two that exchanged their states tell more.
    if all.iter().all(|hypothesis| hypothesis.cause != Cause::SwappedStates) {
        all.extend(not_saved_by_start(case));
    }
    all.extend(constant(case));
    all.extend(answer_of_another(case));
    if !case.asked.step.start {
        all.extend(stray_steps(case));
    }
    all
}

/// A step of another sequence that went on from a state that was not its own.
pub(super) fn who_found(case: &Case, state: Number) -> Option<Spot> {
    let story = case.story;
    let found = |spot: &Spot| {
        let asked = story.asked(*spot);
        // In a model without a formula another sequence may have the same inputs, and by right the same state.
        !asked.step.start && asked.base() == Some(state) && asked.sum() != asked.right
    };
    let nearest = |spot: &Spot| story.asked(*spot).at().abs_diff(case.at);
    story.others(case.spot.sequence).filter(found).min_by_key(nearest)
}

/// Steps of other sequences after which their state was this one, nearest first.
pub(super) fn who_left(case: &Case, state: Number) -> Vec<Spot> {
    let story = case.story;
    let left = |spot: &Spot| {
        let asked = story.asked(*spot);
        let had_to = asked.right == Some(state) && !asked.has_failed();
        // What was sent later cannot have been there.
        (asked.sum() == Some(state) || had_to) && asked.sent_at <= case.at
    };
    let mut found: Vec<_> = story.others(case.spot.sequence).filter(left).collect();
    found.sort_by_key(|spot| story.asked(*spot).at().abs_diff(case.at));
    found.truncate(MATCHES);
    found
}

/// The step found a state that another sequence left.
fn of_states(case: &Case) -> Vec<Hypothesis> {
    // A state that the sequence had itself is no other's, although a model without a formula may have had the same inputs elsewhere.
    let own = case.own_steps()[..=case.spot.step].iter().any(|asked| asked.right == Some(case.base));
    if case.base.is_zero() || case.base == case.before || own {
        return Vec::new();
    }
    let mut left = who_left(case, case.base);
    // Of sequences that had the same inputs START goes on from one that is over.
    if left.iter().any(|other| is_stale(case, *other)) {
        left.retain(|other| is_stale(case, *other));
    }
    left.into_iter().flat_map(|other| of_state(case, other)).collect()
}

/// The step after START found what a sequence left that was over by then: START did not save its state, and the slot's was still there.
/// Another sequence that is under way may have had the same inputs, and be nearer in time.
fn not_saved_by_start(case: &Case) -> Option<Hypothesis> {
    let story = case.story;
    let start = story.previous(case.spot).filter(|previous| previous.step.start)?;
    if !case.known.arithmetic.formula.is_golden() || case.base.is_zero() || case.base == case.before {
        return None;
    }
    let is_over = |spot: &Spot| {
        let (asked, told) = (story.asked(*spot), story.told(*spot));
        asked.right == Some(case.base) && spot.step + 1 == told.steps.len() && asked.at() < start.at()
    };
    story.others(case.spot.sequence).find(is_over)?;
    let lost = Hypothesis::new(Cause::EffectLost, 1, case.if_taken(), [case.went_on()]);
    Some(lost.confirmed(1, Clue::StartNotKept { found: case.base }))
}

/// Whether a START went on from what another sequence of the ID left, or one that was not heard of any more.
fn is_stale(case: &Case, other: Spot) -> bool {
    let same_id = case.story.told(other).context == case.story.told(case.spot).context;
    case.asked.step.start && (same_id || is_left(case, other))
}

fn of_state(case: &Case, other: Spot) -> Vec<Hypothesis> {
    let told = case.story.told(other);
    let same_id = told.context == case.story.told(case.spot).context;
    if same_id && case.known.keyed_by_id && overlaps(case, told) {
        let clue = Clue::FromSequence { state: case.base, sequence: told.id() };
        return vec![Hypothesis::new(Cause::Overlap, 1, Fit::Yes, [clue])];
    }
    if is_stale(case, other) { stale(case, other) } else { pair::explain(case, other) }
}

/// Whether the two were under way at once.
fn overlaps(case: &Case, theirs: &Told) -> bool {
    let mine = case.story.told(case.spot);
    let until = |one: &Told| if one.is_open() { Nanos::MAX } else { one.last_at() };
    mine.first_sent() <= until(theirs) && theirs.first_sent() <= until(mine)
}

/// Whether the sequence was not heard of any more after the step, up to this case.
fn is_left(case: &Case, other: Spot) -> bool {
    let steps = &case.story.told(other).steps;
    steps[other.step + 1..].iter().all(|later| later.sum().is_none() || later.at() > case.at)
}

/// END of another sequence of the ID, which was live too, took the state away.
pub(super) fn ended_by_another(case: &Case) -> Option<Hypothesis> {
    let mine = case.story.told(case.spot);
    let (first, here) = (mine.steps.first()?, case.asked);
    // The order of a stream tells where times are equal, or where there is none.
    let by_time = |end: &Asked, at: Nanos| end.answer.as_ref().map(|_| end.at().cmp(&at)).filter(|order| order.is_ne());
    let may_be_between = |end: &Asked| {
        by_time(end, first.at()).map_or_else(|| !first.is_behind(end), Ordering::is_gt)
            && by_time(end, case.at).map_or_else(|| !end.is_behind(here), Ordering::is_lt)
    };
    let ends = |told: &Told| told.steps.iter().any(|asked| asked.step.end && may_be_between(asked));
    let others = case.story.besides(case.spot.sequence).map(|(_, told)| told);
    let other = others.filter(|told| told.context == mine.context && ends(told)).find(|told| overlaps(case, told))?;
    let clue = Clue::EndOfAnother { sequence: other.id() };
    Some(Hypothesis::new(Cause::Overlap, 1, Fit::Yes, [clue]))
}

/// START went on from a sum.
fn stale(case: &Case, other: Spot) -> Vec<Hypothesis> {
    let story = case.story;
    let told = story.told(other);
    let is_predecessor = story.predecessor(case.spot.sequence) == Some(other.sequence);
    let tried = if is_predecessor { 1 } else { story.nearer(case.spot.sequence, case.at, story.asked(other).at()) };
    let same_id = told.context == story.told(case.spot).context;
    let relation = match (is_predecessor, same_id) {
        (true, _) => Relation::Predecessor,
        (false, true) => Relation::SameId,
        (false, false) => Relation::OtherId,
    };
    let step = story.asked(other).step.request.step + 1;
    let (sequence, id) = (told.id(), told.correlation_id);
    let clues = [Clue::StaleState { state: case.base, step, sequence, id, relation }, case.went_on()];
    let hypothesis = |cause, tried| Hypothesis::new(cause, tried, case.if_taken(), clues.clone());
    let mut all = vec![hypothesis(Cause::StartNotTold, 3 * tried)];
    if same_id {
        all.push(hypothesis(Cause::StaleStateOfId, tried));
    }
    if !same_id || !case.known.keyed_by_id {
        all.push(hypothesis(Cause::StaleStateOfSlot, if same_id { 2 * tried } else { tried }));
    }
    all
}

/// The same state, which no sequence left, was found by several steps.
fn constant(case: &Case) -> Option<Hypothesis> {
    // A small one is a small mistake that each answer has.
    if case.base.magnitude() <= SMALL.into() || case.base == case.before {
        return None;
    }
    let story = case.story;
    let is_golden = case.known.arithmetic.formula.is_golden();
    // A model without a formula may answer the same input with the same mistake.
    let tells = |asked: &Asked| !is_golden || asked.step.value != case.asked.step.value;
    let found = |asked: &Asked| asked.base() == Some(case.base) && tells(asked);
    let here = case.spot.step;
    let own = case.own_steps().iter().enumerate().filter(|(step, asked)| *step != here && found(asked)).count();
    let theirs = story.others(case.spot.sequence).filter(|spot| found(story.asked(*spot))).count();
    let times = own + theirs;
    if times == 0 || !who_left(case, case.base).is_empty() {
        return None;
    }
    let why = match () {
        () if case.asked.step.start => Cause::StartNotTold,
        () if start_may_be_dropped(case) => Cause::StartDropped,
        () => Cause::EffectLost,
    };
    Some(Hypothesis::new(why, 2, Fit::NotKnown, [Clue::SameFound { state: case.base, times }]))
}

/// The answer is what had to be answered to another request.
fn answer_of_another(case: &Case) -> Vec<Hypothesis> {
    let story = case.story;
    let left = who_left(case, case.sum).into_iter();
    let all = left.map(|other| {
        let asked = story.asked(other);
        let tried = story.nearer(case.spot.sequence, case.at, asked.at());
        let clue = Clue::BelongsTo { answer: case.sum, request: asked.step.request, stream: asked.lane.0 };
        let exchanged = asked.sum() == Some(case.right());
        let hypothesis =
            Hypothesis::new(Cause::ResponseOfAnother, tried, case.if_only_answered(), [clue, case.went_on()]);
        hypothesis.confirmed(exchanged.into(), Clue::Exchanged)
    });
    all.collect()
}

/// Steps of another sequence were added to this one's state before the step.
fn stray_steps(case: &Case) -> Vec<Hypothesis> {
    let Some(previous) = case.story.previous(case.spot) else { return Vec::new() };
    let (from, until) = (previous.sent_at, case.at);
    // What was not answered may be executed at any time.
    let under_way = |asked: &Asked| asked.sent_at <= until && (asked.at() >= from || asked.answer.is_none());
    let mut tried = 0;
    let mut found = Vec::new();
    for (sequence, told) in case.story.besides(case.spot.sequence) {
        if told.first_sent() > until || (told.last_at() < from && !told.is_open()) {
            continue;
        }
        for first in (0..told.steps.len()).filter(|step| under_way(&told.steps[*step])) {
            let run = run_that_adds_up_to(case.off_by(), &told.steps[first..], under_way, &mut tried);
            found.extend(run.map(|length| (Spot { sequence, step: first }, first + length - 1)));
        }
    }
    found.into_iter().take(MATCHES).flat_map(|(first, last)| stray(case, first, last, tried)).collect()
}

/// How many of the first steps add up to a number, of those that were under way; counts what was tried.
fn run_that_adds_up_to(
    number: Number,
    steps: &[Asked],
    under_way: impl Fn(&Asked) -> bool,
    tried: &mut usize,
) -> Option<usize> {
    let mut added = number.zero();
    let run = steps.iter().take_while(|asked| under_way(asked)).position(|asked| {
        added = added.wrapping_add(asked.step.value);
        *tried += 1;
        added == number
    });
    run.map(|last| last + 1)
}

fn stray(case: &Case, first: Spot, last: usize, tried: usize) -> Vec<Hypothesis> {
    let story = case.story;
    let told = story.told(first);
    let steps = &told.steps[first.step..=last];
    let requests = steps.iter().map(|asked| asked.step.request).collect();
    let clues = [Clue::HasValuesOf { requests }, case.went_on()];
    let new = |cause, tried| Hypothesis::new(cause, tried, case.if_taken(), clues.clone());
    if told.context == story.told(case.spot).context {
        let why = if case.known.keyed_by_id && overlaps(case, told) { Cause::Overlap } else { Cause::Straggler };
        return vec![new(why, tried)];
    }
    let answered_right =
        steps.iter().all(|asked| !matches!(asked.answer, Some((_, Said::Sum(sum))) if Some(sum) != asked.right));
    if !answered_right {
        return vec![new(Cause::StrayStep, 2 * tried)];
    }
    // What the client gave up the server may still execute, and then in whatever slot.
    let is_given_up = steps.iter().any(|asked| asked.given_up.is_some());
    let causes = [Cause::ReadyTold, Cause::StrayStep];
    let [first, second] = if is_given_up { [causes[1], causes[0]] } else { causes };
    vec![new(first, tried), new(second, 2 * tried)]
}
