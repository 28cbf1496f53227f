//! Judges one event.

use std::{mem, time::Duration};

use super::{
    Doubt, Outcome, Place, Rules, Ruling, Settled, Violation, ViolationKind,
    known::{Known, Verdict},
    order::Answer,
    refusal::Reason,
    stream::Request,
    words::{self, OtherWords, Words},
};
use crate::{
    conversation::Lane,
    event::{Code, ContextId, Cut, Event, EventKind, Nanos, Received, Response},
    number::Number,
    sequence::{Flaw, RequestId, Step},
};

/// How long behind the last answer to an iterative request the server may end its sequence.
const END_COMES_WITHIN: Duration = Duration::from_millis(20);

/// One event, being judged.
pub(super) struct Observation<'o> {
    pub(super) rules: &'o Rules,
    pub(super) id: &'o mut Known,
    at: Nanos,
    context: ContextId,
    lane: Lane,
    ruling: Ruling,
}

impl<'o> Observation<'o> {
    pub(super) fn new(rules: &'o Rules, id: &'o mut Known, event: &Event) -> Self {
        let Event { at, context, lane, .. } = *event;
        Self { rules, id, at, context, lane, ruling: Ruling::default() }
    }

    pub(super) fn of(mut self, kind: EventKind) -> Ruling {
        match kind {
            EventKind::Opened(..) => self.id.stream(self.lane).open(self.at),
            EventKind::Disturbed(disturbance) => self.id.disturb(disturbance, self.at),
            EventKind::Sent(step) => self.id.send(self.lane, step, self.at, self.rules),
            EventKind::Received(received) => self.received(&received),
            EventKind::GaveUp => self.gave_up(),
            EventKind::Cut(cut) => self.cut(cut),
            EventKind::HalfClosed | EventKind::StoppedReading(_) => {}
            EventKind::Closed => {
                debug_assert!(self.id.stream(self.lane).is_quiet(), "a stream closes when all is answered");
            }
            EventKind::NotClosed if self.id.is_disturbed(self.lane) => {}
            EventKind::NotClosed => {
                let seen = "nothing for the longest lawful wait".to_owned();
                self.violation(ViolationKind::StreamNotClosed, None, "the stream to end".to_owned(), seen);
            }
        }
        self.ruling
    }

    fn received(&mut self, received: &Received) {
        let number = received.request().and_then(|request| self.id.stream(self.lane).number_of(request));
        let Some(number) = number else { return self.not_asked_for(received) };
        let request = *self.id.stream(self.lane).get(number).expect("it has this number");
        // Those to a decoupled model's next request may come before the last ones to this.
        if request.overtaken && !self.rules.arithmetic.answers.are_series() {
            let expected = "answers in the order of the requests".to_owned();
            let seen = "its answer after a later one's".to_owned();
            self.violation(ViolationKind::Reordered, Some(&request.step), expected, seen);
        }
        match &received.result {
            Err(text) if self.id.may_be_disturbed(request.sent_at) && self.rules.words.say_out_of_service(text) => {
                self.without_news(number, Doubt::Disturbed);
                self.settle(&request, Outcome::Failed, None, Some(Doubt::Disturbed));
            }
            _ if request.step.flaw().is_some() => self.flawed(&request, number, received),
            // Two requests to an iterative model share what they add up.
            result if self.rules.arithmetic.answers.are_iterative() && self.id.is_in_fog(request.sent_at) => {
                let outcome = if result.is_ok() { Outcome::Completed } else { Outcome::Failed };
                self.without_news(number, Doubt::Stragglers);
                self.settle(&request, outcome, None, Some(Doubt::Stragglers));
            }
            result if self.is_cancelled(result) && self.id.may_be_swept(&request) => {
                self.without_news(number, Doubt::Cancelled);
                self.settle(&request, Outcome::Failed, None, Some(Doubt::Cancelled));
            }
            Err(text) if words::say_expired(text) => {
                self.check_code(&request.step, Reason::Unavailable, received.code, text);
                self.expired(&request, number, text);
            }
            Err(text) if words::want_start(text, &self.id.correlation_id.written(self.id.form), &self.rules.model) => {
                self.check_code(&request.step, Reason::Invalid, received.code, text);
                self.refused(&request, number, text);
            }
            Err(text) => {
                let is_taken = self.rules.words == Words::Unknown
                    && self.refused_in_other_words(&request, number, received.code, text);
                if !is_taken {
                    self.failed(&request, number, received);
                }
            }
            Ok(response) => {
                if let Some(answer) = self.number_of(&request, response) {
                    self.completed(&request, number, answer);
                } else {
                    self.without_news(number, Doubt::State);
                    self.settle(&request, Outcome::Completed, None, None);
                }
            }
        }
    }

    fn without_news(&mut self, number: u64, doubt: Doubt) {
        self.id.answer_without_news(self.lane, number, self.at, self.rules, doubt);
    }

    /// Whether an answer is what a cancelled request gets: over a stream nothing, or no further responses; elsewhere an error without
    /// a word.
    fn is_cancelled(&self, result: &Result<Response, String>) -> bool {
        match result {
            Ok(response) => {
                let came = 1 + response.series.further.len();
                response.is_empty() || came < self.rules.arithmetic.answers.count() as usize
            }
            Err(text) => text.is_empty(),
        }
    }

    fn completed(&mut self, request: &Request, number: u64, answer: Number) {
        let step = &request.step;
        let (arithmetic, id) = (self.rules.arithmetic, self.id.correlation_id.told(self.id.form));
        let alone = arithmetic.stateless_answer(step, id);
        // Where a model has no state, no sum tells of any.
        let sum = if alone.is_some() { step.value } else { arithmetic.sum(answer, step, id) };
        let mut verdict = self.id.answer(self.lane, number, Answer::Sum(sum), self.at, self.rules);
        if let Some(right) = alone
            && verdict != Verdict::NotRefused
        {
            let is_wrong = answer != right;
            verdict = if is_wrong { Verdict::Wrong { expected: vec![step.value] } } else { Verdict::Right };
        }
        match &verdict {
            Verdict::Wrong { expected } => {
                let right = |sum: &Number| alone.unwrap_or_else(|| arithmetic.answer(*sum, step, id));
                let expected: Vec<_> = expected.iter().map(right).collect();
                let seen = match expected.as_slice() {
                    [expected] => format!("{answer} (off by {})", answer.off_by(*expected)),
                    _ => answer.to_string(),
                };
                let expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
                self.violation(ViolationKind::WrongSum, Some(step), expected.join(" or "), self.with_order(seen));
            }
            Verdict::NotRefused => {
                let expected = "a refusal: the ID had no sequence".to_owned();
                let seen = self.with_order(format!("the answer {answer}"));
                self.violation(ViolationKind::MissingStartError, Some(step), expected, seen);
            }
            Verdict::Right | Verdict::Undetermined(_) | Verdict::WronglyRefused => {}
        }
        self.settle(request, Outcome::Completed, Some(answer), verdict.doubt());
    }

    fn refused(&mut self, request: &Request, number: u64, text: &str) {
        let step = &request.step;
        if step.start && self.may_be_ended_by_the_one_before(request) {
            self.without_news(number, Doubt::Overlap);
            return self.settle(request, Outcome::Refused, None, Some(Doubt::Overlap));
        }
        let since = Duration::from_nanos(self.at.saturating_sub(self.id.last_accepted()));
        let verdict = self.id.answer(self.lane, number, Answer::Refused, self.at, self.rules);
        if verdict == Verdict::WronglyRefused {
            let expected = if step.start {
                "an answer: the request carries START".to_owned()
            } else {
                format!("an answer: the last accepted step was sent only {} ms before", since.as_millis())
            };
            let seen = self.with_order(format!("the error '{text}'"));
            self.violation(ViolationKind::SpuriousStartError, Some(step), expected, seen);
        }
        self.settle(request, Outcome::Refused, None, verdict.doubt());
    }

    /// An error in words that are not known: taken for a refusal for want of START, or for a time limit, where its code may be that of
    /// one, and a correct server may refuse the request just now. Returns whether it was.
    fn refused_in_other_words(&mut self, request: &Request, number: u64, code: Option<Code>, text: &str) -> bool {
        let of = if !request.step.start && Reason::Invalid.may_have(code) && self.take_for_refused(number) {
            "a step that needs START first"
        } else if Reason::Unavailable.may_have(code) && self.take_for_expired(number) {
            "a time limit that passed"
        } else {
            return false;
        };
        self.ruling.other_words = Some(OtherWords { of, text: text.to_owned() });
        true
    }

    /// Takes a request for refused for want of START, where a correct server may refuse it. Returns whether one may.
    fn take_for_refused(&mut self, number: u64) -> bool {
        let request = *self.id.stream(self.lane).get(number).expect("it has this number");
        let mut after = self.id.clone();
        let verdict = after.answer(self.lane, number, Answer::Refused, self.at, self.rules);
        if verdict == Verdict::WronglyRefused {
            return false;
        }
        *self.id = after;
        self.settle(&request, Outcome::Refused, None, verdict.doubt());
        true
    }

    /// Takes a request for refused for a time limit, where a correct server may refuse it. Returns whether one may.
    fn take_for_expired(&mut self, number: u64) -> bool {
        let request = *self.id.stream(self.lane).get(number).expect("it has this number");
        let mut after = self.id.clone();
        if !after.answer_expired(self.lane, number, self.at, self.rules) {
            return false;
        }
        *self.id = after;
        self.settle(&request, Outcome::Expired, None, None);
        true
    }

    /// Whether a request to an iterative model may be ended with the one before it: the last answer to that one comes a moment before
    /// the server ends its sequence. It is seldom enough to be met once by an ID.
    fn may_be_ended_by_the_one_before(&mut self, request: &Request) -> bool {
        let since = Duration::from_nanos(request.sent_at.saturating_sub(self.id.last_answer));
        self.rules.arithmetic.answers.are_iterative()
            && since < END_COMES_WITHIN
            && !mem::replace(&mut self.id.met_an_end, true)
    }

    /// Whether an error in words that are not known may be the refusal of a flaw.
    fn is_refused_in_other_words(&self, flaw: Flaw, code: Option<Code>) -> bool {
        self.rules.words == Words::Unknown && Reason::may_be_of_flaw(flaw, code)
    }

    /// A request that has to be refused for its flaw, and changes nothing.
    fn flawed(&mut self, request: &Request, number: u64, received: &Received) {
        let step = &request.step;
        let Some(flaw) = step.flaw() else { return };
        let refusal = flaw.refusal();
        let (kind, outcome, seen) = match &received.result {
            Err(text) if flaw.is_refused_with(text) || self.is_refused_in_other_words(flaw, received.code) => {
                if flaw.is_refused_with(text) {
                    self.check_code(step, Reason::of_flaw(flaw, text), received.code, text);
                } else {
                    self.ruling.other_words = Some(OtherWords { of: flaw.name(), text: text.clone() });
                }
                self.id.answer_unchanged(self.lane, number, self.at, self.rules);
                return self.settle(request, Outcome::Refused, None, None);
            }
            Err(text) => (ViolationKind::UnexpectedError, Outcome::Failed, format!("the error '{text}'")),
            Ok(_) => (ViolationKind::FlawAccepted, Outcome::Completed, "an answer".to_owned()),
        };
        self.violation(kind, Some(step), format!("the error '… {refusal} …'"), seen);
        self.without_news(number, Doubt::State);
        self.settle(request, outcome, None, None);
    }

    /// The step's sequence waited for a slot for too long, and is refused as a whole.
    fn expired(&mut self, request: &Request, number: u64, text: &str) {
        let step = &request.step;
        let allowed = self.id.answer_expired(self.lane, number, self.at, self.rules);
        if !allowed {
            let expected = "an answer: its sequence had a slot, or no time limit of its ID had passed".to_owned();
            self.violation(ViolationKind::SpuriousTimeout, Some(step), expected, format!("the error '{text}'"));
        }
        self.settle(request, Outcome::Expired, None, None);
    }

    /// The server may have executed the step, and may have ended the sequence.
    fn failed(&mut self, request: &Request, number: u64, received: &Received) {
        let has_to_refuse = self.id.has_to_refuse(&request.step);
        let expected = if has_to_refuse { "to be refused for want of START" } else { "an answer" };
        let text = received.result.as_ref().err().map_or("", String::as_str);
        // An error that says nothing has a code yet, where steps are calls.
        let code = received.code.map_or_else(String::new, |code| format!("{code} with "));
        let seen = format!("{code}the error '{text}'");
        self.violation(ViolationKind::UnexpectedError, Some(&request.step), expected.to_owned(), seen);
        self.without_news(number, Doubt::State);
        self.settle(request, Outcome::Failed, None, None);
    }

    /// What was seen, and what the order of the steps has to do with it.
    fn with_order(&self, seen: String) -> String {
        // Without sums no order shows.
        match self.id.order().filter(|_| !self.rules.arithmetic.formula.is_stateless()) {
            Some(order) => format!("{seen}; {order}"),
            None => seen,
        }
    }

    /// A message that answers no request in flight on this stream.
    fn not_asked_for(&mut self, received: &Received) {
        let request = received.request();
        let answered_before = request.is_some_and(|request| self.id.stream(self.lane).has_carried(request));
        let what = match &received.result {
            Ok(_) => "an answer".to_owned(),
            Err(text) => format!("the error '{text}'"),
        };
        let front = self.id.stream(self.lane).waiting().next().map(|waiting| waiting.step);
        let (kind, expected) = if answered_before {
            (ViolationKind::Duplicate, "one answer to each request".to_owned())
        } else {
            let waiting_for =
                front.map_or("nothing".to_owned(), |step| format!("an answer to request {}", step.request));
            (ViolationKind::Misaddressed, waiting_for)
        };
        let whose = request.filter(|_| !answered_before).and_then(|request| self.sender(request)).unwrap_or_default();
        self.violation(kind, front.as_ref(), expected, format!("{what} to request '{}'{whose}", received.id));
        self.ruling.distrust = true;
    }

    /// Who sent a request that this stream did not carry.
    fn sender(&self, request: RequestId) -> Option<String> {
        let ContextId { worker, context } = self.context;
        if (request.worker, request.context) != (worker, context) {
            return Some(format!(" of worker {} context {}", request.worker, request.context));
        }
        let (lane, _) = self.id.streams().find(|(_, stream)| stream.has_carried(request))?;
        Some(format!(" of this context's stream {}", lane.0))
    }

    fn gave_up(&mut self) {
        let Some(request) = self.id.stream(self.lane).give_up() else { return };
        // A server that was restarted does not know of what it was sent before.
        if !self.id.may_be_disturbed(request.sent_at) {
            let waited = Duration::from_nanos(self.at.saturating_sub(request.sent_at));
            let expected = "an answer within the longest lawful wait".to_owned();
            let others = self.id.stream(self.lane).waiting().count();
            let seen =
                format!("none for {} ms, and {others} later requests of the stream unanswered", waited.as_millis());
            self.violation(ViolationKind::Lost, Some(&request.step), expected, seen);
        }
        self.settle(&request, Outcome::Indeterminate, None, None);
    }

    fn cut(&mut self, cut: Cut) {
        if cut == Cut::Interrupted {
            self.ruling.abandoned = self.id.interrupt(self.lane, self.at, self.rules);
            return;
        }
        if let Cut::Broken(reason) = cut
            && !self.id.may_break(self.lane, self.rules)
        {
            let front = self.id.stream(self.lane).waiting().next().map(|waiting| waiting.step);
            let expected = "the stream to last until the client closes it".to_owned();
            self.violation(ViolationKind::StreamBroken, front.as_ref(), expected, reason);
        }
        self.ruling.abandoned = self.id.cut(self.lane, self.at, self.rules);
    }

    fn settle(&mut self, request: &Request, outcome: Outcome, sum: Option<Number>, doubt: Option<Doubt>) {
        let Request { step, sent_at, .. } = *request;
        self.ruling.settled = Some(Settled { step, sent_at, outcome, sum, judged: doubt.is_none(), doubt });
    }

    pub(super) fn violation(&mut self, kind: ViolationKind, step: Option<&Step>, expected: String, seen: String) {
        let place = Some(Place::new(self.context, self.id.correlation_id, step));
        let sent = step.map_or("nothing".to_owned(), ToString::to_string);
        let explanations = Vec::new();
        self.ruling.violations.push(Violation { kind, at_ns: self.at, place, sent, expected, seen, explanations });
    }
}

impl Verdict {
    fn doubt(&self) -> Option<Doubt> {
        match self {
            Self::Undetermined(doubt) => Some(*doubt),
            _ => None,
        }
    }
}
