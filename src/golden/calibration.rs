//! Finds out what a model answers, how far answers to the same are apart, and which faults its outputs show.

use std::{collections::BTreeMap, sync::Arc};

use super::facts::{Again, Deviations, chosen, fingerprints, noise, tolerances};
use crate::probe::player::{Last, Player, Steps};
use oracle::golden::{EndEffect, Facts, FaultKind, Gathered, Golden, Identity, Lineage, Output, Visible};
use workload::inputs::{Coded, InputSet};

/// How often each track is sent alone, the last time with a correlation ID that is far from the others.
const ALONE: usize = 3;
/// How many tracks are sent in full batches of themselves.
const OF_THEMSELVES: usize = 8;
/// Up to how many sequences side by side each number of them is tried, and then each that is twice one before.
pub(super) const EACH_SIZE: usize = 8;
/// In how many tracks each fault is committed.
const WITH_FAULTS: usize = 2;
/// How many of a track's first steps faults are committed at; of the later ones at each that is twice one before.
const EACH_STEP: u32 = 8;
/// Up to which step of each track the answers to END are measured, where END makes a difference.
const ENDED: usize = 32;
/// By how many tolerances an answer has to be apart for a fault to show.
const SHOWS: f64 = 2.0;

/// How far a calibration has come.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// What it sends.
    pub what: &'static str,
    /// How many of these are done.
    pub done: usize,
    /// How many there are.
    pub of: usize,
}

pub(super) struct Calibration<'s> {
    player: Player<'s>,
    golden: Arc<Golden>,
    /// By state: what was answered the first time.
    known: BTreeMap<(usize, usize), Arc<Gathered>>,
    /// The same of steps with END, where that makes a difference.
    ended: BTreeMap<(usize, usize), Arc<Gathered>>,
    deviations: Deviations,
}

impl<'s> Calibration<'s> {
    pub(super) fn new(player: Player<'s>, golden: Arc<Golden>) -> Self {
        let deviations = Deviations::new(golden.outputs.len());
        Self { player, golden, known: BTreeMap::new(), ended: BTreeMap::new(), deviations }
    }

    pub(super) async fn run(mut self, progress: &mut dyn FnMut(Phase)) -> Result<Golden, String> {
        let mut all = self.tracks();
        for time in 1..ALONE {
            self.each_alone(&all, time, Again::Alone, progress).await?;
        }
        let own_id = self.player.send_under(self.player.id_of_the_run());
        self.each_alone(&all, ALONE, Again::OtherId, progress).await?;
        self.player.send_under(own_id);
        let width = self.player.width();
        if width > 1 {
            let of = OF_THEMSELVES.min(all.len());
            for (done, track) in all.iter().take(of).enumerate() {
                progress(Phase { what: "full batches of one track", done, of });
                self.beside(&vec![track.clone(); width]).await?;
            }
            let groups = groups(all.len(), width);
            let of = groups.len();
            for (done, group) in groups.into_iter().enumerate() {
                progress(Phase { what: "tracks beside others", done, of });
                let group: Vec<_> = group.into_iter().map(|track| all[track].clone()).collect();
                self.beside(&group).await?;
            }
        }
        let noise = noise(&self.golden, &self.deviations, &self.known);
        let tolerances = tolerances(&self.golden, &self.deviations, &noise);
        let mut outputs = self.golden.outputs.clone();
        for (output, tolerances) in outputs.iter_mut().zip(tolerances) {
            output.tolerances = tolerances;
        }
        let mut facts = Facts { noise, ..Facts::default() };
        let mut golden = self.with(outputs.clone(), &facts, &BTreeMap::new());
        if golden.judges() {
            let chosen = chosen(&golden);
            if chosen.len() < all.len() {
                facts.left_out = number(all.len() - chosen.len());
                self.keep(&chosen);
                all = self.tracks();
                golden = self.with(outputs.clone(), &facts, &BTreeMap::new());
            }
            facts.fingerprints = fingerprints(&golden);
            facts.at_end = self.look_at_end(&golden, &all, progress).await?;
            if facts.at_end == EndEffect::Changes {
                self.measure_end(&all, progress).await?;
            }
            let mut faulty = BTreeMap::new();
            facts.visible = self.commit_faults(&golden, &all, &mut faulty, progress).await?;
            golden = self.with(outputs, &facts, &faulty);
        }
        Ok(golden)
    }

    /// Sends the beginnings of some tracks, and one beginning of each other track, with END, and looks what END does to the outputs. Each is
    /// sent with two correlation IDs, because a model may add the ID at END.
    async fn look_at_end(
        &mut self,
        golden: &Golden,
        all: &[Steps],
        progress: &mut dyn FnMut(Phase),
    ) -> Result<EndEffect, String> {
        let mut found = EndEffect::Nothing;
        if self.player.is_iterative() {
            return Ok(found);
        }
        for (place, track) in all.iter().enumerate() {
            progress(Phase { what: "beginnings of tracks with END", done: place, of: all.len() });
            let is_tried = |steps: &usize| {
                let is_of_some = place < WITH_FAULTS && (steps.is_power_of_two() || *steps == track.len());
                // END may matter for some inputs alone, and for some lengths.
                is_of_some || *steps == 1 + place % track.len().min(ENDED)
            };
            for steps in (1..=track.len()).filter(is_tried) {
                let path = track[..steps].to_vec();
                // Nothing is sent in the first lane then.
                let other = self.player.together(&[Steps::new(), path.clone()], Last::WithEnd).await?;
                let alone = self.player.together(&[path], Last::WithEnd).await?;
                let last = |seen: Vec<Vec<Gathered>>| seen.into_iter().next_back().and_then(|mut seen| seen.pop());
                let (Some(alone), Some(other)) = (last(alone), last(other)) else { continue };
                let (track, steps) = (number(place), number(steps));
                if !golden.are_the_same(&alone, &other, steps) {
                    return Ok(EndEffect::NotRepeatable);
                }
                let without = Lineage::Track { track, steps }.number(&golden.inputs);
                if golden.differs_from(without, &alone).is_some() {
                    found = EndEffect::Changes;
                }
            }
        }
        Ok(found)
    }

    /// Finds out what the first steps of all tracks are answered with where they have END.
    async fn measure_end(&mut self, all: &[Steps], progress: &mut dyn FnMut(Phase)) -> Result<(), String> {
        let of = |track: usize| (1..=all[track].len().min(ENDED)).map(move |steps| (track, steps));
        let ends: Vec<_> = (0..all.len()).flat_map(of).collect();
        let width = self.player.width();
        for (done, group) in ends.chunks(width).enumerate() {
            progress(Phase { what: "END at each step", done, of: ends.len().div_ceil(width) });
            let paths: Vec<_> = group.iter().map(|(track, steps)| all[*track][..*steps].to_vec()).collect();
            let seen = self.player.together(&paths, Last::WithEnd).await?;
            let last = group.iter().zip(seen).filter_map(|(place, mut seen)| Some((*place, Arc::new(seen.pop()?))));
            self.ended.extend(last);
        }
        Ok(())
    }

    /// All tracks. A request that is a whole sequence is the only step of one.
    fn tracks(&self) -> Vec<Steps> {
        let steps = |codes: &[i64]| if self.player.is_iterative() { 1 } else { codes.len() };
        let track = |(track, of): (usize, &Coded)| (0..steps(&of.codes)).map(|step| (track, step)).collect();
        self.golden.inputs.tracks().iter().enumerate().map(track).collect()
    }

    /// Goes on with these tracks alone.
    fn keep(&mut self, chosen: &[usize]) {
        let tracks = self.golden.inputs.to_tracks();
        let inputs = Arc::new(InputSet::new(chosen.iter().map(|track| tracks[*track].clone()).collect()));
        let identity = Identity { inputs: inputs.digest().to_owned(), ..self.golden.identity.clone() };
        let outputs = self.golden.outputs.clone();
        self.golden = Arc::new(Golden::new(identity, inputs, outputs, Facts::default(), []));
        self.player.send_those_of(&self.golden);
        let place = |track: &usize| chosen.iter().position(|its| its == track);
        let known = std::mem::take(&mut self.known).into_iter();
        self.known = known.filter_map(|((track, step), seen)| Some(((place(&track)?, step), seen))).collect();
    }

    async fn each_alone(
        &mut self,
        all: &[Steps],
        time: usize,
        again: Again,
        progress: &mut dyn FnMut(Phase),
    ) -> Result<(), String> {
        for (place, track) in all.iter().enumerate() {
            progress(Phase { what: "each track alone", done: (time - 1) * all.len() + place, of: ALONE * all.len() });
            let seen = self.player.together(std::slice::from_ref(track), Last::WithoutEnd).await?;
            self.take(track, seen.into_iter().next().unwrap_or_default(), again);
        }
        Ok(())
    }

    /// Sends sequences side by side, and looks how far their answers are from those alone.
    async fn beside(&mut self, group: &[Steps]) -> Result<(), String> {
        for (track, seen) in group.iter().zip(self.player.together(group, Last::WithoutEnd).await?) {
            self.take(track, seen, Again::Beside);
        }
        Ok(())
    }

    fn take(&mut self, track: &Steps, seen: Vec<Gathered>, again: Again) {
        for (place, gathered) in track.iter().zip(seen) {
            match self.known.get(place) {
                Some(known) => self.deviations.add(&self.golden.outputs, place.1, known, &gathered, again),
                None => {
                    self.known.insert(*place, gathered.into());
                }
            }
        }
    }

    fn with(
        &self,
        outputs: Vec<Output>,
        facts: &Facts,
        faulty: &BTreeMap<(usize, Steps), (Lineage, Arc<Gathered>)>,
    ) -> Golden {
        let right = self.known.iter().map(|((track, step), gathered)| {
            (Lineage::Track { track: number(*track), steps: number(step + 1) }, Arc::clone(gathered))
        });
        let ended = self.ended.iter().map(|((track, steps), gathered)| {
            (Lineage::Ended { track: number(*track), steps: number(*steps) }, Arc::clone(gathered))
        });
        let seen = right.chain(ended).chain(faulty.values().cloned());
        let (identity, inputs) = (self.golden.identity.clone(), Arc::clone(&self.golden.inputs));
        Golden::new(identity, inputs, outputs, facts.clone(), seen)
    }

    /// Commits each kind of fault in some tracks, alone on the server.
    async fn commit_faults(
        &mut self,
        golden: &Golden,
        all: &[Steps],
        faulty: &mut BTreeMap<(usize, Steps), (Lineage, Arc<Gathered>)>,
        progress: &mut dyn FnMut(Phase),
    ) -> Result<Vec<Visible>, String> {
        let mut visible = Vec::new();
        if self.player.is_iterative() {
            return Ok(visible);
        }
        let count = number(all.len());
        for (done, kind) in FaultKind::ALL.into_iter().enumerate() {
            progress(Phase { what: "faults on purpose", done, of: FaultKind::ALL.len() });
            let mut shown_by_step: BTreeMap<u32, bool> = BTreeMap::new();
            let mut seen = Visible { kind, tried: 0, shown: 0, from_step: None };
            for track in 0..count.min(number(WITH_FAULTS)) {
                let steps = number(all[track as usize].len());
                for lineage in faults(kind, track, steps, count) {
                    let (answered, lineage, path) = lineage;
                    let played = self.player.together(std::slice::from_ref(&path), Last::WithoutEnd).await?;
                    let Some(gathered) = played.into_iter().next().and_then(|mut answers| answers.pop()) else {
                        continue;
                    };
                    let right = Lineage::Track { track, steps: answered }.number(&golden.inputs);
                    let apart = golden.apart_from(right, &gathered).unwrap_or(0.0);
                    let shows = apart >= SHOWS;
                    seen.tried += 1;
                    seen.shown += u32::from(shows);
                    *shown_by_step.entry(answered).or_insert(true) &= shows;
                    if shows {
                        faulty
                            .entry((usize::from(kind == FaultKind::Exchanged), path))
                            .or_insert((lineage, gathered.into()));
                    }
                }
            }
            let last_hidden = shown_by_step.iter().filter(|(_, shows)| !**shows).map(|(step, _)| *step).max();
            seen.from_step = match last_hidden {
                None => shown_by_step.keys().min().copied(),
                Some(hidden) => shown_by_step.keys().find(|step| **step > hidden).copied(),
            };
            if seen.tried > 0 {
                visible.push(seen);
            }
        }
        Ok(visible)
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Tracks that are sent side by side, in three orders, in which each has other neighbours, and another place among them. In the last order
/// they are two, then three, and so on: a kernel may compute each size of batch in its own way.
pub(super) fn groups(tracks: usize, width: usize) -> Vec<Vec<usize>> {
    let in_turn: Vec<_> = (0..tracks).collect();
    let from_the_end: Vec<_> = (0..tracks).rev().collect();
    let mut groups: Vec<_> =
        [in_turn, from_the_end].iter().flat_map(|order| order.chunks(width)).map(<[_]>::to_vec).collect();
    let largest = width.min(tracks);
    let next = |size: &usize| match *size {
        size if size >= largest => None,
        size if size < EACH_SIZE => Some(size + 1),
        size => Some((2 * size).min(largest)),
    };
    let sizes: Vec<_> = std::iter::successors(Some(largest.min(2)), next).collect();
    let mut every_other = (0..tracks).step_by(2).chain((1..tracks).step_by(2)).cycle();
    let (mut sizes, mut sent, of_all) = (sizes.iter().cycle(), 0, sizes.len());
    // So often that each size comes, however few tracks there are.
    for round in 0.. {
        if sent >= tracks && round >= of_all {
            break;
        }
        let group: Vec<_> = every_other.by_ref().take(*sizes.next().unwrap_or(&1)).collect();
        sent += group.len();
        groups.push(group);
    }
    groups
}

/// The steps at which a kind of fault is committed in a track: the step that is answered, what comes about, and what is sent.
fn faults(kind: FaultKind, track: u32, steps: u32, tracks: u32) -> Vec<(u32, Lineage, Steps)> {
    let first = match kind {
        FaultKind::NotExecuted | FaultKind::StateReset | FaultKind::LeakedState => 2,
        FaultKind::ExecutedTwice | FaultKind::Exchanged | FaultKind::StateKept => 1,
    };
    let last = if kind == FaultKind::Exchanged { steps.saturating_sub(1) } else { steps };
    let other = (track + 1) % tracks;
    let is_tried = |step: &u32| *step <= EACH_STEP || step.is_power_of_two() || *step == last;
    let lineage = |step: u32| match kind {
        FaultKind::LeakedState => (step, Lineage::Continued { track, step, other, after: step - 1 }),
        // How much state the sequence before left is what differs: START is always the first step.
        FaultKind::StateKept => (1, Lineage::Continued { track, step: 1, other, after: step }),
        _ => (step, Lineage::Fault { kind, track, steps: step }),
    };
    if matches!(kind, FaultKind::LeakedState) && tracks < 2 {
        return Vec::new();
    }
    let tried = (first..=last).filter(is_tried).map(lineage);
    tried.map(|(answered, lineage)| (answered, lineage, lineage.steps())).collect()
}
