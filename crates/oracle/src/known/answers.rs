//! How an answer narrows what is known.

use super::{
    super::{
        Doubt, Rules,
        histories::{Found, Given, Possibilities, Prediction, Times},
        order::Answer,
        states::{Judged, Possible, State},
        strays::Explained,
        stream::{Request, Stream},
    },
    Knowledge,
};
use crate::nanos;
use workload::{event::Nanos, number::Number, sequence::Step};

impl Knowledge {
    /// Narrows what is known by the answer to a request that waits.
    pub(crate) fn answer(&mut self, request: &Request, answer: Answer, at: Nanos, rules: &Rules) -> Judged {
        if rules.mixes {
            self.look_for_overlap(at, rules);
        }
        // It may be mixed by now.
        let request = *self.streams[request.lane.index()].get(request.number).expect("the request waits");
        if matches!(answer, Answer::Sum(_)) {
            self.expiry.executed(&request);
        }
        self.unordered = self.is_beside_others(&request) || (self.unordered && !request.step.start);
        let is_alone = self.is_alone(&request);
        let is_disturbed = self.may_be_disturbed(request.sent_at);
        if is_disturbed && !is_alone && self.lost.is_none() {
            self.lose_sight(Doubt::Disturbed);
        }
        if !is_alone && self.evidence.is_empty() {
            let mut states = self.possible.states();
            self.held_before = states.next().filter(|_| states.next().is_none()).unwrap_or(State::Live(None));
        }
        let verdict = if is_alone {
            self.evidence.clear();
            self.answered_alone(&request, answer, at, rules)
        } else if let Some(doubt) = self.lost {
            self.times.latest = self.times.latest.max(request.sent_at);
            judge_in_doubt(&request.step, answer, doubt)
        } else {
            self.answered_among_others(&request, answer, at, rules)
        };
        if !is_alone {
            self.keep_evidence(&request, Some((at, answer)));
        }
        if is_disturbed {
            // What it left may be lost since.
            self.possible = self.possible.or_absent();
        }
        self.settle(&request, at, rules);
        verdict
    }

    /// A request was answered in a way that does not tell what it did.
    pub(crate) fn answer_without_news(&mut self, request: &Request, at: Nanos, rules: &Rules, doubt: Doubt) {
        self.times.take(request.sent_at, true);
        if self.is_alone(request) {
            self.possible = Possible::UNKNOWN;
        } else {
            self.lose_sight(doubt);
        }
        self.settle(request, at, rules);
    }

    /// The instance failed that was to execute a request: the request changed nothing that outlives the instance.
    pub(crate) fn answer_unexecuted(&mut self, request: &Request, at: Nanos, rules: &Rules) {
        if !self.is_alone(request) {
            return self.answer_without_news(request, at, rules, Doubt::Disturbed);
        }
        self.times.take(request.sent_at, true);
        self.possible = if request.step.start { Possible::ABSENT } else { self.possible.or_absent() };
        self.settle(request, at, rules);
    }

    /// A request was rejected that changes nothing.
    pub(crate) fn answer_unchanged(&mut self, request: &Request, at: Nanos, rules: &Rules) {
        let is_first = self.streams[request.lane.index()].first == request.number;
        if self.is_alone(request) {
            self.times.take(request.sent_at, false);
        } else if self.lost.is_none() && (self.histories.is_some() || !is_first) {
            let mut histories = self.histories.take().unwrap_or_else(|| Box::new(self.begin_histories()));
            let found = histories.answer(&self.given(at, rules), request, Prediction::Nothing);
            self.histories = Some(histories);
            if matches!(found, Found::TooMany) {
                self.lose_sight(Doubt::Orders);
            }
        }
        self.settle(request, at, rules);
    }

    /// A request was rejected with all of its sequence that waited for a slot; returns whether that may be.
    pub(crate) fn answer_expired(&mut self, request: &Request, at: Nanos, rules: &Rules) -> bool {
        let (cuts, fog) = self.strays.unfinished(at);
        let waiting = self.streams.iter().flat_map(Stream::waiting).chain(cuts.flatten());
        let allowed =
            self.expiry.allows(request, waiting, at) || fog.is_some() || self.may_be_disturbed(request.sent_at);
        if allowed && self.is_alone(request) {
            self.times.take(request.sent_at, false);
            self.possible = Possible::ABSENT;
            self.settle(request, at, rules);
        } else {
            self.answer_without_news(request, at, rules, Doubt::State);
        }
        allowed
    }

    /// Whether no other request of the ID is under way that may come before this one, and the state is one set.
    fn is_alone(&self, request: &Request) -> bool {
        self.histories.is_none()
            && self.lost.is_none()
            && self.streams[request.lane.index()].first == request.number
            && self.streams().all(|(other, stream)| other == request.lane || stream.is_quiet())
    }

    /// What an answer that came at this time is judged by besides the histories.
    pub(super) fn given(&self, at: Nanos, rules: &Rules) -> Given<'_> {
        Given { streams: &self.streams, strays: &self.strays, idle_limit: rules.idle_limit.map(nanos), at }
    }

    /// Whether what else is under way may have been rejected because it waited for a slot for too long.
    fn others_may_have_expired(&self, request: &Request, at: Nanos) -> bool {
        let waiting = || self.streams.iter().flat_map(Stream::waiting);
        // That it may be is no news yet.
        let mut expiry = self.expiry;
        waiting().any(|other| other.serial != request.serial && expiry.allows(other, waiting(), at))
    }

    fn answered_alone(&mut self, request: &Request, answer: Answer, at: Nanos, rules: &Rules) -> Judged {
        let before = self.possible;
        let latest = self.times.latest;
        let verdict = match answer {
            _ if self.strays.in_fog(request.sent_at) => {
                self.possible = Possible::UNKNOWN;
                judge_in_doubt(&request.step, answer, Doubt::Stragglers)
            }
            Answer::Sum(sum) => self.sum_alone(request, sum),
            Answer::Rejected => self.rejection_alone(&request.step, before, at, rules),
        };
        self.times.take(request.sent_at, matches!(answer, Answer::Sum(_)));
        debug_assert!(latest <= self.times.latest, "time goes on");
        verdict
    }

    fn sum_alone(&mut self, request: &Request, sum: Number) -> Judged {
        let step = &request.step;
        let before = self.possible;
        let judged = self.possible.accept(step, sum);
        if request.mixed && !step.end {
            self.possible = self.possible.with_any_sum();
        }
        let latest = self.times.latest;
        let begun_by_stray = || self.strays.left(latest).any(|stray| stray.step.start);
        match judged {
            Judged::Right if request.mixed && !step.start => Judged::Unjudged(Doubt::Overlap),
            Judged::Right => Judged::Right,
            _ if request.mixed && !step.start && (before.may_be_live() || begun_by_stray()) => {
                Judged::Unjudged(Doubt::Overlap)
            }
            Judged::Wrong(_) | Judged::NotRejected if !step.start => {
                match self.strays.explain(before.sums(), sum.wrapping_sub(step.value), latest) {
                    Explained::No if before.may_be_live() => {
                        Judged::Wrong(before.sums().map(|sum| sum.wrapping_add(step.value)).collect())
                    }
                    // A START of which nothing came may have begun a sequence.
                    Explained::No => match self.strays.left(latest).find(|stray| stray.step.start) {
                        Some(start) => Judged::Wrong(vec![start.step.value.wrapping_add(step.value)]),
                        None => Judged::NotRejected,
                    },
                    explained => {
                        // The answer was not wrong, so the state is no other than it says.
                        self.possible = Possible::UNKNOWN;
                        self.possible.accept(step, sum);
                        match explained {
                            Explained::Yes => Judged::Right,
                            _ => Judged::Unjudged(Doubt::Stragglers),
                        }
                    }
                }
            }
            judged => judged,
        }
    }

    fn rejection_alone(&mut self, step: &Step, before: Possible, at: Nanos, rules: &Rules) -> Judged {
        let mut strays = self.strays.left(self.times.latest).peekable();
        let doubt = match () {
            () if step.start => None,
            () if before.absent => Some(Doubt::State),
            () if is_idle(self.times, at, rules) => Some(Doubt::Idle),
            () if strays.peek().is_some() => Some(Doubt::Stragglers),
            () => None,
        };
        let had_to = before.has_to_reject(step) && !strays.any(|stray| stray.step.start);
        self.possible = if doubt.is_some() { Possible::ABSENT } else { before.after_wrong_rejection(step) };
        match doubt {
            None => Judged::WronglyRejected,
            Some(_) if had_to => Judged::Right,
            Some(doubt) => Judged::Unjudged(doubt),
        }
    }

    fn answered_among_others(&mut self, request: &Request, answer: Answer, at: Nanos, rules: &Rules) -> Judged {
        let mut histories = self.histories.take().unwrap_or_else(|| Box::new(self.begin_histories()));
        let said = match answer {
            Answer::Sum(sum) => Prediction::Sum(Some(sum)),
            Answer::Rejected => Prediction::Rejected,
        };
        let found = if self.strays.in_fog(request.sent_at) {
            Found::TooMany
        } else {
            histories.answer(&self.given(at, rules), request, said)
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
                let may_have_expired = self.others_may_have_expired(request, at);
                self.lose_sight(Doubt::State);
                match answer {
                    // Its START may have been rejected before, and that be told later.
                    Answer::Rejected if may_have_expired => Judged::Unjudged(Doubt::State),
                    Answer::Rejected => Judged::WronglyRejected,
                    Answer::Sum(_) if could.sums.is_empty() => Judged::NotRejected,
                    Answer::Sum(_) => Judged::Wrong(could.sums),
                }
            }
            Found::TooMany => {
                self.times.latest = self.times.latest.max(request.sent_at);
                self.lose_sight(Doubt::Orders);
                judge_in_doubt(&request.step, answer, Doubt::Orders)
            }
        }
    }
}

/// Whether the sequence may have gone idle: the server counts from the arrival of the last step that it accepted, to some moment
/// before the rejection came.
fn is_idle(times: Times, at: Nanos, rules: &Rules) -> bool {
    let since = at.saturating_sub(times.accepted);
    rules.idle_limit.is_none_or(|limit| since >= nanos(limit))
}

/// Where nothing is known, a START is accepted all the same, and its sum is its value.
fn judge_in_doubt(step: &Step, answer: Answer, doubt: Doubt) -> Judged {
    match answer {
        Answer::Sum(sum) if step.start && sum != step.value => Judged::Wrong(vec![step.value]),
        Answer::Sum(_) if step.start => Judged::Right,
        Answer::Rejected if step.start => Judged::WronglyRejected,
        _ => Judged::Unjudged(doubt),
    }
}

fn judge_possible(answer: Answer, could: &Possibilities, doubt: Doubt) -> Judged {
    match answer {
        Answer::Sum(_) if could.any_sum => Judged::Unjudged(doubt),
        Answer::Rejected if could.any_sum || !could.sums.is_empty() => Judged::Unjudged(Doubt::State),
        _ => Judged::Right,
    }
}
