//! What is asked of what is known of a correlation ID.

#[cfg(test)]
use super::super::states::State;
use super::{
    super::{
        Disorder, Rules,
        order::{self, Operation},
        stream::Stream,
    },
    EVIDENCE_MAX, Knowledge,
};
use crate::nanos;
use workload::{conversation::Lane, event::Nanos, sequence::Step};

impl Knowledge {
    /// Whether something that happened at this time may have met an exchange of the model or the server.
    pub(crate) fn may_be_disturbed(&self, at: Nanos) -> bool {
        at < self.disturbed_until
    }

    /// Whether a stream may break for an exchange of the model or the server. One that was opened soon after a restart may be on a
    /// connection whose end is still on its way through the network, until it brings an answer.
    pub(crate) fn may_break(&mut self, lane: Lane, rules: &Rules) -> bool {
        let Stream { opened_at, is_answered, .. } = *self.stream(lane);
        let arrives = match self.disturbed_until {
            until if until == 0 || !rules.restarts => until,
            until => until.saturating_add(nanos(rules.straggling)),
        };
        self.may_be_disturbed(opened_at) || (!is_answered && opened_at < arrives)
    }

    /// Whether a stream was there before an exchange of the model or the server was over.
    pub(crate) fn is_disturbed(&mut self, lane: Lane) -> bool {
        let opened_at = self.stream(lane).opened_at;
        self.may_be_disturbed(opened_at)
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = (Lane, &Stream)> {
        (0..).map(Lane).zip(&self.streams)
    }

    /// Whether the ID certainly has no sequence when the step comes.
    pub(crate) fn has_to_refuse(&self, step: &Step) -> bool {
        let may_be_begun = || {
            let under_way = self.streams.iter().flat_map(Stream::waiting).filter(|request| request.counts());
            self.strays.left(self.times.latest).chain(under_way).any(|request| request.step.start)
        };
        self.histories.is_none() && self.lost.is_none() && self.possible.has_to_refuse(step) && !may_be_begun()
    }

    /// That no order of the steps explains the answers; none where one does, or it cannot be told.
    pub(crate) fn disorder(&self) -> Option<Disorder> {
        let is_whole = !self.evidence.is_empty() && self.evidence.len() < EVIDENCE_MAX;
        let open = self.streams.iter().flat_map(Stream::waiting).filter(|request| request.counts());
        let open = open.map(|request| Operation { step: request.step, sent_at: request.sent_at, answer: None });
        let all: Vec<_> = self.evidence.iter().copied().chain(open).collect();
        match is_whole.then(|| order::decide(&all, self.held_before))? {
            order::OrderFound::Contradiction { prefix, unexplained } => {
                Some(Disorder { before: self.held_before, prefix, unexplained })
            }
            order::OrderFound::Explained(_) | order::OrderFound::Undecided => None,
        }
    }

    /// How many states and orders are kept, and how many requests.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        let requests = self.streams.iter().map(|stream| stream.requests.len()).sum::<usize>();
        let strays = self.strays.cuts.iter().map(|cut| cut.requests.len()).sum::<usize>();
        let states = self.histories.as_ref().map_or(self.possible.states().count(), |histories| histories.len());
        (states, requests + strays)
    }

    /// Whether the server may hold this, where nothing is under way.
    #[cfg(test)]
    pub(crate) fn may_hold(&self, held: State, at: Nanos, rules: &Rules) -> bool {
        let given = self.given(at, rules);
        let is_it = |state| match (state, held) {
            (State::Live(Some(sum)), State::Live(Some(held))) => sum == held,
            (state, held) => (state == State::Absent) == (held == State::Absent),
        };
        self.strays.in_fog(at) || self.begin_histories().may_come_to(&given, is_it)
    }
}
