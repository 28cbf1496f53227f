//! Sends tracks to a model, alone or several at a time, and gathers what it answers.

use std::{num::NonZeroU64, sync::Arc};

use futures_util::future::join_all;

use super::{
    aside::{Aside, OwnStream, Trail},
    site::Site,
    slots::free_ids,
};
use oracle::{
    Purpose,
    golden::{Gathered, Golden},
};
use workload::{
    conversation::Connection,
    event::{Cut, EventKind},
    number::Number,
    sequence::{CorrelationId, Pattern, RequestId, Step},
};

/// The steps of a sequence, each as the track and the step, from 0, that it sends.
pub(crate) type Steps = Vec<(usize, usize)>;

/// What the last step of a sequence is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Last {
    /// It has END.
    WithEnd,
    /// It has none. The sequence is ended by one more step, whose answer does not count.
    WithoutEnd,
}

/// How often sequences are sent until the server answers each step.
const TRIES: u32 = 3;
/// The most sequences that are sent at a time.
const LANES_MAX: u32 = 64;
/// The most that are sent at a time and judged, with correlation IDs behind those of the others.
const JUDGED: u32 = 8;

pub(crate) struct Player<'s> {
    site: Site<'s>,
    golden: Arc<Golden>,
    first_id: NonZeroU64,
    lanes: Vec<OwnStream>,
    sequence: u32,
    /// Who judges what is answered, and what they said.
    judge: Option<(Aside, Trail)>,
}

impl<'s> Player<'s> {
    /// Of a model on an idle server.
    ///
    /// # Errors
    /// When the scenario leaves no correlation IDs.
    pub(crate) fn new(site: Site<'s>, golden: Arc<Golden>) -> Result<Self, String> {
        let slots = site.preflight.model.most_slots().unwrap_or(0);
        let first_id = free_ids(site.scenario, slots, (LANES_MAX + JUDGED).into()).ok_or(
            "the scenario's correlation IDs leave none for the calibration: set a smaller correlation_ids.first",
        )?;
        Ok(Self { site, golden, first_id, lanes: Vec::new(), sequence: 0, judge: None })
    }

    /// One whose sequences have IDs that no other one has, and are judged as those of a run.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn judged(site: Site<'s>, golden: Arc<Golden>) -> Result<Self, String> {
        let mut player = Self::new(site, golden)?;
        let ids: Vec<_> =
            (LANES_MAX..LANES_MAX + JUDGED).map(|lane| CorrelationId(player.first_id).after(lane)).collect();
        player.first_id = ids[0].0;
        let aside = Aside::new(site.scenario, site.preflight, ids, Purpose::Trial);
        player.judge = Some((aside, Trail::default()));
        Ok(player)
    }

    /// What was said of the sequences that were judged.
    pub(crate) fn trail(self) -> Trail {
        self.judge.map(|(_, trail)| trail).unwrap_or_default()
    }

    /// Sends the tracks of these golden outputs from now on.
    pub(crate) fn send_those_of(&mut self, golden: &Arc<Golden>) {
        self.golden = Arc::clone(golden);
    }

    /// Sends with correlation IDs from this one on, and returns from which on it did before.
    pub(crate) fn send_under(&mut self, first: NonZeroU64) -> NonZeroU64 {
        self.lanes.clear();
        std::mem::replace(&mut self.first_id, first)
    }

    /// The first correlation ID of a run, which is far from those that it sends with.
    pub(crate) fn id_of_the_run(&self) -> NonZeroU64 {
        self.site.scenario.correlation_ids.first
    }

    /// How many sequences the model executes at a time.
    pub(crate) fn width(&self) -> usize {
        let most = if self.judge.is_some() { JUDGED } else { LANES_MAX };
        self.site.preflight.model.fewest_slots().unwrap_or(1).clamp(1, most) as usize
    }

    /// Whether each request is a whole sequence.
    pub(crate) fn is_iterative(&self) -> bool {
        self.site.preflight.model.arithmetic.answers.are_iterative()
    }

    /// Sends sequences side by side, each step when all of the step before are answered. Returns what each step of each was answered with.
    ///
    /// # Errors
    /// When a step is answered with an error, or not as the model declares, or not at all.
    pub(crate) async fn together(&mut self, sequences: &[Steps], last: Last) -> Result<Vec<Vec<Gathered>>, String> {
        let codes =
            |steps: &Steps| steps.iter().map(|(track, step)| self.golden.inputs.number(*track, *step)).collect();
        let sequences: Vec<_> = sequences.iter().map(codes).collect();
        self.played(&sequences, last).await
    }

    /// The same of sequences that are the codes of their inputs.
    ///
    /// # Errors
    /// As [`Self::together`].
    pub(crate) async fn played(&mut self, sequences: &[Vec<Number>], last: Last) -> Result<Vec<Vec<Gathered>>, String> {
        let mut tries = 1;
        loop {
            match self.played_once(sequences, last).await {
                // A judge would take the sequence that is sent again for another one.
                Err(_) if tries < TRIES && self.judge.is_none() => tries += 1,
                played => return played,
            }
            // Where this machine is busy a sequence may have gone idle. What is left on the streams belongs to no later one.
            self.lanes.clear();
        }
    }

    async fn played_once(&mut self, sequences: &[Vec<Number>], last: Last) -> Result<Vec<Vec<Gathered>>, String> {
        while self.lanes.len() < sequences.len() {
            let lane = self.lanes.len();
            let by = self.site.preflight.looks_go_over(self.site.scenario);
            self.lanes.push(self.open(lane)?);
            observe(&mut self.judge, self.site, lane, EventKind::Opened(Connection::Own, by));
        }
        self.sequence += 1;
        let closes = last == Last::WithoutEnd && !self.is_iterative();
        let closing = |steps: &[Number]| steps.last().copied().filter(|_| closes);
        let sent = |steps: &Vec<Number>| [steps.as_slice(), closing(steps).as_slice()].concat();
        let all: Vec<_> = sequences.iter().map(sent).collect();
        let mut answers = vec![Vec::new(); sequences.len()];
        let longest = all.iter().map(Vec::len).max().unwrap_or(0);
        for number in 0..longest {
            let due = |lane: usize| all.get(lane).filter(|steps| number < steps.len());
            let steps: Vec<_> =
                (0..sequences.len()).map(|lane| due(lane).map(|steps| self.step(lane, steps, number))).collect();
            let (site, golden) = (self.site, &self.golden);
            let waiting = self.lanes.iter_mut().zip(&steps).enumerate().filter_map(|(lane, (stream, step))| {
                let step = (*step)?;
                // A stream that takes none is broken, and what it brings says why.
                stream.send(step);
                let limit = site.preflight.limits.lost_after;
                Some(async move { (lane, step, stream.answer(step.request, limit).await) })
            });
            let waiting: Vec<_> = waiting.collect();
            for (lane, step) in steps.iter().enumerate().filter_map(|(lane, step)| Some((lane, (*step)?))) {
                observe(&mut self.judge, site, lane, EventKind::Sent(step));
            }
            for (lane, step, came) in join_all(waiting).await {
                let gathered = gathered(site, golden, &step, &came);
                observe(&mut self.judge, site, lane, came);
                answers[lane].push(gathered?);
            }
        }
        for (answers, steps) in answers.iter_mut().zip(sequences) {
            answers.truncate(steps.len());
        }
        Ok(answers)
    }

    fn open(&self, lane: usize) -> Result<OwnStream, String> {
        let (scenario, preflight) = (self.site.scenario, self.site.preflight);
        let id = CorrelationId(self.first_id).after(u32::try_from(lane).unwrap_or(u32::MAX));
        let id = id.on_the_wire(scenario.correlation_ids.form);
        let by = preflight.looks_go_over(scenario);
        let opened = self.site.link().and_then(|link| OwnStream::open(&preflight.model, &link, by, id));
        opened.map_err(|error| format!("cannot open a stream: {error}"))
    }

    fn step(&self, lane: usize, steps: &[Number], number: usize) -> Step {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let request = RequestId {
            worker: self.site.scenario.workers(),
            context: count(lane),
            sequence: self.sequence,
            step: count(number),
        };
        let alone = self.is_iterative();
        Step {
            request,
            pattern: Pattern::Valid,
            start: number == 0 || alone,
            end: number + 1 == steps.len() && !alone,
            value: steps[number],
            of: count(steps.len()),
            special: None,
        }
    }
}

/// Lets a judge know what happened.
fn observe(judge: &mut Option<(Aside, Trail)>, site: Site<'_>, lane: usize, kind: EventKind) {
    if let Some((aside, trail)) = judge {
        aside.observe(trail, site.clock.now(), u32::try_from(lane).unwrap_or(u32::MAX), kind);
    }
}

/// What a step is answered with.
fn gathered(
    site: Site<'_>,
    golden: &Golden,
    &Step { request, value, .. }: &Step,
    came: &EventKind,
) -> Result<Gathered, String> {
    let of = || golden.inputs.place(value).unwrap_or_else(|| format!("step {} of a sequence", request.step + 1));
    let limit = site.preflight.limits.lost_after;
    match came {
        EventKind::Received(received) if received.request() != Some(request) => {
            Err(format!("{} was answered with a response to '{}'", of(), received.id))
        }
        EventKind::Received(received) => match &received.result {
            Err(why) => Err(format!("{} was answered with the error '{why}'", of())),
            Ok(first) => golden.gathered(first).ok_or_else(|| {
                let outputs: Vec<_> = golden.outputs.iter().map(|output| output.spec.to_string()).collect();
                let seen = first.all().flat_map(|response| &response.outputs);
                let seen: Vec<_> =
                    seen.map(|tensor| format!("{} {}{:?}", tensor.name, tensor.datatype, tensor.shape)).collect();
                format!(
                    "{} was answered with [{}], and the model declares [{}]",
                    of(),
                    seen.join(", "),
                    outputs.join(", ")
                )
            }),
        },
        EventKind::GaveUp => Err(format!("{} was not answered within {} s", of(), limit.as_secs())),
        EventKind::Cut(Cut::Broken(why) | Cut::Status(_, why)) => Err(format!("{}: the stream broke: {why}", of())),
        _ => Err(format!("{}: the stream ended", of())),
    }
}
