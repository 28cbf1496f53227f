//! After the run: what the model would have answered on another state, so that an answer like nothing known gets a name.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    player::{Last, Player},
    shown_alone,
    site::Site,
};
use oracle::{
    Evidence, Violation,
    diagnosis::{
        Cause, Clue, Explanation, ModelFacts, Readings, explain_as, right_inputs, suppositions, suppositions_after,
        suppositions_of_exchange,
    },
    golden::{Answered, Expectation, Gathered, Golden, Relations},
    history::{Entry, Scene},
};
use workload::{
    event::EventKind,
    inputs::{Coded, InputSet},
    number::Number,
    sequence::RequestId,
};

/// The most violations that are looked into; by then everything is said.
const LOOKED_INTO: usize = 20;
/// How long that may take: a busy server that executes each step in 20 ms is asked some hundred states in it.
const LONGEST: Duration = Duration::from_secs(45);
/// How long the idle server is then looked at by itself: some ten sequences of a few steps.
const BY_ITSELF: Duration = Duration::from_secs(15);
/// So many steps of tracks show whether the idle server can be believed: a fault that always happens shows in them.
const STEPS_BEFORE: usize = 6;

/// Asks the idle server what it would have answered, and says of violations what that explains.
pub(crate) async fn name(site: Site<'_>, scene: &Scene, violations: &mut [Violation]) {
    let Some(Expectation { golden, relations }) = site.preflight.golden.clone() else { return };
    if !violations.iter().any(is_unlike) {
        return;
    }
    let Ok(player) = Player::new(site, Arc::clone(&golden)) else { return };
    let known = ModelFacts::of(&site.preflight.model);
    let (width, until) = (player.width(), Instant::now() + LONGEST);
    let mut asking = Asking { player, golden: &golden, width, steps: 0, answers: HashMap::new(), until };
    asking.find_out_what_to_believe().await;
    for violation in violations.iter_mut().filter(|violation| is_unlike(violation)).take(LOOKED_INTO) {
        asking.decide(violation, &relations, scene, &known).await;
    }
    let is_certain = |violation: &&Violation| is_unlike(violation) && !is_undecided(violation);
    let unlike: Vec<_> = violations.iter().filter(is_certain).filter_map(Violation::request).collect();
    let (mut readings, mut by_next) = (Readings::new(), HashMap::new());
    for request in unlike.into_iter().take(LOOKED_INTO) {
        let Some((seen, last)) = answer_to(request, scene, &golden) else { continue };
        if is_next_right(request, scene, &known) {
            by_next.insert(request, vec![Explanation::new(Cause::WrongArithmetic, [Clue::NextRight])]);
            continue;
        }
        let supposed = suppositions(request, &scene.entries, &known);
        let Some(found) = asking.first_that_is(&supposed, last, &seen).await else {
            by_next.insert(request, asking.by_next(request, scene, &known).await);
            continue;
        };
        readings.insert(request, sum(&found));
        for (other, inputs) in suppositions_of_exchange(request, &found, &scene.entries, &known) {
            if let Some((seen, last)) = answer_to(other, scene, &golden)
                && let Some(inputs) = asking.first_that_is(&[inputs], last, &seen).await
            {
                readings.insert(other, sum(&inputs));
            }
        }
        // What the sequence went on from tells causes apart.
        if let Some((next, supposed)) = suppositions_after(request, &found, &scene.entries, &known)
            && let Some((seen, last)) = answer_to(next, scene, &golden)
            && let Some(inputs) = asking.first_that_is(&supposed, last, &seen).await
        {
            readings.insert(next, sum(&inputs));
        }
    }
    settle(violations, scene, &known, &golden, &readings);
    let has_no_name = |violation: &&mut Violation| {
        is_unlike(violation) && !is_undecided(violation) && violation.explanations.is_empty()
    };
    if !violations.iter_mut().any(|violation| has_no_name(&violation)) || asking.player.is_iterative() {
        return;
    }
    let shown = tokio::time::timeout(BY_ITSELF, shown_alone::causes(site, &golden)).await.unwrap_or_default();
    for violation in violations.iter_mut().filter(has_no_name) {
        let by_next = violation.request().and_then(|request| by_next.get(&request));
        violation.explanations = if shown.is_empty() { by_next.cloned().unwrap_or_default() } else { shown.clone() };
    }
}

fn is_unlike(violation: &Violation) -> bool {
    matches!(&violation.evidence, Evidence::Output { seen: None, .. })
}

/// Whether it is not known which of two answers was wrong.
fn is_undecided(violation: &Violation) -> bool {
    matches!(&violation.evidence, Evidence::Output { like: Some(like), .. } if !like.is_confirmed)
}

/// Names what was found.
fn settle(violations: &mut [Violation], scene: &Scene, known: &ModelFacts, golden: &Golden, readings: &Readings) {
    for violation in violations.iter_mut().filter(|violation| is_unlike(violation)) {
        let Some(found) = violation.request().and_then(|request| readings.get(&request)) else { continue };
        violation.explanations = explain_as(violation, &scene.entries, known, readings);
        if let Evidence::Output { seen, .. } = &mut violation.evidence {
            *seen = Some(golden.named(*found));
        }
    }
}

fn sum(inputs: &[Number]) -> Number {
    let zero = InputSet::DATATYPE.number(0);
    inputs.iter().fold(zero, |sum, input| sum.wrapping_add(*input))
}

/// What a request was answered with, where that is like nothing known, and whether it had END.
fn answer_to(request: RequestId, scene: &Scene, golden: &Golden) -> Option<(Gathered, Last)> {
    let answer = scene.entries.iter().find_map(|entry| match &entry.what {
        EventKind::Received(received) if received.request() == Some(request) => {
            golden.gathered(received.result.as_ref().ok()?)
        }
        _ => None,
    })?;
    let has_end = scene.entries.iter().any(|entry| match &entry.what {
        EventKind::Sent(step) => step.request == request && step.end,
        _ => false,
    });
    Some((answer, if has_end { Last::WithEnd } else { Last::WithoutEnd }))
}

/// Whether the response to the next step is right by what was measured, so that the response to this one alone was wrong.
fn is_next_right(request: RequestId, scene: &Scene, known: &ModelFacts) -> bool {
    let next = || {
        let right = right_inputs(request, &scene.entries, known)?;
        suppositions_after(request, &right, &scene.entries, known)
    };
    let Some((next, supposed)) = next() else { return false };
    // The history has a response to a known state as that state.
    let is_right = |entry: &Entry| match &entry.what {
        EventKind::Answered(request, state, _) => *request == next && *state == sum(&supposed[0]),
        _ => false,
    };
    scene.entries.iter().any(is_right)
}

struct Asking<'a> {
    player: Player<'a>,
    golden: &'a Golden,
    /// How many sequences are sent at a time.
    width: usize,
    /// The most steps of sequences that are believed.
    steps: usize,
    /// What these inputs were answered with, the last of them.
    answers: HashMap<(Vec<Number>, Last), Option<Gathered>>,
    until: Instant,
}

impl Asking<'_> {
    /// Whether there is no time left.
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// What the response to the next step says of one that is like nothing known, where the server is believed.
    async fn by_next(&mut self, request: RequestId, scene: &Scene, known: &ModelFacts) -> Vec<Explanation> {
        let named = |causes: &[Cause], clue: Clue| {
            causes.iter().map(|cause| Explanation::new(*cause, [clue.clone()])).collect::<Vec<_>>()
        };
        let right = right_inputs(request, &scene.entries, known).filter(|_| self.steps == usize::MAX);
        let after = right.and_then(|right| {
            let (next, supposed) = suppositions_after(request, &right, &scene.entries, known)?;
            Some((right.len() == 1, answer_to(next, scene, self.golden)?, supposed))
        });
        let Some((is_start, (seen, last), supposed)) = after else { return Vec::new() };
        match self.first_that_is(&supposed, last, &seen).await {
            Some(found) if Some(&found) == supposed.first() => named(&[Cause::WrongArithmetic], Clue::NextRight),
            // Nothing but a state that was there can be wrong at START.
            None if !self.is_over() && is_start => {
                named(&[Cause::StaleStateOfSlot, Cause::StartNotTold, Cause::UnknownState], Clue::NextUnlike)
            }
            None if !self.is_over() => named(&[Cause::UnknownState], Clue::NextUnlike),
            _ => Vec::new(),
        }
    }

    /// Where two answers to the same steps differ, the idle server decides which of them was wrong; where it gives neither, nobody knows.
    async fn decide(&mut self, violation: &mut Violation, relations: &Relations, scene: &Scene, known: &ModelFacts) {
        let Some(request) = violation.request() else { return };
        let Evidence::Output { expected, like: Some(like), .. } = &violation.evidence else { return };
        let Some((seen, last)) = answer_to(request, scene, self.golden) else { return };
        let Some(inputs) = right_inputs(request, &scene.entries, known) else { return };
        let first = expected.first().and_then(|state| relations.first(state.sum));
        let other = like.place.clone();
        let is_confirmed = match first {
            Some(first) => self.first_that_is(std::slice::from_ref(&inputs), last, &first).await.is_some(),
            None => false,
        };
        let is_wrong = !is_confirmed && self.first_that_is(&[inputs], last, &seen).await.is_some();
        let at_ns = violation.at_ns;
        if let Evidence::Output { like: Some(like), misfit, .. } = &mut violation.evidence {
            like.is_confirmed = is_confirmed || is_wrong;
            if is_wrong && let Some(place) = violation.place.replace(other) {
                violation.at_ns = like.at_ns;
                **like = Answered { place, at_ns, transport: None, is_confirmed: true };
                *misfit = misfit.take().map(|misfit| Box::new(misfit.reversed()));
            }
        }
        violation.explanations = explain_as(violation, &scene.entries, known, &Readings::new());
    }

    /// Finds out how many steps of tracks the server answers right, side by side or else alone: a fault that always happens spoils what it
    /// says of other states, too.
    async fn find_out_what_to_believe(&mut self) {
        for width in [self.width, 1] {
            let tracks = self.golden.inputs.tracks().iter().enumerate().take(width);
            let first = |(track, of): (usize, &Coded)| {
                let steps = 0..of.codes.len().min(STEPS_BEFORE);
                steps.map(|step| self.golden.inputs.number(track, step)).collect::<Vec<_>>()
            };
            let tracks: Vec<_> = tracks.map(first).collect();
            let Some(played) = self.played(&tracks, Last::WithoutEnd).await else { return };
            let right = |(inputs, played): (&Vec<Number>, &Vec<Gathered>)| {
                (1..=inputs.len())
                    .find(|steps| !self.right_before(&inputs[..*steps], Last::WithoutEnd, played))
                    .map(|wrong| wrong - 1)
            };
            (self.width, self.steps) =
                (width, tracks.iter().zip(&played).filter_map(right).min().unwrap_or(usize::MAX));
            if self.steps == usize::MAX {
                return;
            }
        }
    }

    /// What the server answers to these sequences side by side; none where it does not, or not in time.
    async fn played(&mut self, sequences: &[Vec<Number>], last: Last) -> Option<Vec<Vec<Gathered>>> {
        let left = self.until.saturating_duration_since(Instant::now());
        tokio::time::timeout(left, self.player.played(sequences, last)).await.ok()?.ok()
    }

    /// The first of these inputs to which the server answers this.
    async fn first_that_is(&mut self, supposed: &[Vec<Number>], last: Last, seen: &Gathered) -> Option<Vec<Number>> {
        let believed: Vec<_> = supposed.iter().filter(|inputs| inputs.len() <= self.steps).cloned().collect();
        for some in believed.chunks(self.width) {
            let is_asked = |inputs: &&Vec<Number>| self.answers.contains_key(&((*inputs).clone(), last));
            let unasked: Vec<_> = some.iter().filter(|inputs| !is_asked(inputs)).cloned().collect();
            if !unasked.is_empty() {
                let played = self.played(&unasked, last).await?;
                for (inputs, played) in unasked.into_iter().zip(played) {
                    let answer = self.right_before(&inputs, last, &played).then(|| played.last().cloned()).flatten();
                    self.answers.insert((inputs, last), answer);
                }
            }
            let is_it = |inputs: &&Vec<Number>| {
                let steps = u32::try_from(inputs.len()).unwrap_or(u32::MAX);
                let answer = self.answers.get(&((*inputs).clone(), last)).and_then(Option::as_ref);
                answer.is_some_and(|answer| self.golden.are_the_same(answer, seen, steps))
            };
            if let Some(found) = some.iter().find(is_it) {
                return Some(found.clone());
            }
        }
        None
    }

    /// Whether the server answered right where that is known: what it says of the rest can be believed then.
    fn right_before(&self, inputs: &[Number], last: Last, played: &[Gathered]) -> bool {
        let mut state = InputSet::DATATYPE.number(0);
        inputs.iter().zip(played).enumerate().all(|(place, (input, gathered))| {
            state = state.wrapping_add(*input);
            let has_end = last == Last::WithEnd && place + 1 == inputs.len();
            let answer = self.golden.number_of(state, has_end);
            // The same inputs in another order have the same sum, and lead to another state.
            let is_known = self.golden.word(answer).is_some_and(|word| {
                let numbers =
                    word.lineage.steps().into_iter().map(|(track, step)| self.golden.inputs.number(track, step));
                numbers.eq(inputs[..=place].iter().copied())
            });
            !is_known || self.golden.differs_from(answer, gathered).is_none()
        })
    }
}
