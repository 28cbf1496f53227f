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

/// What may be the cause of what the idle server does wrong, most likely first; none where nothing tells.
///
/// It is sent one track twice, then the same behind the first step of another one, that other one, and several side by side.
pub(super) async fn causes(site: Site<'_>, golden: &Arc<Golden>) -> Vec<Explanation> {
    let Ok(mut player) = Player::judged(site, Arc::clone(golden)) else { return Vec::new() };
    let tracks = golden.inputs.tracks().iter().enumerate().take(player.width().max(2));
    let tracks: Vec<Steps> =
        tracks.map(|(track, of)| (0..of.codes.len().min(STEPS)).map(|step| (track, step)).collect()).collect();
    let Some(first) = tracks.first() else { return Vec::new() };
    let mut sequences = vec![first.clone(), first.clone()];
    if let Some(other) = tracks.get(1) {
        sequences.push([&other[..1], &first[1..]].concat());
        sequences.push(other.clone());
    }
    let mut alone = Vec::new();
    for sequence in &sequences {
        match player.together(std::slice::from_ref(sequence), Last::WithEnd).await {
            Ok(answers) => alone.extend(answers),
            Err(_) => return Vec::new(),
        }
    }
    // What came before it broke is judged all the same.
    let _ = player.together(&tracks[..tracks.len().min(player.width())], Last::WithEnd).await;
    let told = player.trail().explained(&ModelFacts::of(&site.preflight.model));
    let told = told.into_iter().map(|violation| violation.explanations).find(|causes| !causes.is_empty());
    let related = || related(golden, first, &alone).map(|cause| vec![cause]);
    let mut causes = told.or_else(related).unwrap_or_default();
    for cause in &mut causes {
        cause.clues.insert(0, Clue::ShownAlone);
    }
    causes
}

/// What the answers to a track say that was sent twice, and once behind the first step of another: how they differ from each other,
/// whatever they are.
fn related(golden: &Golden, track: &Steps, alone: &[Vec<Gathered>]) -> Option<Explanation> {
    let [first, again, ..] = alone else { return None };
    let other = alone.get(2);
    let right = |step: usize| Lineage::Track { track: 0, steps: u32::try_from(step + 1).unwrap_or(u32::MAX) };
    let steps = |step: usize| u32::try_from(step + 1).unwrap_or(u32::MAX);
    let is_right =
        |seen: &[Gathered], step: usize| golden.differs_from(right(step).number(&golden.inputs), &seen[step]).is_none();
    let is_same = |step: usize| golden.are_the_same(&first[step], &again[step], steps(step));
    let all_alike = |seen: &[Gathered]| {
        seen.len() > 2 && (1..seen.len()).all(|step| golden.are_the_same(&seen[0], &seen[step], steps(step)))
    };
    if all_alike(first) && all_alike(again) {
        return Some(Explanation::new(Cause::NotExecuted, [Clue::AllAlike { steps: first.len() }]));
    }
    if !is_same(0) {
        let cause = if is_right(first, 0) { Cause::StaleStateOfId } else { Cause::StaleStateOfSlot };
        return Some(Explanation::new(cause, [Clue::StartDiffers]));
    }
    let wrong = (0..track.len()).find(|step| !is_right(first, *step)).filter(|step| *step > 0 && is_same(*step))?;
    let forgets =
        wrong == 1 && other.is_some_and(|other| golden.are_the_same(&first[wrong], &other[wrong], steps(wrong)));
    let (cause, clue) = if forgets {
        (Cause::EffectLost, Clue::SameAfterAnother)
    } else {
        (Cause::UnknownState, Clue::RightBefore { step: wrong + 1 })
    };
    Some(Explanation::new(cause, [clue]))
}
