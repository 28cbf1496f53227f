//! What is known of one correlation ID, and how an answer narrows it.

use super::{
    Doubt, Rules,
    expiry::Expiry,
    histories::{Found, Given, Histories, Node, Possibilities, Prediction, Times},
    order::{self, Operation},
    overlap::{self, Overlap, Summary},
    seat::Seat,
    states::{Judgement, Possible, State},
    strays::{CUTS_MAX, Explained, Strays},
    stream::{Fate, Request, Stream},
};
use crate::{
    conversation::Lane,
    event::{Disturbance, Nanos},
    sequence::{CorrelationId, IdForm, Step},
};

/// The most steps whose order is kept as evidence.
const EVIDENCE_MAX: usize = 4096;

/// What is known of one correlation ID.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) correlation_id: CorrelationId,
    pub(super) form: IdForm,
    streams: Vec<Stream>,
    strays: Strays,
    /// What the server may hold, where `histories` does not say it.
    possible: Possible,
    times: Times,
    /// While several streams have requests under way.
    histories: Option<Box<Histories>>,
    /// Nothing is known until all that is under way is answered.
    lost: Option<Doubt>,
    overlap: Overlap,
    expiry: Expiry,
    seat: Seat,
    sent: u64,
    /// Where the last request was sent.
    last_lane: Lane,
    /// What was answered while several streams had requests under way.
    evidence: Vec<Operation>,
    /// What the server held before that.
    held_before: State,
    /// Until when the model or the server was being exchanged.
    disturbed_until: Nanos,
}

/// What an answer shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Undetermined(Doubt),
    /// None of these sums came.
    Wrong {
        expected: Vec<i32>,
    },
    /// The step had to be refused.
    NotRefused,
    /// The step had to be accepted.
    WronglyRefused,
}

impl Known {
    pub(super) fn new((correlation_id, form): (CorrelationId, IdForm)) -> Self {
        Self {
            correlation_id,
            form,
            streams: Vec::new(),
            strays: Strays::default(),
            possible: Possible::UNKNOWN,
            times: Times::default(),
            histories: None,
            lost: None,
            overlap: Overlap::default(),
            expiry: Expiry::default(),
            seat: Seat::default(),
            sent: 0,
            last_lane: Lane::FIRST,
            evidence: Vec::new(),
            held_before: State::Live(None),
            disturbed_until: 0,
        }
    }

    /// The model or the server is being exchanged, or was: of what was begun before, anything may become.
    pub(super) fn disturb(&mut self, disturbance: Disturbance, at: Nanos) {
        self.disturbed_until = match disturbance {
            Disturbance::Begins => Nanos::MAX,
            Disturbance::IsOver => at,
        };
        self.strays.lose_while_disturbed(disturbance, at);
        self.lose_sight(Doubt::Disturbed);
        self.tidy();
    }

    /// Whether something that happened at this time may have met an exchange of the model or the server.
    pub(super) fn may_be_disturbed(&self, at: Nanos) -> bool {
        at < self.disturbed_until
    }

    /// Whether a stream may break for an exchange of the model or the server. One that was opened soon after it may be on a
    /// connection whose end is still on its way through the network, until it brings an answer.
    pub(super) fn may_break(&mut self, lane: Lane, rules: &Rules) -> bool {
        let (opened_at, is_answered) = (self.stream(lane).opened_at(), self.stream(lane).is_answered());
        let arrives = match self.disturbed_until {
            0 => 0,
            until => until.saturating_add(nanos(rules.straggling)),
        };
        self.may_be_disturbed(opened_at) || (!is_answered && opened_at < arrives)
    }

    pub(super) fn stream(&mut self, lane: Lane) -> &mut Stream {
        if self.streams.len() <= lane.index() {
            self.streams.resize_with(lane.index() + 1, Stream::default);
        }
        &mut self.streams[lane.index()]
    }

    /// Whether a stream was there before an exchange of the model or the server was over.
    pub(super) fn is_disturbed(&mut self, lane: Lane) -> bool {
        let opened_at = self.stream(lane).opened_at();
        self.may_be_disturbed(opened_at)
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = (Lane, &Stream)> {
        (0..).map(Lane).zip(&self.streams)
    }

    /// When the last step that was accepted was taken in, at the earliest.
    pub(super) fn last_accepted(&self) -> Nanos {
        self.times.accepted
    }

    /// Whether the ID certainly has no sequence when the step comes.
    pub(super) fn has_to_refuse(&self, step: &Step) -> bool {
        self.histories.is_none() && self.lost.is_none() && self.possible.has_to_refuse(step)
    }

    /// Whether a request may be in a sequence of which another request was cancelled.
    pub(super) fn may_be_swept(&self, request: &Request) -> bool {
        self.strays.may_sweep(request.sent_at)
    }

    pub(super) fn send(&mut self, lane: Lane, step: Step, at: Nanos, rules: &Rules) {
        let follows = self.last_lane == lane;
        self.last_lane = lane;
        self.sent += 1;
        if rules.mixes {
            self.end_overlap(at);
        }
        let starts = step.start && step.flaw().is_none();
        let sequence = self.seat.send(starts, at, others(&mut self.streams, lane));
        let request = Request {
            step,
            sent_at: at,
            serial: self.sent,
            fate: Fate::Waiting,
            overtaken: false,
            mixed: self.overlap.is_possible(),
            sequence,
        };
        self.stream(lane).send(request, follows);
        if rules.mixes {
            self.look_for_overlap(at, rules);
        }
    }

    /// Narrows what is known by the answer to a request that waits.
    pub(super) fn answer(
        &mut self,
        lane: Lane,
        number: u64,
        answer: order::Answer,
        at: Nanos,
        rules: &Rules,
    ) -> Verdict {
        if rules.mixes {
            self.look_for_overlap(at, rules);
        }
        let request = *self.streams[lane.index()].get(number).expect("the request waits");
        if matches!(answer, order::Answer::Sum(_)) {
            self.expiry.executed(&request);
        }
        let is_alone = self.is_alone(lane, number);
        if !is_alone && self.evidence.is_empty() {
            self.held_before = self
                .possible
                .states()
                .next()
                .filter(|_| self.possible.states().count() == 1)
                .unwrap_or(State::Live(None));
        }
        let verdict = if is_alone {
            self.evidence.clear();
            self.answered_alone(&request, answer, at, rules)
        } else if let Some(doubt) = self.lost {
            self.times.latest = self.times.latest.max(request.sent_at);
            judge_in_doubt(&request.step, answer, doubt)
        } else {
            self.answered_among_others(lane, number, answer, at, rules)
        };
        if !is_alone {
            self.keep_evidence(&request, Some((at, answer)));
        }
        self.settle(lane, number, at, rules);
        verdict
    }

    /// A request was executed in a slot; returns the slot in which its sequence was before, where that is another.
    pub(super) fn executed_in(&mut self, request: &Request, slot: u32) -> Option<u32> {
        self.seat.executed(request, slot)
    }

    /// A request was answered in a way that does not tell what it did.
    pub(super) fn answer_without_news(&mut self, lane: Lane, number: u64, at: Nanos, rules: &Rules, doubt: Doubt) {
        let request = *self.streams[lane.index()].get(number).expect("the request waits");
        self.times.take(request.sent_at, true);
        if self.is_alone(lane, number) {
            self.possible = Possible::UNKNOWN;
        } else {
            self.lose_sight(doubt);
        }
        self.settle(lane, number, at, rules);
    }

    /// A request was refused that changes nothing.
    pub(super) fn answer_unchanged(&mut self, lane: Lane, number: u64, at: Nanos, rules: &Rules) {
        let request = *self.streams[lane.index()].get(number).expect("the request waits");
        if self.is_alone(lane, number) {
            self.times.take(request.sent_at, false);
        } else if let Some(histories) = &mut self.histories {
            let given =
                Given { streams: &self.streams, strays: &self.strays, idle_limit: rules.idle_limit.map(nanos), at };
            if matches!(histories.answer(&given, lane.index(), number, Prediction::Nothing), Found::TooMany) {
                self.lose_sight(Doubt::Orders);
            }
        }
        self.settle(lane, number, at, rules);
    }

    /// A request was refused with all of its sequence that waited for a slot; returns whether that may be.
    pub(super) fn answer_expired(&mut self, lane: Lane, number: u64, at: Nanos, rules: &Rules) -> bool {
        let request = *self.streams[lane.index()].get(number).expect("the request waits");
        let (cuts, fog) = self.strays.unfinished(at);
        let waiting = self.streams.iter().flat_map(Stream::waiting).chain(cuts.flatten());
        let allowed =
            self.expiry.allows(&request, waiting, at) || fog.is_some() || self.may_be_disturbed(request.sent_at);
        if allowed && self.is_alone(lane, number) {
            self.times.take(request.sent_at, false);
            self.possible = Possible::ABSENT;
            self.settle(lane, number, at, rules);
        } else {
            self.answer_without_news(lane, number, at, rules, Doubt::State);
        }
        allowed
    }

    /// A stream is gone; returns how many of its requests will never be settled.
    pub(super) fn cut(&mut self, lane: Lane, at: Nanos, rules: &Rules) -> usize {
        let abandoned = self.stream(lane).waiting().count();
        let until = at.saturating_add(nanos(rules.straggling));
        let cut = Some(self.strays.cuts.len()).filter(|cut| *cut < CUTS_MAX);
        let stream = &mut self.streams[lane.index()];
        if let Some(histories) = &mut self.histories {
            histories.cut(lane.index(), stream, cut.filter(|_| !stream.is_quiet()));
        }
        let requests: Vec<_> = stream.cut().into_iter().filter(Request::counts).collect();
        self.seat.cut(&requests, until, others(&mut self.streams, lane));
        if !self.evidence.is_empty() {
            for request in &requests {
                self.keep_evidence(request, None);
            }
        }
        self.strays.add(requests, 0, until);
        if self.strays.in_fog(at) {
            if self.streams.iter().any(|stream| !stream.is_quiet()) {
                self.lose_sight(Doubt::Stragglers);
            } else {
                self.histories = None;
                self.possible = Possible::UNKNOWN;
            }
        }
        self.tidy();
        abandoned
    }

    /// What was sent, and what was answered, is not known up to this time; returns how many requests will never be settled.
    pub(super) fn interrupt(&mut self, lane: Lane, at: Nanos, rules: &Rules) -> usize {
        let abandoned = self.cut(lane, at, rules);
        let until = at.saturating_add(nanos(rules.straggling));
        self.strays.lose_all(until);
        self.seat.lose(until, others(&mut self.streams, lane));
        self.lose_sight(Doubt::Stragglers);
        self.tidy();
        abandoned
    }

    /// Whether no other request of the ID is under way that may come before this one, and the state is one set.
    fn is_alone(&self, lane: Lane, number: u64) -> bool {
        self.histories.is_none()
            && self.lost.is_none()
            && self.streams[lane.index()].first() == number
            && self.streams().all(|(other, stream)| other == lane || stream.is_quiet())
    }

    fn settle(&mut self, lane: Lane, number: u64, at: Nanos, rules: &Rules) {
        self.streams[lane.index()].settle(number);
        if rules.mixes {
            self.end_overlap(at);
        }
        self.tidy();
    }

    /// Forgets what does not matter any more.
    fn tidy(&mut self) {
        if let Some(histories) = &mut self.histories {
            histories.forget_settled(&self.streams);
            if histories.are_one_set() {
                self.possible = Possible::of(histories.ends().map(|node| node.state));
                self.times = histories.ends().map(|node| node.times).reduce(Times::earlier).unwrap_or_default();
                for (place, cut) in self.strays.cuts.iter_mut().enumerate() {
                    cut.from = histories.ends().map(|node| node.from[place]).min().unwrap_or(0);
                }
                self.histories = None;
            }
        }
        if self.histories.is_none() {
            self.strays.expire(self.times.latest);
        }
        if self.lost.is_some() && self.streams.iter().all(Stream::is_quiet) {
            self.lost = None;
        }
    }

    /// Knows nothing until all that is under way is answered.
    fn lose_sight(&mut self, doubt: Doubt) {
        self.histories = None;
        self.possible = Possible::UNKNOWN;
        self.lost = Some(doubt);
    }

    fn answered_alone(&mut self, request: &Request, answer: order::Answer, at: Nanos, rules: &Rules) -> Verdict {
        let before = self.possible;
        let latest = self.times.latest;
        let verdict = match answer {
            _ if self.strays.in_fog(request.sent_at) => {
                self.possible = Possible::UNKNOWN;
                judge_in_doubt(&request.step, answer, Doubt::Stragglers)
            }
            order::Answer::Sum(sum) => self.sum_alone(request, sum),
            order::Answer::Refused => self.refusal_alone(&request.step, before, at, rules),
        };
        self.times.take(request.sent_at, matches!(answer, order::Answer::Sum(_)));
        debug_assert!(latest <= self.times.latest, "time goes on");
        verdict
    }

    fn sum_alone(&mut self, request: &Request, sum: i32) -> Verdict {
        let step = &request.step;
        let before = self.possible;
        let judgement = self.possible.accept(step, sum);
        if request.mixed && !step.end {
            self.possible = Possible::LIVE;
        }
        let latest = self.times.latest;
        let begun_by_stray = || self.strays.left(latest).any(|stray| stray.step.start);
        match judgement {
            Judgement::Right if request.mixed && !step.start => Verdict::Undetermined(Doubt::Overlap),
            Judgement::Right => Verdict::Right,
            _ if request.mixed && !step.start && (before.may_be_live() || begun_by_stray()) => {
                Verdict::Undetermined(Doubt::Overlap)
            }
            Judgement::Undetermined => Verdict::Undetermined(Doubt::State),
            Judgement::Wrong { expected } if step.start => Verdict::Wrong { expected: vec![expected] },
            Judgement::Wrong { .. } | Judgement::NotRefused => {
                match self.strays.explain(before.sums(), sum.wrapping_sub(step.value), latest) {
                    Explained::No if before.may_be_live() => {
                        Verdict::Wrong { expected: before.sums().map(|sum| sum.wrapping_add(step.value)).collect() }
                    }
                    Explained::No => Verdict::NotRefused,
                    explained => {
                        // The answer was not wrong, so the state is no other than it says.
                        self.possible = Possible::UNKNOWN;
                        self.possible.accept(step, sum);
                        match explained {
                            Explained::Yes => Verdict::Right,
                            _ => Verdict::Undetermined(Doubt::Stragglers),
                        }
                    }
                }
            }
        }
    }

    fn refusal_alone(&mut self, step: &Step, before: Possible, at: Nanos, rules: &Rules) -> Verdict {
        let mut strays = self.strays.left(self.times.latest).peekable();
        let doubt = match () {
            () if step.start => None,
            () if before.may_be_absent() => Some(Doubt::State),
            () if is_idle(self.times, at, rules) => Some(Doubt::Idle),
            () if strays.peek().is_some() => Some(Doubt::Stragglers),
            () => None,
        };
        let had_to = before.has_to_refuse(step) && !strays.any(|stray| stray.step.start);
        self.possible = if doubt.is_some() { Possible::ABSENT } else { before.after_wrong_refusal(step) };
        match doubt {
            None => Verdict::WronglyRefused,
            Some(_) if had_to => Verdict::Right,
            Some(doubt) => Verdict::Undetermined(doubt),
        }
    }

    fn answered_among_others(
        &mut self,
        lane: Lane,
        number: u64,
        answer: order::Answer,
        at: Nanos,
        rules: &Rules,
    ) -> Verdict {
        let request = *self.streams[lane.index()].get(number).expect("the request waits");
        let mut histories = self.histories.take().unwrap_or_else(|| Box::new(self.begin_histories()));
        let given = Given { streams: &self.streams, strays: &self.strays, idle_limit: rules.idle_limit.map(nanos), at };
        let said = match answer {
            order::Answer::Sum(sum) => Prediction::Sum(Some(sum)),
            order::Answer::Refused => Prediction::Refused,
        };
        let found = if self.strays.in_fog(request.sent_at) {
            Found::TooMany
        } else {
            histories.answer(&given, lane.index(), number, said)
        };
        match found {
            Found::Explained(could) => {
                if request.mixed {
                    // Whose sum it is that the model keeps, or whether it keeps one, was decided where they were executed.
                    histories.forget_sums();
                }
                self.histories = Some(histories);
                let mixed = request.mixed && !request.step.start;
                judge_possible(answer, &could, if mixed { Doubt::Overlap } else { Doubt::State })
            }
            Found::Contradiction(could) => {
                self.times.latest = self.times.latest.max(request.sent_at);
                // One fault is one violation: what it leaves is not known until all that is under way is answered.
                self.lose_sight(Doubt::State);
                match answer {
                    order::Answer::Refused => Verdict::WronglyRefused,
                    order::Answer::Sum(_) if could.sums.is_empty() => Verdict::NotRefused,
                    order::Answer::Sum(_) => Verdict::Wrong { expected: could.sums },
                }
            }
            Found::TooMany => {
                self.times.latest = self.times.latest.max(request.sent_at);
                self.lose_sight(Doubt::Orders);
                judge_in_doubt(&request.step, answer, Doubt::Orders)
            }
        }
    }

    fn begin_histories(&self) -> Histories {
        let taken = std::array::from_fn(|lane| self.streams.get(lane).map_or(0, Stream::first));
        let from = std::array::from_fn(|cut| self.strays.cuts.get(cut).map_or(0, |cut| cut.from));
        let node = |state| Node { state, taken, from, times: self.times };
        Histories::new(self.possible.states().map(node).collect())
    }

    /// Where sequences may overlap from now on in a model that would mix them, their sums tell nothing.
    fn look_for_overlap(&mut self, at: Nanos, rules: &Rules) {
        let idle_since = rules.idle_limit.map_or(Some(at), |limit| at.checked_sub(nanos(limit)));
        let (cuts, fog) = self.strays.unfinished(at);
        let cuts = cuts.map(|cut| Summary::of(cut.iter(), idle_since));
        let streams = self.streams.iter().map(|stream| Summary::of(stream.requests(), idle_since));
        let all: Vec<_> = streams.chain(cuts).chain(fog.map(Summary::unknown)).collect();
        if overlap::may_overlap(&all, idle_since) {
            self.overlap.begin(self.sent);
            self.possible = self.possible.with_any_sum();
            if let Some(histories) = &mut self.histories {
                histories.forget_sums();
            }
            let strays = self.strays.cuts.iter_mut().flat_map(|cut| &mut cut.requests);
            for request in self.streams.iter_mut().flat_map(Stream::requests_mut).chain(strays) {
                request.mixed = true;
            }
        }
    }

    fn end_overlap(&mut self, at: Nanos) {
        let (cuts, fog) = self.strays.unfinished(at);
        let requests = self.streams.iter().flat_map(Stream::requests).chain(cuts.flatten());
        let unfinished = requests.filter(|request| request.fate != Fate::Answered).map(|request| request.serial);
        self.overlap.end_without(unfinished.chain(fog.map(|_| 0)).min());
    }

    /// Keeps what the order of the steps could be told from, since the state was last known.
    fn keep_evidence(&mut self, request: &Request, answer: Option<(Nanos, order::Answer)>) {
        if self.evidence.len() < EVIDENCE_MAX {
            self.evidence.push(Operation { step: request.step, sent_at: request.sent_at, answer });
        }
    }

    /// That no order of the steps explains the answers, in a sentence; none where one does, or it cannot be told.
    pub(super) fn order(&self) -> Option<String> {
        let is_whole = !self.evidence.is_empty() && self.evidence.len() < EVIDENCE_MAX;
        let open = self.streams.iter().flat_map(Stream::waiting).filter(|request| request.counts());
        let open = open.map(|request| Operation { step: request.step, sent_at: request.sent_at, answer: None });
        let all: Vec<_> = self.evidence.iter().copied().chain(open).collect();
        let verdict = is_whole.then(|| order::decide(&all, self.held_before))?;
        let before = match self.held_before {
            State::Absent => "there was no sequence".to_owned(),
            State::Live(Some(sum)) => format!("the sum was {sum}"),
            State::Live(None) => "the sum was not known".to_owned(),
        };
        matches!(verdict, order::Verdict::Contradiction { .. }).then(|| format!("before, {before}; {verdict}"))
    }

    /// How many states and orders are kept, and how many requests.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        let requests = self.streams.iter().map(|stream| stream.requests().count()).sum::<usize>();
        let strays = self.strays.cuts.iter().map(|cut| cut.requests.len()).sum::<usize>();
        let states = self.histories.as_ref().map_or(self.possible.states().count(), |histories| histories.len());
        (states, requests + strays)
    }

    /// Whether the server may hold this, where nothing is under way.
    #[cfg(test)]
    pub(super) fn may_hold(&self, held: State, at: Nanos, rules: &Rules) -> bool {
        let idle_limit = rules.idle_limit.map(nanos);
        let given = Given { streams: &self.streams, strays: &self.strays, idle_limit, at };
        let is_it = |state| match (state, held) {
            (State::Live(Some(sum)), State::Live(Some(held))) => sum == held,
            (state, held) => (state == State::Absent) == (held == State::Absent),
        };
        self.strays.in_fog(at) || self.begin_histories().may_come_to(&given, is_it)
    }
}

/// All streams but this one.
fn others(streams: &mut [Stream], lane: Lane) -> impl Iterator<Item = &mut Stream> {
    streams.iter_mut().enumerate().filter(move |(its, _)| *its != lane.index()).map(|(_, stream)| stream)
}

/// Whether the sequence may have gone idle: the server counts from the arrival of the last step that it accepted, to some moment
/// before the refusal came.
fn is_idle(times: Times, at: Nanos, rules: &Rules) -> bool {
    let since = at.saturating_sub(times.accepted);
    rules.idle_limit.is_none_or(|limit| since >= nanos(limit))
}

/// Where nothing is known, a START is accepted all the same, and its sum is its value.
fn judge_in_doubt(step: &Step, answer: order::Answer, doubt: Doubt) -> Verdict {
    match answer {
        order::Answer::Sum(sum) if step.start && sum != step.value => Verdict::Wrong { expected: vec![step.value] },
        order::Answer::Sum(_) if step.start => Verdict::Right,
        order::Answer::Refused if step.start => Verdict::WronglyRefused,
        _ => Verdict::Undetermined(doubt),
    }
}

fn judge_possible(answer: order::Answer, could: &Possibilities, doubt: Doubt) -> Verdict {
    match answer {
        order::Answer::Sum(_) if could.any_sum => Verdict::Undetermined(doubt),
        order::Answer::Refused if could.any_sum || !could.sums.is_empty() => Verdict::Undetermined(Doubt::State),
        _ => Verdict::Right,
    }
}

fn nanos(time: std::time::Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
