//! Judges one event.

mod rejections;

use super::{
    Disorder, Doubt, Evidence, Outcome, Place, Rules, Ruling, Sender, Settled, Violation, ViolationKind,
    golden::{self, Answered, Arranged, Beside, EndEffect, Expectation, Golden, Misfit, Reading},
    known::Knowledge,
    ms,
    order::Answer,
    rejection::Reason,
    served::Where,
    states::Judged,
    stream::Request,
    words::{self, Words},
};
use workload::{
    controls::Seen,
    conversation::{Lane, Transport},
    event::{Code, ContextId, Cut, Event, EventKind, Nanos, Received, Response},
    number::Number,
    sequence::{RequestId, Step},
};

/// What a rejection is of, in words.
const WANTS_START: &str = "a step that needs START first";
const PASSED_LIMIT: &str = "a time limit that passed";

pub(super) struct Observation<'o> {
    pub(super) rules: &'o Rules,
    pub(super) id: &'o mut Knowledge,
    at: Nanos,
    context: ContextId,
    lane: Lane,
    ruling: Ruling,
}

impl<'o> Observation<'o> {
    pub(super) fn new(rules: &'o Rules, id: &'o mut Knowledge, event: &Event) -> Self {
        let Event { at, context, lane, .. } = *event;
        Self { rules, id, at, context, lane, ruling: Ruling::default() }
    }

    pub(super) fn of(mut self, kind: EventKind) -> Ruling {
        match kind {
            EventKind::Opened(_, transport) => {
                self.id.stream(self.lane).open(self.at, transport);
                self.id.served.open(self.lane);
            }
            EventKind::ServedBy(server) => self.id.served.told(self.lane, server),
            EventKind::Disturbed(disturbance) => self.id.disturb(disturbance, self.at),
            EventKind::Sent(step) => self.id.send(self.lane, step, self.at, self.rules),
            EventKind::Answered(request, sum, seen) => self.answered(request, sum, seen),
            EventKind::Received(received) => self.received(&received),
            EventKind::GaveUp => self.gave_up(),
            EventKind::Cut(cut) => self.cut(cut),
            EventKind::HalfClosed | EventKind::Due(_) | EventKind::StoppedReading(_) => {}
            EventKind::Closed => {
                debug_assert!(self.id.stream(self.lane).is_quiet(), "a stream closes when all is answered");
            }
            EventKind::NotClosed if self.id.is_disturbed(self.lane) => {}
            EventKind::NotClosed => {
                self.violation(ViolationKind::StreamNotClosed, None, Evidence::StillOpen);
            }
        }
        self.ruling
    }

    /// An answer that is as it should be, but for what it says.
    fn answered(&mut self, id: RequestId, sum: Number, seen: Option<Seen>) {
        let Some(request) = self.id.stream(self.lane).asked(id) else {
            return self.not_asked_for(Some(id), id.to_string(), None);
        };
        if sum.elements() != request.step.value.elements() {
            // Its form is that of another request.
            return self.received(&self.rules.answer(id, sum, seen));
        }
        self.check_order(&request);
        let rules = self.rules;
        if self.is_split(&request) {
            self.without_news(&request, Outcome::Completed, Doubt::State);
        } else if request.step.flaw().is_some() {
            self.flawed(&request, None, None);
        } else if self.shares_its_sum(&request) {
            self.without_news(&request, Outcome::Completed, Doubt::Stragglers);
        } else if let (Some(controls), Some(seen)) = (&rules.controls, seen)
            && !self.is_right(&request, controls, seen, Some(sum))
        {
            self.without_news(&request, Outcome::Completed, Doubt::State);
        } else if let Some(golden) = rules.golden.as_ref().filter(|_| sum == golden::unlike()) {
            self.unlike(&request, golden, None);
        } else {
            self.completed(&request, sum);
        }
    }

    /// Whether a request to an iterative model may add to what another one adds up.
    fn shares_its_sum(&self, request: &Request) -> bool {
        self.rules.arithmetic.answers.are_iterative() && self.id.strays.in_fog(request.sent_at)
    }

    /// Whether an error is the rejection of a step that needs START first.
    fn wants_start(&self, text: &str) -> bool {
        words::want_start(text, &self.id.correlation_id.written(self.id.form), &self.rules.model)
    }

    /// Whether the request's sequence is on two servers. Then neither knows all of its steps, and no answer tells anything of the model.
    fn is_split(&mut self, request: &Request) -> bool {
        match self.id.served.answered(request) {
            Where::There => false,
            Where::Split => true,
            // A server that went away takes its sequences with it.
            Where::Elsewhere { since, .. } if self.id.may_be_disturbed(since) => true,
            Where::Elsewhere { before, steps: (first, last), now, .. } => {
                let evidence = Evidence::Split { expected: before, first: first + 1, last: last + 1, seen: now };
                self.violation(ViolationKind::SequenceSplit, Some(&request.step), evidence);
                true
            }
        }
    }

    fn check_order(&mut self, request: &Request) {
        // Answers to a decoupled model's next request may come before the last ones to this.
        if request.overtaken && !self.rules.arithmetic.answers.are_series() {
            self.violation(ViolationKind::Reordered, Some(&request.step), Evidence::Overtaken);
        }
    }

    fn received(&mut self, received: &Received) {
        let error = received.result.as_ref().err();
        let asked = received.request().and_then(|request| self.id.stream(self.lane).asked(request));
        let Some(request) = asked else {
            return self.not_asked_for(received.request(), received.id.clone(), error.cloned());
        };
        self.check_order(&request);
        if received.outputs > 0 {
            let error = error.cloned().unwrap_or_default();
            let evidence = Evidence::OutputsBesideError { outputs: received.outputs, error };
            self.violation(ViolationKind::WrongOutputName, Some(&request.step), evidence);
        }
        if self.is_split(&request) {
            let wants_start = |text: &String| self.wants_start(text);
            let outcome = match error {
                None => Outcome::Completed,
                Some(text) if wants_start(text) => Outcome::Rejected,
                Some(_) => Outcome::Failed,
            };
            return self.without_news(&request, outcome, Doubt::State);
        }
        match &received.result {
            Err(text) if self.id.may_be_disturbed(request.sent_at) && self.rules.words.say_out_of_service(text) => {
                self.without_news(&request, Outcome::Failed, Doubt::Disturbed);
            }
            Err(text) if self.id.may_be_disturbed(request.sent_at) && words::say_instance_failed(text) => {
                if self.rules.calls.is_some() {
                    // Before it failed, the instance may have handed the request on to a model that keeps its state.
                    return self.without_news(&request, Outcome::Failed, Doubt::Disturbed);
                }
                self.id.answer_unexecuted(&request, self.at, self.rules);
                self.settle(&request, Outcome::Failed, None, Some(Doubt::Disturbed));
            }
            _ if request.step.flaw().is_some() => self.flawed(&request, error, received.code),
            result if self.shares_its_sum(&request) => {
                let outcome = if result.is_ok() { Outcome::Completed } else { Outcome::Failed };
                self.without_news(&request, outcome, Doubt::Stragglers);
            }
            result if self.is_cancelled(result) && self.id.strays.may_sweep(request.sent_at) => {
                self.without_news(&request, Outcome::Failed, Doubt::Cancelled);
            }
            Err(text) if text.contains(words::EXPIRED) => {
                let ends_with_errors = self.id.stream(self.lane).transport.is_some_and(Transport::ends_with_errors);
                // Another server may not know what it was asked for.
                if ends_with_errors && self.rules.words.are_known() {
                    let evidence = Evidence::ErrorWithin { error: text.clone() };
                    self.violation(ViolationKind::StreamNotClosed, Some(&request.step), evidence);
                }
                self.check_code(&request.step, (Reason::Unavailable, PASSED_LIMIT), received.code, text);
                self.expired(&request, text);
            }
            Err(text) if self.wants_start(text) => {
                self.check_code(&request.step, (Reason::Invalid, WANTS_START), received.code, text);
                self.rejected(&request, text);
            }
            Err(text) if self.rejected_in_other_words(&request, received.code, text) => {}
            Err(text) => self.failed(&request, received.code, text),
            Ok(response) => match (&self.rules.golden, self.number_of(&request, response)) {
                (Some(golden), Some(_))
                    if let Some(right) = self.certain(&request).filter(|right| !golden.knows(*right)) =>
                {
                    self.repeated(&request, response, golden, right);
                }
                (_, Some(answer)) => self.completed(&request, answer),
                (Some(golden), None) => self.without_a_number(&request, response, golden),
                (None, None) => self.without_news(&request, Outcome::Completed, Doubt::State),
            },
        }
    }

    /// A request was answered in a way that does not tell what it did. Where that leaves the state in doubt the answer is judged.
    fn without_news(&mut self, request: &Request, outcome: Outcome, doubt: Doubt) {
        self.id.answer_without_news(request, self.at, self.rules, doubt);
        self.settle(request, outcome, None, Some(doubt).filter(|doubt| *doubt != Doubt::State));
    }

    /// Whether an answer is what a cancelled request gets: over a stream nothing, or no further responses; elsewhere an error without
    /// a word.
    fn is_cancelled(&self, result: &Result<Response, String>) -> bool {
        match result {
            Ok(response) => {
                let came = 1 + response.series.further.len();
                response.is_empty() || came < self.rules.arithmetic.answers.count() as usize
            }
            Err(text) => words::says_nothing(text),
        }
    }

    fn completed(&mut self, request: &Request, answer: Number) {
        let step = &request.step;
        let (arithmetic, id) = (self.rules.arithmetic, self.id.correlation_id.told(self.id.form));
        let alone = arithmetic.stateless_answer(step, id);
        // Where a model has no state, no sum tells of any.
        let sum = if alone.is_some() { step.value } else { arithmetic.sum(answer, step, id) };
        let mut verdict = self.id.answer(request, Answer::Sum(sum), self.at, self.rules);
        if let Some(right) = alone
            && verdict != Judged::NotRejected
        {
            let is_wrong = answer != right;
            verdict = if is_wrong { Judged::Wrong(vec![step.value]) } else { Judged::Right };
        }
        if let Some(golden) = &self.rules.golden {
            // With what END made of it, no correct state goes on.
            if golden.has_end(answer) && !step.end {
                self.id.forget_sum(sum);
            }
            return self.judged_by(golden, request, &verdict, Some(answer), None);
        }
        match &verdict {
            Judged::Wrong(expected) => {
                let right = |sum: &Number| alone.unwrap_or_else(|| arithmetic.answer(*sum, step, id));
                let expected = expected.iter().map(right).collect();
                let evidence = Evidence::Sum { expected, seen: answer, disorder: self.disorder() };
                self.violation(ViolationKind::WrongSum, Some(step), evidence);
            }
            Judged::NotRejected => {
                let evidence = Evidence::NotRejected { seen: answer, disorder: self.disorder() };
                self.violation(ViolationKind::MissingStartError, Some(step), evidence);
            }
            Judged::Right | Judged::Unjudged(_) | Judged::WronglyRejected => {}
        }
        self.settle(request, Outcome::Completed, Some(answer), verdict.doubt());
    }

    /// What a model without a formula answered was judged: what no calibration measured accuses nobody.
    fn judged_by(
        &mut self,
        golden: &Golden,
        request: &Request,
        verdict: &Judged,
        seen: Option<Number>,
        misfit: Option<Misfit>,
    ) {
        let step = &request.step;
        let id = self.id.correlation_id.told(self.id.form);
        let right = |sum: &Number| self.rules.arithmetic.answer(*sum, step, id);
        // Where nothing is expected of the content nothing of it is in doubt.
        let mut doubt = verdict.doubt().filter(|_| golden.judges());
        match verdict {
            Judged::Wrong(expected) if expected.iter().map(right).all(|answer| golden.knows(answer)) => {
                let expected = expected.iter().map(right).map(|answer| golden.named(answer)).collect();
                let seen = seen.map(|sum| golden.named(sum));
                let (misfit, disorder) = (misfit.map(Box::new), self.disorder());
                let evidence = Evidence::Output { expected, seen, misfit, like: None, disorder };
                self.violation(ViolationKind::WrongOutput, Some(step), evidence);
            }
            Judged::Wrong(_) => doubt = Some(Doubt::NotMeasured).filter(|_| golden.judges()),
            Judged::NotRejected => {
                let seen = seen.unwrap_or_else(golden::unlike);
                let evidence = Evidence::NotRejected { seen, disorder: self.disorder() };
                self.violation(ViolationKind::MissingStartError, Some(step), evidence);
            }
            Judged::Right | Judged::Unjudged(_) | Judged::WronglyRejected => {}
        }
        self.settle(request, Outcome::Completed, seen, doubt);
    }

    /// A model without a formula answered in a way that belongs to no state that is known, or to several.
    pub(super) fn without_a_number(&mut self, request: &Request, first: &Response, golden: &Expectation) {
        let is_empty = !self.rules.arithmetic.answers.are_series() && first.outputs.is_empty();
        if first.series.is_unfinished || is_empty {
            return self.without_news(request, Outcome::Completed, Doubt::State);
        }
        let expected = self.id.expected(self.lane, Some(request.step.request), self.rules);
        let misfit = match golden.read(expected.into_iter().flatten(), first.all()) {
            Reading::Unlike(misfit) => misfit,
            Reading::Ambiguous => return self.without_news(request, Outcome::Completed, Doubt::NotMeasured),
            Reading::State(_) | Reading::Malformed => {
                return self.without_news(request, Outcome::Completed, Doubt::State);
            }
        };
        let certain = self.certain(request);
        if let Some(answer) = certain.filter(|answer| !golden.knows(*answer)) {
            return self.repeated(request, first, golden, answer);
        }
        // The same responses in another order, or with some missing or repeated, are of no other state.
        if let Some(arranged) = certain.and_then(|answer| golden.arranged(answer, first.all())) {
            let (kind, evidence) = match arranged {
                Arranged::InOrder(seen) => (ViolationKind::Reordered, Evidence::ResponseOrder { seen }),
                Arranged::Fewer { expected, seen } => {
                    (ViolationKind::Lost, Evidence::Responses { expected, seen, is_unfinished: false })
                }
                Arranged::More { expected, seen } => {
                    (ViolationKind::Duplicate, Evidence::Responses { expected, seen, is_unfinished: false })
                }
            };
            self.violation(kind, Some(&request.step), evidence);
            return self.without_news(request, Outcome::Completed, Doubt::State);
        }
        self.unlike(request, golden, misfit);
    }

    /// A model without a formula answered in a way that belongs to no state that is known.
    fn unlike(&mut self, request: &Request, golden: &Golden, misfit: Option<Misfit>) {
        let is_uncertain = self.id.may_be_in_another_order(request);
        let verdict = self.id.answer(request, Answer::Sum(golden::unlike()), self.at, self.rules);
        self.id.forget_sum(golden::unlike());
        let verdict = match verdict {
            // What another order leads to was not measured.
            Judged::Wrong(_) if is_uncertain => Judged::Unjudged(Doubt::NotMeasured),
            other => other,
        };
        self.judged_by(golden, request, &verdict, None, misfit);
    }

    /// An answer to certain steps, of which no calibration measured what they are answered with: the same as before.
    fn repeated(&mut self, request: &Request, first: &Response, golden: &Expectation, right: Number) {
        let step = &request.step;
        let id = self.id.correlation_id.told(self.id.form);
        let is_repeatable = !step.end || golden.facts.at_end != EndEffect::NotRepeatable;
        let seen = golden.gathered(first).filter(|_| is_repeatable);
        let transport = self.id.stream(request.lane).transport;
        let place = Place::new(self.context, self.id.correlation_id, Some(*step));
        let answered = Answered { place, at_ns: self.at, transport, is_confirmed: false };
        let steps = step.request.step.saturating_add(1);
        let doubt = match seen.map(|seen| golden.relations.compare(golden, (right, steps), answered, seen)) {
            None | Some(Beside::Nothing) => Some(Doubt::NotMeasured).filter(|_| golden.judges()),
            Some(Beside::Same) => None,
            Some(Beside::Other(other)) => {
                let (like, misfit) = *other;
                let (expected, like) = (vec![golden.named(right)], Some(Box::new(like)));
                let (misfit, disorder) = (Some(Box::new(misfit)), self.disorder());
                let evidence = Evidence::Output { expected, seen: None, misfit, like, disorder };
                self.violation(ViolationKind::WrongOutput, Some(step), evidence);
                None
            }
        };
        // Whatever came, this is the state of a correct server.
        let sum = self.rules.arithmetic.sum(right, step, id);
        self.id.answer(request, Answer::Sum(sum), self.at, self.rules);
        self.settle(request, Outcome::Completed, Some(right), doubt);
    }

    /// The one answer that a correct server gives to a request, where there is one.
    fn certain(&self, request: &Request) -> Option<Number> {
        let expected = self.id.expected(request.lane, Some(request.step.request), self.rules);
        match (expected, self.judged_alone(request)) {
            ([Some(answer), None], Judged::Wrong(_)) => Some(answer),
            _ => None,
        }
    }

    /// What an answer like nothing known would be judged as.
    fn judged_alone(&self, request: &Request) -> Judged {
        if self.id.may_be_in_another_order(request) {
            return Judged::Unjudged(Doubt::NotMeasured);
        }
        self.id.clone().answer(request, Answer::Sum(golden::unlike()), self.at, self.rules)
    }

    /// What the order of the steps has to do with an answer.
    fn disorder(&self) -> Option<Disorder> {
        // Without sums no order shows.
        self.id.disorder().filter(|_| !self.rules.arithmetic.formula.is_stateless())
    }

    /// A message that answers no request in flight on this stream.
    fn not_asked_for(&mut self, request: Option<RequestId>, id: String, error: Option<String>) {
        let answered_before = request.is_some_and(|request| self.id.stream(self.lane).has_carried(request));
        let front = self.id.stream(self.lane).waiting().next().map(|waiting| waiting.step);
        let (kind, evidence) = if answered_before {
            (ViolationKind::Duplicate, Evidence::AnsweredAgain { id, error })
        } else {
            let waiting_for = front.map(|step| step.request);
            let sender = request.and_then(|request| self.sender(request));
            (ViolationKind::Misaddressed, Evidence::NotAskedFor { waiting_for, id, error, sender })
        };
        self.violation(kind, front.as_ref(), evidence);
        self.ruling.distrust = true;
    }

    /// Who sent a request that this stream did not carry.
    fn sender(&self, request: RequestId) -> Option<Sender> {
        let context = ContextId { worker: request.worker, context: request.context };
        if context != self.context {
            return Some(Sender::Context(context));
        }
        let (lane, _) = self.id.streams().find(|(_, stream)| stream.has_carried(request))?;
        Some(Sender::Stream(lane.0))
    }

    fn gave_up(&mut self) {
        let Some(request) = self.id.stream(self.lane).give_up() else { return };
        // A server that was restarted does not know of what it was sent before.
        if !self.id.may_be_disturbed(request.sent_at) {
            let waited_ms = ms(self.at.saturating_sub(request.sent_at));
            let later = self.id.stream(self.lane).waiting().count();
            self.violation(ViolationKind::Lost, Some(&request.step), Evidence::Unanswered { waited_ms, later });
        }
        self.settle(&request, Outcome::Indeterminate, None, None);
    }

    fn cut(&mut self, cut: Cut) {
        if cut == Cut::Interrupted {
            self.ruling.abandoned = self.id.interrupt(self.lane, self.at, self.rules);
            return;
        }
        if let Cut::Status(code, text) = cut {
            return self.ended_by_an_error(code, &text);
        }
        let evidence = match cut {
            Cut::Broken(reason) => Some(Evidence::Broken { reason }),
            Cut::Ended => Some(Evidence::Ended),
            _ => None,
        };
        if let Some(evidence) = evidence.filter(|_| !self.id.may_break(self.lane, self.rules)) {
            let front = self.id.stream(self.lane).waiting().next().map(|waiting| waiting.step);
            self.violation(ViolationKind::StreamBroken, front.as_ref(), evidence);
        }
        self.ruling.abandoned = self.id.cut(self.lane, self.at, self.rules);
    }

    /// The status of the stream is an error of one of its requests. It does not say of which, and nothing is known of the others.
    fn ended_by_an_error(&mut self, code: Code, text: &str) {
        let waiting: Vec<_> = self.id.stream(self.lane).waiting().copied().collect();
        let is_disturbed = self.id.may_break(self.lane, self.rules);
        // What is cancelled with another stream has an error without a word.
        let is_swept = text.is_empty() && waiting.iter().any(|request| self.id.strays.may_sweep(request.sent_at));
        let may_be_in_other_words = self.rules.words == Words::Unknown && Reason::Unavailable.may_have(Some(code));
        let is_of_a_limit = text.contains(words::EXPIRED) || may_be_in_other_words;
        let may_expire = |request: &&Request| self.id.clone().answer_expired(request, self.at, self.rules);
        let expired = waiting.iter().find(|request| is_of_a_limit && may_expire(request)).copied();
        match (expired, waiting.first()) {
            (Some(request), _) => {
                self.check_code(&request.step, (Reason::Unavailable, PASSED_LIMIT), Some(code), text);
                self.expired(&request, text);
            }
            _ if is_disturbed || is_swept => {}
            (None, Some(front)) if text.contains(words::EXPIRED) => {
                let evidence = Evidence::Expired { error: text.to_owned() };
                self.violation(ViolationKind::SpuriousTimeout, Some(&front.step), evidence);
            }
            (None, Some(front)) => {
                let error = text.to_owned();
                let evidence = Evidence::Failed { has_to_be_rejected: false, code: Some(code), error };
                self.violation(ViolationKind::UnexpectedError, Some(&front.step), evidence);
            }
            (None, None) => {
                let evidence = Evidence::Broken { reason: format!("{code}: {text}") };
                self.violation(ViolationKind::StreamBroken, None, evidence);
            }
        }
        self.ruling.abandoned = self.id.cut(self.lane, self.at, self.rules);
    }

    fn settle(&mut self, request: &Request, outcome: Outcome, sum: Option<Number>, doubt: Option<Doubt>) {
        let Request { step, sent_at, .. } = *request;
        self.ruling.settled = Some(Settled { step, sent_at, outcome, sum, doubt });
    }

    pub(super) fn violation(&mut self, kind: ViolationKind, step: Option<&Step>, evidence: Evidence) {
        let place = Place::new(self.context, self.id.correlation_id, step.copied());
        self.ruling.violations.push(Violation::at(place, kind, self.at, evidence));
    }
}
