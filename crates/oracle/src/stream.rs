//! What one stream of a conversation carries, from the first request that is not answered yet.

use std::collections::VecDeque;

use workload::{
    burst,
    conversation::{Lane, Transport},
    event::Nanos,
    sequence::{RequestId, Step},
};

/// The most runs of requests that a stream is remembered to have carried exactly.
const RUNS_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) lane: Lane,
    /// Its number on its lane.
    pub(super) number: u64,
    pub(super) step: Step,
    pub(super) sent_at: Nanos,
    /// The how-manieth request of its correlation ID it is.
    pub(super) serial: u64,
    pub(super) fate: Fate,
    /// Whether the answer to a later request of its stream came first.
    pub(super) overtaken: bool,
    /// Whether the model may mix its sequence with another one of its ID.
    pub(super) mixed: bool,
    /// Which of its ID's sequences it is of, where that is certain.
    pub(super) sequence: Option<u64>,
}

impl Request {
    /// Whether it can change what the server holds.
    pub(super) fn counts(&self) -> bool {
        self.step.flaw().is_none()
    }
}

/// How far a request has come, as the client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its answer may come.
    Waiting,
    /// It is not waited for any more.
    GivenUp,
    /// It was answered.
    Answered,
}

/// The requests of a stream, by their number on its lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) requests: VecDeque<Request>,
    /// The number of the first of them.
    pub(super) first: u64,
    /// The names of all requests that the stream has carried: runs, because between two of them those of another stream may have been
    /// sent. Those of long ago are one run.
    carried: VecDeque<(RequestId, RequestId)>,
    pub(super) opened_at: Nanos,
    pub(super) transport: Option<Transport>,
    /// Whether it has brought an answer.
    pub(super) is_answered: bool,
}

impl Stream {
    pub(super) fn open(&mut self, at: Nanos, transport: Transport) {
        self.carried.clear();
        (self.opened_at, self.transport) = (at, Some(transport));
        self.is_answered = false;
    }

    /// A request is sent; `follows` tells whether the one that was sent before it on the correlation ID went the same way.
    pub(super) fn send(&mut self, request: Request, follows: bool) {
        let name = request.step.request;
        match self.carried.back_mut().filter(|_| follows) {
            Some((_, last)) => *last = name,
            None => self.carried.push_back((name, name)),
        }
        if self.carried.len() > RUNS_MAX
            && let Some((first, _)) = self.carried.pop_front()
            && let Some((begin, _)) = self.carried.front_mut()
        {
            *begin = first;
        }
        self.requests.push_back(request);
    }

    /// The requests that may be answered.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.fate == Fate::Waiting)
    }

    /// Whether nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.requests.is_empty()
    }

    /// The request with this name, where its answer may come.
    pub(super) fn asked(&self, name: RequestId) -> Option<Request> {
        self.waiting().find(|request| request.step.request == name).copied()
    }

    /// The request with this number, where it is kept.
    pub(super) fn get(&self, number: u64) -> Option<&Request> {
        let index = number.checked_sub(self.first)?;
        self.requests.get(usize::try_from(index).ok()?)
    }

    /// The number of the next request that is sent.
    pub(super) fn end(&self) -> u64 {
        self.first + self.requests.len() as u64
    }

    /// Whether no answer to this request is expected any more.
    pub(super) fn is_settled(&self, number: u64) -> bool {
        number < self.first || self.get(number).is_some_and(|request| request.fate != Fate::Waiting)
    }

    /// The answer to this request has come; those before it that wait are overtaken.
    pub(super) fn settle(&mut self, number: u64) {
        self.is_answered = true;
        let index = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        for request in self.requests.iter_mut().take(index) {
            request.overtaken = true;
        }
        if let Some(request) = self.requests.get_mut(index) {
            request.fate = Fate::Answered;
        }
        while self.requests.front().is_some_and(|request| request.fate == Fate::Answered) {
            self.requests.pop_front();
            self.first += 1;
        }
        burst::forget(&mut self.requests);
    }

    /// Gives up waiting for the oldest request.
    pub(super) fn give_up(&mut self) -> Option<Request> {
        let oldest = self.requests.iter_mut().find(|request| request.fate == Fate::Waiting)?;
        oldest.fate = Fate::GivenUp;
        Some(*oldest)
    }

    /// The stream is gone: hands over what was not answered.
    pub(super) fn cut(&mut self) -> Vec<Request> {
        self.first = self.end();
        self.requests.drain(..).filter(|request| request.fate != Fate::Answered).collect()
    }

    pub(super) fn has_carried(&self, name: RequestId) -> bool {
        self.carried.iter().any(|(first, last)| (first..=last).contains(&&name))
    }
}
