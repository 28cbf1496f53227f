//! What an idle server does wrong by itself, when it is sent tracks whose outputs are known.
//!
//! A fault that always happens also spoils what the idle server says of other states. Then this says what the fault may be.

use std::sync::Arc;

use super::{
    player::{Last, Player, Steps},
    site::Site,
};
use oracle::{
    diagnosis::{Cause, Clue, Explanation, ModelFacts},
    golden::{FaultKind, Gathered, Golden, Lineage},
};

/// How many steps of a track are sent.
const STEPS: usize = 4;
/// How often the same track is sent: each instance of a model may keep a state of its own.
const TIMES: usize = 4;

/// What may be the cause of what the idle server does wrong, most likely first; none where nothing tells.
///
/// It is sent one track several times, the same with its second step twice, another one, and then two and several side by side.
pub(super) async fn causes(site: Site<'_>, golden: &Arc<Golden>) -> Vec<Explanation> {
    let Ok(mut player) = Player::judged(site, Arc::clone(golden)) else { return Vec::new() };
    let tracks = golden.inputs.tracks().iter().enumerate().take(player.width().max(2));
    let tracks: Vec<Steps> =
        tracks.map(|(track, of)| (0..of.codes.len().min(STEPS)).map(|step| (track, step)).collect()).collect();
    let Some(first) = tracks.first() else { return Vec::new() };
    let mut sequences = vec![first.clone(); TIMES];
    if let [start, second, ..] = first[..] {
        sequences.push(vec![start, second, second]);
    }
    sequences.extend(tracks.get(1).cloned());
    let mut alone = Vec::new();
    for sequence in &sequences {
        match player.together(std::slice::from_ref(sequence), Last::WithoutEnd).await {
            Ok(answers) => alone.extend(answers),
            Err(_) => return Vec::new(),
        }
    }
    // A fault that mixes the rows of a batch shows where rows meet in one, and that is chance. Two say more than many.
    for width in [2, player.width(), 2, player.width()] {
        // What came before it broke is judged all the same.
        let _ = player.together(&tracks[..tracks.len().min(width)], Last::WithoutEnd).await;
    }
    let told = player.trail().explained(&ModelFacts::of(&site.preflight.model));
    let related = related(golden, first, &alone).unwrap_or_default();
    let repeats = related.iter().any(|one| one.clues.contains(&Clue::StartWrongTwice));
    let is_told = |causes: &Vec<Explanation>| {
        causes
            .first()
            .is_some_and(|first| first.cause != Cause::Unexplained && !(repeats && needs_another(first.cause)))
    };
    let told = told.into_iter().map(|violation| violation.explanations).find(is_told);
    let mut causes = told.unwrap_or(related);
    for cause in &mut causes {
        cause.clues.insert(0, Clue::ShownAlone);
    }
    causes
}

/// Whether something that came before or beside a sequence brings a cause about. It cannot be the same to START twice, and outputs that are
/// few small numbers are often those of another state by chance.
fn needs_another(cause: Cause) -> bool {
    use Cause as C;
    matches!(
        cause,
        C::StartNotTold
            | C::StaleStateOfId
            | C::StaleStateOfSlot
            | C::LeakedState
            | C::SharedState
            | C::SwappedStates
            | C::CorridWrong
            | C::ResponseOfAnother
    )
}

/// What the answers to a track say that was sent several times, and once with its second step twice: how they differ from each other,
/// whatever they are.
fn related(golden: &Golden, track: &Steps, alone: &[Vec<Gathered>]) -> Option<Vec<Explanation>> {
    let said = |causes: &[Cause], clue: Clue| {
        Some(causes.iter().map(|cause| Explanation::new(*cause, [clue.clone()])).collect())
    };
    let (first, rest) = alone.split_first()?;
    let count = |step: usize| u32::try_from(step + 1).unwrap_or(u32::MAX);
    let state = |step: usize| Lineage::Track { track: 0, steps: count(step) }.number(&golden.inputs);
    if !golden.judges() || (0..track.len()).any(|step| golden.word(state(step)).is_none()) {
        return None;
    }
    let are_the_same =
        |step: usize, one: &[Gathered], other: &[Gathered]| golden.are_the_same(&one[step], &other[step], count(step));
    let is_right = |seen: &[Gathered], step: usize| golden.differs_from(state(step), &seen[step]).is_none();
    let wrong_from = |seen: &Vec<Gathered>| (0..track.len()).find(|step| !is_right(seen, *step));
    let wrong = alone.iter().take(TIMES).filter_map(wrong_from).min()?;
    let is_again = |seen: &&Vec<Gathered>| are_the_same(wrong, first, seen) == (wrong > 0);
    let again = rest.iter().take(TIMES - 1).find(is_again).or(rest.first())?;
    let all_alike = |seen: &[Gathered]| {
        seen.len() > 2 && (1..seen.len()).all(|step| golden.are_the_same(&seen[0], &seen[step], count(step)))
    };
    if all_alike(first) && all_alike(again) {
        return said(&[Cause::NotExecuted], Clue::AllAlike { steps: first.len() });
    }
    let again_alike = |seen: &Vec<Gathered>| seen.len() > 2 && golden.are_the_same(&seen[1], &seen[2], 2);
    // Where its own state went cannot be seen from outside. Of a right model the two outputs have to differ.
    let twice = Lineage::Fault { kind: FaultKind::ExecutedTwice, track: 0, steps: 2 }.number(&golden.inputs);
    if wrong == 1 && golden.knows(twice) && alone.get(TIMES).is_some_and(again_alike) {
        return said(&[Cause::EffectLost, Cause::LeakedState], Clue::SameStepAgain);
    }
    if !are_the_same(wrong, first, again) {
        // A state that START left spoils more than one response.
        let is_spoilt = |seen: &[Gathered]| (0..track.len().min(2)).all(|step| !is_right(seen, step));
        let cause = if is_right(first, 0) { Cause::StaleStateOfId } else { Cause::StaleStateOfSlot };
        let is_it = wrong == 0 && (is_spoilt(first) || is_spoilt(again));
        return said(&[cause], Clue::StartDiffers).filter(|_| is_it);
    }
    match wrong {
        _ if is_right(first, wrong) => None,
        0 => said(&[Cause::WrongArithmetic], Clue::StartWrongTwice),
        _ => said(&[Cause::UnknownState], Clue::RightBefore { step: wrong + 1 }),
    }
}
