//! What a model without a formula may have executed, where an answer is like nothing known.
//!
//! A golden file has the outputs of right states, and of few wrong ones. So the tool supposes what befell a step, and asks the idle server
//! what it would have answered then.

use std::collections::{HashMap, HashSet};

use super::{
    Explanation, ModelFacts, explain_in,
    story::{Asked, Spot, Story},
};
use crate::{Violation, history::Entry};
use workload::{number::Number, sequence::RequestId};

/// The most suppositions about one answer.
const SUPPOSED_MAX: usize = 480;
/// How many of a sequence's own steps are supposed to be missing, or executed twice.
const OWN_MAX: usize = 8;
/// How many of another's steps, those answered nearest in time, are supposed to have left the state.
const OF_ANOTHER: usize = 6;

/// Answers that were found to be those of states that no track has, by their requests.
pub type Readings = HashMap<RequestId, Number>;

/// The inputs, one after the other, that the server may have executed when it answered a request, the likeliest first. The last is that of
/// the request, except where the request was not executed.
pub fn suppositions(request: RequestId, window: &[Entry], known: &ModelFacts) -> Vec<Vec<Number>> {
    let story = Story::new(window, known.arithmetic, &Readings::new());
    let Some(spot) = story.find(request) else { return Vec::new() };
    let mut seen = HashSet::new();
    let mut all = own(&story, spot);
    all.extend(of_others(&story, spot));
    all.retain(|inputs| seen.insert(inputs.clone()));
    all.truncate(SUPPOSED_MAX);
    all
}

/// The inputs of a sequence up to a request, from START on, as a correct server executes them.
pub fn right_inputs(request: RequestId, window: &[Entry], known: &ModelFacts) -> Option<Vec<Number>> {
    let story = Story::new(window, known.arithmetic, &Readings::new());
    let spot = story.find(request)?;
    inputs(&story.told(spot).steps[..=spot.step])
}

/// The step after a request in its sequence, and the inputs that the server may have executed when it answered that, where it executed
/// these when it answered the request: it went on from them, or the request was executed elsewhere.
pub fn suppositions_after(
    request: RequestId,
    executed: &[Number],
    window: &[Entry],
    known: &ModelFacts,
) -> Option<(RequestId, Vec<Vec<Number>>)> {
    let story = Story::new(window, known.arithmetic, &Readings::new());
    let spot = story.find(request)?;
    let next = story.next(spot).filter(|next| is_executed(next))?;
    let before = inputs(&story.told(spot).steps[..spot.step]);
    let bases = [Some(executed.to_vec()), before].into_iter().flatten();
    Some((next.step.request, bases.map(|base| [base.as_slice(), &[next.step.value]].concat()).collect()))
}

/// Of a request that went on from another sequence's state: the step of that sequence that may have gone on from this one's in exchange,
/// and its inputs then. It may have come so much later that nothing near it in time tells of this.
pub fn suppositions_of_exchange(
    request: RequestId,
    executed: &[Number],
    window: &[Entry],
    known: &ModelFacts,
) -> Vec<(RequestId, Vec<Number>)> {
    let story = Story::new(window, known.arithmetic, &Readings::new());
    let Some(spot) = story.find(request) else { return Vec::new() };
    // A state that was reset, or its own, is nobody else's.
    let theirs = executed.split_last().map(|(_, theirs)| theirs).filter(|theirs| !theirs.is_empty());
    let (Some(mine), Some(theirs)) = (inputs(&story.told(spot).steps[..spot.step]), theirs) else { return Vec::new() };
    let exchanged = story.besides(spot.sequence).filter_map(|(_, told)| {
        let their = told.steps.get(theirs.len()).filter(|asked| is_executed(asked) && asked.sum() != asked.right)?;
        let is_left_by_it = inputs(&told.steps[..theirs.len()]).is_some_and(|inputs| inputs == theirs);
        is_left_by_it.then(|| (their.step.request, [mine.as_slice(), &[their.step.value]].concat()))
    });
    exchanged.take(OF_ANOTHER).collect()
}

/// What may be the cause of a violation where some answers were found to be those of states.
pub fn explain_as(
    violation: &Violation,
    window: &[Entry],
    known: &ModelFacts,
    readings: &Readings,
) -> Vec<Explanation> {
    explain_in(&Story::new(window, known.arithmetic, readings), violation, known)
}

fn is_executed(asked: &Asked) -> bool {
    asked.step.flaw().is_none() && !asked.has_failed()
}

/// The inputs of a sequence's steps before one, from START on; none where the window does not have them.
fn inputs(steps: &[Asked]) -> Option<Vec<Number>> {
    let begins = steps.first().is_none_or(|first| first.step.start);
    begins.then(|| steps.iter().filter(|asked| is_executed(asked)).map(|asked| asked.step.value).collect())
}

/// What may have befallen the sequence itself.
fn own(story: &Story, spot: Spot) -> Vec<Vec<Number>> {
    let steps = &story.told(spot).steps;
    let value = steps[spot.step].step.value;
    // No state, or one that START did not meet.
    let mut all = vec![vec![value]];
    let Some(before) = inputs(&steps[..spot.step]) else { return all };
    let with = |base: &[Number], rest: &[Number]| [base, rest].concat();
    if !before.is_empty() {
        all.push(before.clone());
    }
    all.push(with(&before, &[value, value]));
    let near = before.len().saturating_sub(OWN_MAX);
    for place in (near..before.len()).rev() {
        let without: Vec<_> =
            before.iter().enumerate().filter(|(its, _)| *its != place).map(|(_, input)| *input).collect();
        all.push(with(&without, &[value]));
        // The state of an earlier step, as if those behind it had not been.
        all.push(with(&before[..place], &[value]));
        let mut twice = before.clone();
        twice.insert(place, before[place]);
        all.push(with(&twice, &[value]));
    }
    let later = steps[spot.step + 1..].iter().filter(|later| is_executed(later)).take(OWN_MAX);
    let mut there = before.clone();
    for later in later {
        all.push(with(&before, &[later.step.value, value]));
        there.push(later.step.value);
        all.push(with(&there, &[value]));
    }
    all
}

/// The state of another sequence, or a step of one.
fn of_others(story: &Story, spot: Spot) -> Vec<Vec<Number>> {
    let asked = story.asked(spot);
    let (value, at) = (asked.step.value, asked.at());
    let mine = inputs(&story.told(spot).steps[..spot.step]).filter(|_| !asked.step.start);
    let mut found = Vec::new();
    for (sequence, told) in story.besides(spot.sequence) {
        // START is likelier to meet what the ID's last sequence left than what is nearer in time.
        let is_predecessor = asked.step.start && story.predecessor(spot.sequence) == Some(sequence);
        // Of steps that are sent one behind the other, only the times of the answers tell which came before this one.
        let sent = |step: &usize| told.steps[*step].sent_at <= at && is_executed(&told.steps[*step]);
        let mut near: Vec<_> = (0..told.steps.len()).filter(sent).collect();
        near.sort_by_key(|step| told.steps[*step].at().abs_diff(at));
        // However long ago a sequence that is under way was answered last, its state is there: after that step, or the one before, where
        // that step was in the same batch.
        let latest = near.iter().copied().filter(|step| told.steps[*step].at() <= at).max();
        let is_live = told.last_at() >= at || told.is_open();
        // START may meet what the last step of a sequence left in a slot.
        let is_left = |step| asked.step.start && latest == Some(step);
        let is_latest =
            |step| is_left(step) || is_live && latest.is_some_and(|latest| step == latest || step + 1 == latest);
        for (place, step) in near.into_iter().enumerate() {
            let is_near = place < OF_ANOTHER;
            let comes_first = is_latest(step) || is_predecessor && is_near;
            // A stream whose responses wait for an earlier one tells nothing of when its steps were executed.
            let is_held = told.steps[step].at() > at;
            if !(is_near || comes_first || is_held) {
                continue;
            }
            let Some(theirs) = inputs(&told.steps[..=step]) else { continue };
            let distance = told.steps[step].at().abs_diff(at);
            let (of_state, of_stray) = if comes_first { (0, 1) } else { (2, 2) };
            found.push(((of_state, distance), [theirs.as_slice(), &[value]].concat()));
            if let Some(mine) = mine.as_ref().filter(|_| is_near) {
                let stray = told.steps[step].step.value;
                found.push(((of_stray, distance), [mine.as_slice(), &[stray, value]].concat()));
            }
        }
    }
    found.sort_by_key(|(likely, _)| *likely);
    found.into_iter().map(|(_, inputs)| inputs).collect()
}
