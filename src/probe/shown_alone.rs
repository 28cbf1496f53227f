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
    golden::{Gathered, Golden, Lineage},
};

/// How many steps of a track are sent.
const STEPS: usize = 4;
/// How often the same track is sent: each instance of a model may keep a state of its own.
const TIMES: usize = 4;

/// What may be the cause of what the idle server does wrong, most likely first; none where nothing tells.
///
/// It is sent one track several times, then the same behind the first step of another one, that other one, and several side by side.
pub(super) async fn causes(site: Site<'_>, golden: &Arc<Golden>) -> Vec<Explanation> {
    let Ok(mut player) = Player::judged(site, Arc::clone(golden)) else { return Vec::new() };
    let tracks = golden.inputs.tracks().iter().enumerate().take(player.width().max(2));
    let tracks: Vec<Steps> =
        tracks.map(|(track, of)| (0..of.codes.len().min(STEPS)).map(|step| (track, step)).collect()).collect();
    let Some(first) = tracks.first() else { return Vec::new() };
    let mut sequences = vec![first.clone(); TIMES];
    if let Some(other) = tracks.get(1) {
        sequences.push([&other[..1], &first[1..]].concat());
        sequences.push(other.clone());
    }
    let mut alone = Vec::new();
    for sequence in &sequences {
        match player.together(std::slice::from_ref(sequence), Last::WithoutEnd).await {
            Ok(answers) => alone.extend(answers),
            Err(_) => return Vec::new(),
        }
    }
    // What came before it broke is judged all the same.
    let _ = player.together(&tracks[..tracks.len().min(player.width())], Last::WithoutEnd).await;
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

/// What the answers to a track say that was sent several times, and once behind the first step of another: how they differ from each
/// other, whatever they are.
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
    if !are_the_same(wrong, first, again) {
        // A state that START left spoils more than one response.
        let is_spoilt = |seen: &[Gathered]| (0..track.len().min(2)).all(|step| !is_right(seen, step));
        let cause = if is_right(first, 0) { Cause::StaleStateOfId } else { Cause::StaleStateOfSlot };
        let is_it = wrong == 0 && (is_spoilt(first) || is_spoilt(again));
        return said(&[cause], Clue::StartDiffers).filter(|_| is_it);
    }
    let forgets = || alone.get(TIMES).is_some_and(|other| are_the_same(wrong, first, other));
    match wrong {
        _ if is_right(first, wrong) => None,
        0 => said(&[Cause::WrongArithmetic], Clue::StartWrongTwice),
        // Where its own state went cannot be seen from outside.
        1 if forgets() => said(&[Cause::EffectLost, Cause::LeakedState], Clue::SameAfterAnother),
        _ => said(&[Cause::UnknownState], Clue::RightBefore { step: wrong + 1 }),
    }
}
