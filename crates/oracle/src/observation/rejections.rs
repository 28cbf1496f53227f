//! Judges the errors that a request was answered with.

use std::{mem, time::Duration};

use super::{
    super::{
        Doubt, Evidence, Outcome, ViolationKind, ms,
        order::Answer,
        rejection::Reason,
        states::Judged,
        stream::Request,
        words::{OtherWords, Words},
    },
    Observation, PASSED_LIMIT, WANTS_START,
};
use workload::event::Code;

/// How long behind the last answer to an iterative request the server may end its sequence.
const END_COMES_WITHIN: Duration = Duration::from_millis(20);

impl Observation<'_> {
    pub(super) fn rejected(&mut self, request: &Request, text: &str) {
        let step = &request.step;
        if step.start && self.may_be_ended_by_the_one_before(request) {
            return self.without_news(request, Outcome::Rejected, Doubt::Overlap);
        }
        let since_ms = ms(self.at.saturating_sub(self.id.times.accepted));
        let verdict = self.id.answer(request, Answer::Rejected, self.at, self.rules);
        if verdict == Judged::WronglyRejected {
            let since_ms = (!step.start).then_some(since_ms);
            let evidence = Evidence::Rejected { since_ms, error: text.to_owned(), disorder: self.disorder() };
            self.violation(ViolationKind::SpuriousStartError, Some(step), evidence);
        }
        self.settle(request, Outcome::Rejected, None, verdict.doubt());
    }

    /// An error in words that are not known: taken for a rejection for want of START, or for a time limit, where its code may be that of
    /// one, and a correct server may reject the request just now. Returns whether it was.
    pub(super) fn rejected_in_other_words(&mut self, request: &Request, code: Option<Code>, text: &str) -> bool {
        if self.rules.words != Words::Unknown {
            return false;
        }
        let (mut rejected, mut expired) = (self.id.clone(), self.id.clone());
        let verdict = rejected.answer(request, Answer::Rejected, self.at, self.rules);
        let may_want_start = !request.step.start && verdict != Judged::WronglyRejected;
        let (of, after, outcome) = if may_want_start && Reason::Invalid.may_have(code) {
            (WANTS_START, rejected, Outcome::Rejected)
        } else if Reason::Unavailable.may_have(code) && expired.answer_expired(request, self.at, self.rules) {
            (PASSED_LIMIT, expired, Outcome::Expired)
        } else {
            return false;
        };
        *self.id = after;
        let doubt = verdict.doubt().filter(|_| outcome == Outcome::Rejected);
        self.settle(request, outcome, None, doubt);
        self.was_in_other_words(of, text.to_owned());
        true
    }

    /// The rejection of this was taken for one although the server said it otherwise than Triton does.
    pub(in super::super) fn was_in_other_words(&mut self, of: &'static str, text: String) {
        self.ruling.other_words = Some(OtherWords { of, text });
    }

    /// Whether a request to an iterative model may be ended with the one before it: the last answer to that one comes a moment before
    /// the server ends its sequence. It is seldom enough to be met once by an ID.
    fn may_be_ended_by_the_one_before(&mut self, request: &Request) -> bool {
        let since = Duration::from_nanos(request.sent_at.saturating_sub(self.id.last_answer));
        self.rules.arithmetic.answers.are_iterative()
            && since < END_COMES_WITHIN
            && !mem::replace(&mut self.id.met_an_end, true)
    }

    /// A request that has to be rejected for its flaw, and changes nothing.
    pub(super) fn flawed(&mut self, request: &Request, error: Option<&String>, code: Option<Code>) {
        let step = &request.step;
        let Some(flaw) = step.flaw() else { return };
        let may_be_in_other_words = self.rules.words == Words::Unknown && Reason::may_be_of_flaw(flaw, code);
        let (kind, outcome) = match error {
            Some(text) if flaw.is_rejected_with(text) || may_be_in_other_words => {
                if flaw.is_rejected_with(text) {
                    self.check_code(step, (Reason::of_flaw(flaw, text), flaw.name()), code, text);
                } else {
                    self.was_in_other_words(flaw.name(), text.to_owned());
                }
                self.id.answer_unchanged(request, self.at, self.rules);
                return self.settle(request, Outcome::Rejected, None, None);
            }
            Some(_) => (ViolationKind::UnexpectedError, Outcome::Failed),
            None => (ViolationKind::FlawAccepted, Outcome::Completed),
        };
        self.violation(kind, Some(step), Evidence::Flaw { flaw, error: error.cloned() });
        self.without_news(request, outcome, Doubt::State);
    }

    /// The step's sequence waited for a slot for too long, and is rejected as a whole.
    pub(super) fn expired(&mut self, request: &Request, text: &str) {
        let step = &request.step;
        let allowed = self.id.answer_expired(request, self.at, self.rules);
        if !allowed {
            let evidence = Evidence::Expired { error: text.to_owned() };
            self.violation(ViolationKind::SpuriousTimeout, Some(step), evidence);
        }
        self.settle(request, Outcome::Expired, None, None);
    }

    /// The server may have executed the step, and may have ended the sequence.
    pub(super) fn failed(&mut self, request: &Request, code: Option<Code>, text: &str) {
        let has_to_be_rejected = self.id.has_to_reject(&request.step);
        let evidence = Evidence::Failed { has_to_be_rejected, code, error: text.to_owned() };
        self.violation(ViolationKind::UnexpectedError, Some(&request.step), evidence);
        self.without_news(request, Outcome::Failed, Doubt::State);
    }
}
