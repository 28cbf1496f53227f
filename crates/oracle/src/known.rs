//! What is known of one correlation ID, from what was sent, what was cut, and how it was answered.

mod answers;
#[cfg(test)]
mod tests;

use super::{
    Disorder, Doubt, Rules,
    expiry::Expiry,
    histories::{Histories, Node, Times},
    order::{self, Operation, OrderFound},
    overlap::{self, Summary},
    seat::Seat,
    served::Served,
    states::{Possible, State},
    strays::{CUTS_MAX, Strays},
    stream::{Fate, Request, Stream},
};
use crate::nanos;
use workload::{
    conversation::Lane,
    event::{Disturbance, Nanos},
    number::Number,
    sequence::{CorrelationId, IdForm, RequestId, Step},
};

/// The most steps whose order is kept as evidence.
const EVIDENCE_MAX: usize = 4096;

#[derive(Clone, Debug)]
pub(super) struct Knowledge {
    pub(super) correlation_id: CorrelationId,
    pub(super) form: IdForm,
    streams: Vec<Stream>,
    pub(super) strays: Strays,
    /// What the server may hold, where `histories` does not say it.
    possible: Possible,
    pub(super) times: Times,
    /// While several streams have requests under way.
    histories: Option<Box<Histories>>,
    /// Nothing is known until all that is under way is answered.
    lost: Option<Doubt>,
    /// Up to which request two sequences of the ID may overlap, and be mixed; none where they may not.
    overlap: Option<u64>,
    expiry: Expiry,
    pub(super) seat: Seat,
    pub(super) served: Served,
    sent: u64,
    last_lane: Lane,
    /// What was answered while several streams had requests under way.
    evidence: Vec<Operation>,
    /// What the server held before that.
    held_before: State,
    /// Until when the model or the server was being exchanged.
    disturbed_until: Nanos,
    /// Whether an instance of the model fails just now, and what was sent to it was sent in one order: then all is known but whether the
    /// sequence is lost.
    fails: bool,
    /// Whether a START of an iterative model was rejected because the sequence before may not have been ended yet.
    pub(super) met_an_end: bool,
    /// Whether steps of the sequence may have been executed in another order than they were sent in: sums do not tell that, and outputs of a
    /// model without a formula do.
    unordered: bool,
    /// When the last answer came.
    pub(super) last_answer: Nanos,
}

impl Knowledge {
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
            overlap: None,
            expiry: Expiry::default(),
            seat: Seat::default(),
            served: Served::default(),
            sent: 0,
            last_lane: Lane::FIRST,
            evidence: Vec::new(),
            held_before: State::Live(None),
            disturbed_until: 0,
            fails: false,
            met_an_end: false,
            unordered: false,
            last_answer: 0,
        }
    }

    /// The model or the server is being exchanged, or was: of what was begun before, anything may become.
    pub(super) fn disturb(&mut self, disturbance: Disturbance, at: Nanos) {
        self.disturbed_until = match disturbance {
            Disturbance::Begins | Disturbance::InstanceFails => Nanos::MAX,
            Disturbance::IsOver => at,
        };
        let fails = disturbance == Disturbance::InstanceFails && self.is_in_order();
        let failed = std::mem::replace(&mut self.fails, fails);
        if self.fails || (failed && disturbance == Disturbance::IsOver) {
            self.possible = self.possible.or_absent();
            return;
        }
        self.strays.lose_while_disturbed(disturbance, at);
        self.lose_sight(Doubt::Disturbed);
        self.tidy();
    }

    /// Whether all that is under way comes in one order.
    fn is_in_order(&self) -> bool {
        let busy = self.streams.iter().filter(|stream| !stream.is_quiet()).count();
        self.histories.is_none() && self.lost.is_none() && self.strays.are_none() && busy < 2
    }

    pub(super) fn stream(&mut self, lane: Lane) -> &mut Stream {
        if self.streams.len() <= lane.index() {
            self.streams.resize_with(lane.index() + 1, Stream::default);
        }
        &mut self.streams[lane.index()]
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
            lane,
            number: self.stream(lane).end(),
            step,
            sent_at: at,
            serial: self.sent,
            fate: Fate::Waiting,
            overtaken: false,
            mixed: self.overlap.is_some() || rules.arithmetic.formula.is_stateless(),
            sequence,
        };
        self.stream(lane).send(request, follows);
        if rules.mixes {
            self.look_for_overlap(at, rules);
        }
    }

    /// A stream is gone; returns how many of its requests will never be settled.
    pub(super) fn cut(&mut self, lane: Lane, at: Nanos, rules: &Rules) -> usize {
        let abandoned = self.stream(lane).waiting().count();
        let until = at.saturating_add(nanos(rules.straggling));
        let cut = Some(self.strays.cuts.len()).filter(|cut| *cut < CUTS_MAX);
        let stream = &mut self.streams[lane.index()];
        // What was taken in before an answered request may still be cancelled, and its sequence with it.
        let is_overtaken = stream.waiting().any(|request| request.overtaken);
        if let Some(histories) = &mut self.histories {
            histories.cut(lane.index(), stream, cut.filter(|_| !stream.is_quiet()));
        }
        let requests: Vec<_> = stream.cut().into_iter().filter(Request::counts).collect();
        if requests.iter().any(|request| request.step.start) {
            self.seat.lose(until, others(&mut self.streams, lane));
        }
        if !self.evidence.is_empty() {
            for request in &requests {
                self.keep_evidence(request, None);
            }
        }
        let may_come = !requests.is_empty();
        self.unordered |= may_come;
        self.strays.add(requests, until);
        if may_come && self.fails {
            // The failing instance may hold up what is still on its way.
            self.disturb(Disturbance::Begins, at);
        }
        if may_come && rules.arithmetic.answers.are_iterative() {
            // Each of its executions may come in between those of a later one.
            self.strays.lose_all(until);
        }
        if self.strays.in_fog(at) || is_overtaken {
            self.lose_sight(Doubt::Stragglers);
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

    /// Whether something that happened at this time may have met an exchange of the model or the server.
    pub(super) fn may_be_disturbed(&self, at: Nanos) -> bool {
        at < self.disturbed_until
    }

    /// Whether a stream may break for an exchange of the model or the server. One that was opened soon after a restart may be on a
    /// connection whose end is still on its way through the network, until it brings an answer.
    pub(super) fn may_break(&mut self, lane: Lane, rules: &Rules) -> bool {
        let Stream { opened_at, is_answered, .. } = *self.stream(lane);
        let arrives = match self.disturbed_until {
            until if until == 0 || !rules.restarts => until,
            until => until.saturating_add(nanos(rules.straggling)),
        };
        self.may_be_disturbed(opened_at) || (!is_answered && opened_at < arrives)
    }

    /// Whether a stream was there before an exchange of the model or the server was over.
    pub(super) fn is_disturbed(&mut self, lane: Lane) -> bool {
        let opened_at = self.stream(lane).opened_at;
        self.may_be_disturbed(opened_at)
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = (Lane, &Stream)> {
        (0..).map(Lane).zip(&self.streams)
    }

    /// The right answers to a request, as far as they are known.
    pub(super) fn expected(&self, lane: Lane, request: Option<RequestId>, rules: &Rules) -> [Option<Number>; 2] {
        let stream = self.streams.get(lane.index());
        let Some(asked) = stream.zip(request).and_then(|(stream, request)| stream.asked(request)) else {
            return [None; 2];
        };
        let id = self.correlation_id.told(self.form);
        let answer = |sum| rules.arithmetic.answer(sum, &asked.step, id);
        if asked.step.start {
            return [Some(answer(asked.step.value)), None];
        }
        let mut sums = self.possible.sums().map(|sum| answer(sum.wrapping_add(asked.step.value)));
        [sums.next(), sums.next()]
    }

    /// A sum that is none was taken for an answer's: what the server holds then is not known.
    pub(super) fn forget_sum(&mut self, sum: Number) {
        self.possible = self.possible.without(sum);
    }

    /// Whether what a request was executed on may have come about otherwise than by the steps that are known, in their order: requests of
    /// streams that were cut may be executed in between, and streams do not order each other's requests.
    pub(super) fn may_be_in_another_order(&self, request: &Request) -> bool {
        let stray = || self.strays.left(self.times.latest).next().is_some();
        let goes_on = || self.unordered && !request.step.start;
        stray() || goes_on() || self.is_beside_others(request)
    }

    /// Whether another stream has requests of the ID under way.
    fn is_beside_others(&self, request: &Request) -> bool {
        self.histories.is_some() || self.streams().any(|(lane, stream)| lane != request.lane && !stream.is_quiet())
    }

    /// Whether the ID certainly has no sequence when the step comes.
    pub(super) fn has_to_reject(&self, step: &Step) -> bool {
        let may_be_begun =
            || self.strays.left(self.times.latest).chain(self.waiting()).any(|request| request.step.start);
        self.histories.is_none() && self.lost.is_none() && self.possible.has_to_reject(step) && !may_be_begun()
    }

    /// What waits for an answer and can change what the server holds.
    fn waiting(&self) -> impl Iterator<Item = &Request> {
        self.streams.iter().flat_map(Stream::waiting).filter(|request| request.counts())
    }

    /// That no order of the steps explains the answers; none where one does, or it cannot be told.
    pub(super) fn disorder(&self) -> Option<Disorder> {
        let is_whole = !self.evidence.is_empty() && self.evidence.len() < EVIDENCE_MAX;
        let open =
            self.waiting().map(|request| Operation { step: request.step, sent_at: request.sent_at, answer: None });
        let all: Vec<_> = self.evidence.iter().copied().chain(open).collect();
        match is_whole.then(|| order::decide(&all, self.held_before))? {
            OrderFound::Contradiction(disorder) => Some(disorder),
            OrderFound::Explained(_) | OrderFound::Undecided => None,
        }
    }

    fn settle(&mut self, request: &Request, at: Nanos, rules: &Rules) {
        self.last_answer = at;
        self.streams[request.lane.index()].settle(request.number);
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

    fn begin_histories(&self) -> Histories {
        let taken = std::array::from_fn(|lane| self.streams.get(lane).map_or(0, |stream| stream.first));
        let from = std::array::from_fn(|cut| self.strays.cuts.get(cut).map_or(0, |cut| cut.from));
        let node = |state| Node { state, taken, from, times: self.times };
        Histories::new(self.possible.states().map(node).collect())
    }

    /// Where sequences may overlap from now on in a model that would mix them, their sums tell nothing.
    fn look_for_overlap(&mut self, at: Nanos, rules: &Rules) {
        let idle_since = rules.idle_limit.map_or(Some(at), |limit| at.checked_sub(nanos(limit)));
        let (cuts, fog) = self.strays.unfinished(at);
        let cuts = cuts.map(|cut| Summary::of(cut.iter(), idle_since));
        let streams = self.streams.iter().map(|stream| Summary::of(stream.requests.iter(), idle_since));
        let all: Vec<_> = streams.chain(cuts).chain(fog.map(Summary::unknown)).collect();
        if overlap::may_overlap(&all, idle_since) {
            self.overlap = Some(self.sent);
            self.possible = self.possible.with_any_sum();
            if let Some(histories) = &mut self.histories {
                histories.forget_sums();
            }
            let strays = self.strays.cuts.iter_mut().flat_map(|cut| &mut cut.requests);
            for request in self.streams.iter_mut().flat_map(|stream| &mut stream.requests).chain(strays) {
                request.mixed = true;
            }
        }
    }

    /// Nothing overlaps any more where all is over that was sent before it could.
    fn end_overlap(&mut self, at: Nanos) {
        let (cuts, fog) = self.strays.unfinished(at);
        let requests = self.streams.iter().flat_map(|stream| &stream.requests).chain(cuts.flatten());
        let unfinished = requests.filter(|request| request.fate != Fate::Answered).map(|request| request.serial);
        let oldest = unfinished.chain(fog.map(|_| 0)).min();
        self.overlap = self.overlap.filter(|last| oldest.is_some_and(|oldest| oldest <= *last));
    }

    /// Keeps what the order of the steps could be told from, since the state was last known.
    fn keep_evidence(&mut self, request: &Request, answer: Option<(Nanos, order::Answer)>) {
        if self.evidence.len() < EVIDENCE_MAX {
            self.evidence.push(Operation { step: request.step, sent_at: request.sent_at, answer });
        }
    }
}

/// All streams but this one.
fn others(streams: &mut [Stream], lane: Lane) -> impl Iterator<Item = &mut Stream> {
    streams.iter_mut().enumerate().filter(move |(its, _)| *its != lane.index()).map(|(_, stream)| stream)
}
