//! Decides whether what came back was allowed, from what was sent and answered so far; never from the plan.

mod states;
mod violation;

use std::{collections::VecDeque, time::Duration};

use self::states::{Judgement, Possible};
pub use self::violation::{Place, Violation, ViolationKind};
use crate::{
    event::{ContextId, Cut, Event, EventKind, Nanos, Received, Response},
    sequence::{CorrelationId, RequestId, Step},
    tensor::INT32,
};

/// What a correct server may and may not do, for one model and one run.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The model that was asked for.
    pub model: String,
    /// The output that was asked for.
    pub output: String,
    /// The output's shape: that of the input.
    pub shape: Vec<i64>,
    /// How long a sequence may get no request before the server ends it; where it is not known, a refusal in the middle
    /// of a sequence cannot be judged.
    pub idle_limit: Option<Duration>,
    /// How long requests of a stream that was cut may still be under way in the server.
    pub straggling: Duration,
}

/// The oracle of a run.
#[derive(Debug)]
pub struct Oracle {
    rules: Rules,
    contexts_per_worker: u32,
    /// By worker, then context.
    ids: Vec<IdState>,
}

/// What is known of one correlation ID.
#[derive(Debug)]
struct IdState {
    correlation_id: CorrelationId,
    possible: Possible,
    in_flight: VecDeque<InFlight>,
    /// The first request and the last one that the current stream carried.
    stream: Option<(RequestId, RequestId)>,
    /// When the last step that was accepted had been sent.
    last_accepted_sent: Nanos,
    /// Until when requests of a stream that was cut may still be executed.
    in_doubt_until: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    step: Step,
    sent_at: Nanos,
    overtaken: Overtaken,
}

/// Whether the answer to a later request came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overtaken {
    No,
    /// It did; then this sum had to come before it, where that was known.
    Yes {
        expected: Option<i32>,
    },
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server executed it.
    Completed,
    /// The server certainly did not execute it: it wants a START first.
    Refused,
    /// The server answered with another error.
    Failed,
    /// It may or may not have been executed.
    Indeterminate,
}

/// A request whose outcome is settled now.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// The request.
    pub step: Step,
    /// When it was sent.
    pub sent_at: Nanos,
    /// What became of it.
    pub outcome: Outcome,
    /// The answered sum, where there is one.
    pub sum: Option<i32>,
    /// Whether the answer could be judged; a completed step that could not is only counted.
    pub judged: bool,
}

/// What an event means.
#[derive(Debug, Default)]
pub struct Ruling {
    /// The request that the event settles, if any.
    pub settled: Option<Settled>,
    /// How many further requests will never be settled.
    pub abandoned: usize,
    /// What a correct server would not have done.
    pub violations: Vec<Violation>,
    /// Whether the stream has to be cut, because its further messages could not be told apart.
    pub distrust: bool,
}

impl Oracle {
    /// An oracle for contexts whose correlation IDs are told by `correlation_id`.
    #[must_use]
    pub fn new(
        rules: Rules,
        workers: u32,
        contexts_per_worker: u32,
        correlation_id: impl Fn(ContextId) -> CorrelationId,
    ) -> Self {
        let contexts =
            (0..workers).flat_map(|worker| (0..contexts_per_worker).map(move |context| ContextId { worker, context }));
        let ids = contexts.map(|context| IdState::new(correlation_id(context))).collect();
        Self { rules, contexts_per_worker, ids }
    }

    /// Takes an event in.
    pub fn observe(&mut self, event: Event) -> Ruling {
        let ContextId { worker, context } = event.context;
        let id = &mut self.ids[(worker * self.contexts_per_worker + context) as usize];
        Observation { rules: &self.rules, id, at: event.at, context: event.context, ruling: Ruling::default() }
            .of(event.kind)
    }

    /// The contexts that wait for answers.
    pub fn waiting(&self) -> impl Iterator<Item = ContextId> {
        let per_worker = self.contexts_per_worker as usize;
        self.ids.iter().enumerate().filter(|(_, id)| !id.in_flight.is_empty()).map(move |(index, _)| {
            let number = |n: usize| u32::try_from(n).expect("indices come from 32-bit counts");
            ContextId { worker: number(index / per_worker), context: number(index % per_worker) }
        })
    }
}

impl IdState {
    fn new(correlation_id: CorrelationId) -> Self {
        Self {
            correlation_id,
            possible: Possible::UNKNOWN,
            in_flight: VecDeque::new(),
            stream: None,
            last_accepted_sent: 0,
            in_doubt_until: 0,
        }
    }
}

/// One event, being judged.
struct Observation<'o> {
    rules: &'o Rules,
    id: &'o mut IdState,
    at: Nanos,
    context: ContextId,
    ruling: Ruling,
}

impl Observation<'_> {
    fn of(mut self, kind: EventKind) -> Ruling {
        match kind {
            EventKind::Opened(_) => self.id.stream = None,
            EventKind::Sent(step) => self.sent(step),
            EventKind::Received(received) => self.received(&received),
            EventKind::GaveUp => self.gave_up(),
            EventKind::Cut(cut) => self.cut(cut),
            EventKind::HalfClosed => {}
            EventKind::Closed => debug_assert!(self.id.in_flight.is_empty(), "a stream closes when all is answered"),
            EventKind::NotClosed => {
                let expected = "the stream to end".to_owned();
                self.violation(
                    ViolationKind::StreamNotClosed,
                    None,
                    expected,
                    "nothing for the longest lawful wait".to_owned(),
                );
            }
        }
        self.ruling
    }

    fn sent(&mut self, step: Step) {
        let first = self.id.stream.map_or(step.request, |(first, _)| first);
        self.id.stream = Some((first, step.request));
        self.id.in_flight.push_back(InFlight { step, sent_at: self.at, overtaken: Overtaken::No });
    }

    fn received(&mut self, received: &Received) {
        let request = received.request();
        let place = self.id.in_flight.iter().position(|waiting| Some(waiting.step.request) == request);
        match place {
            Some(0) => self.answered(received),
            Some(index) => self.overtook(index, received),
            None => self.not_asked_for(received),
        }
    }

    /// The oldest request in flight was answered, as it should be.
    fn answered(&mut self, received: &Received) {
        let Some(waiting) = self.id.in_flight.pop_front() else { return };
        if waiting.overtaken != Overtaken::No {
            let expected = "answers in the order of the requests".to_owned();
            let seen = "its answer after a later one's".to_owned();
            self.violation(ViolationKind::Reordered, Some(&waiting.step), expected, seen);
        }
        match &received.result {
            Err(text) => self.refused(&waiting, text),
            Ok(response) => match self.sum_of(&waiting.step, response) {
                Some(sum) => self.completed(&waiting, sum),
                None => self.unreadable(&waiting),
            },
        }
    }

    /// The answer to a later request came first; the earlier ones may still come, or be lost.
    fn overtook(&mut self, index: usize, received: &Received) {
        for earlier in self.id.in_flight.iter_mut().take(index) {
            if earlier.overtaken == Overtaken::No {
                earlier.overtaken = Overtaken::Yes { expected: self.id.possible.expected(&earlier.step) };
                self.id.possible.assume_accepted(&earlier.step);
            }
        }
        if let Some(waiting) = self.id.in_flight.remove(index) {
            self.id.in_flight.push_front(waiting);
            self.answered(received);
        }
    }

    fn completed(&mut self, waiting: &InFlight, sum: i32) {
        let step = &waiting.step;
        let judged = if let Overtaken::Yes { expected } = waiting.overtaken {
            self.check_sum(step, sum, expected)
        } else if self.in_doubt(waiting) {
            self.id.possible = Possible::UNKNOWN;
            // Whatever else is under way, a START's own sum is its value.
            self.check_sum(step, sum, step.start.then_some(step.value))
        } else {
            self.judge(step, sum)
        };
        self.id.last_accepted_sent = self.id.last_accepted_sent.max(waiting.sent_at);
        self.settle(waiting, Outcome::Completed, Some(sum), judged);
    }

    fn judge(&mut self, step: &Step, sum: i32) -> bool {
        match self.id.possible.accept(step, sum) {
            Judgement::Right => {}
            Judgement::Undetermined => return false,
            Judgement::Wrong { expected } => _ = self.check_sum(step, sum, Some(expected)),
            Judgement::NotRefused => {
                let expected = "a refusal: the ID had no sequence".to_owned();
                self.violation(ViolationKind::MissingStartError, Some(step), expected, format!("the answer {sum}"));
            }
        }
        true
    }

    fn check_sum(&mut self, step: &Step, sum: i32, expected: Option<i32>) -> bool {
        if let Some(expected) = expected.filter(|&expected| expected != sum) {
            let seen = format!("{sum} (off by {})", i64::from(sum) - i64::from(expected));
            self.violation(ViolationKind::WrongSum, Some(step), expected.to_string(), seen);
        }
        expected.is_some()
    }

    fn refused(&mut self, waiting: &InFlight, text: &str) {
        let step = &waiting.step;
        if !wants_start(text, self.id.correlation_id, &self.rules.model) {
            let expected =
                if self.id.possible.has_to_refuse(step) { "to be refused for want of START" } else { "an answer" };
            self.violation(
                ViolationKind::UnexpectedError,
                Some(step),
                expected.to_owned(),
                format!("the error '{text}'"),
            );
            // The server may have executed the step, and may have ended the sequence.
            self.id.possible = Possible::UNKNOWN;
            self.settle(waiting, Outcome::Failed, None, true);
            return;
        }
        if waiting.overtaken != Overtaken::No {
            // What a later step was answered is judged already; the state that belongs to this refusal is gone.
            self.settle(waiting, Outcome::Refused, None, false);
            return;
        }
        let in_doubt = self.in_doubt(waiting);
        let determined = step.start || !(self.id.possible.may_be_absent() || in_doubt || self.may_be_reaped());
        if determined {
            let since = Duration::from_nanos(self.at.saturating_sub(self.id.last_accepted_sent));
            let why = if step.start {
                "an answer: the request carries START".to_owned()
            } else {
                format!("an answer: the last accepted step was sent only {} ms before", since.as_millis())
            };
            self.violation(ViolationKind::SpuriousStartError, Some(step), why, format!("the error '{text}'"));
        }
        let judged = determined || self.id.possible.has_to_refuse(step);
        self.id.possible = match self.id.possible {
            _ if in_doubt => Possible::UNKNOWN,
            // The sequence was there, and is if only the refusal was wrong.
            before if determined => before.or_absent(),
            _ => Possible::ABSENT,
        };
        self.settle(waiting, Outcome::Refused, None, judged);
    }

    /// Whether the sequence may have gone idle: the server counts from the arrival of the last step that it accepted,
    /// which was not before that step was sent, to some moment before the refusal came.
    fn may_be_reaped(&self) -> bool {
        let since = Duration::from_nanos(self.at.saturating_sub(self.id.last_accepted_sent));
        self.rules.idle_limit.is_none_or(|limit| since >= limit)
    }

    /// Whether requests of a stream that was cut may have been executed after this one was sent.
    fn in_doubt(&self, waiting: &InFlight) -> bool {
        waiting.sent_at < self.id.in_doubt_until
    }

    /// The sum that a response holds; none, and a violation, where it is not as it should be.
    fn sum_of(&mut self, step: &Step, response: &Response) -> Option<i32> {
        if response.model != self.rules.model {
            let expected = format!("an answer of model '{}'", self.rules.model);
            self.violation(ViolationKind::WrongModel, Some(step), expected, format!("one of '{}'", response.model));
        }
        let [output] = response.outputs.as_slice() else {
            let names: Vec<_> = response.outputs.iter().map(|output| output.name.as_str()).collect();
            let expected = format!("one output, '{}'", self.rules.output);
            self.violation(
                ViolationKind::WrongOutputName,
                Some(step),
                expected,
                format!("{} outputs {names:?}", names.len()),
            );
            return None;
        };
        if output.name != self.rules.output {
            let expected = format!("the output '{}'", self.rules.output);
            self.violation(ViolationKind::WrongOutputName, Some(step), expected, format!("'{}'", output.name));
        }
        if output.datatype != INT32 {
            self.violation(ViolationKind::WrongOutputType, Some(step), INT32.to_owned(), output.datatype.clone());
            return None;
        }
        if output.shape != self.rules.shape {
            let expected = format!("the shape {:?}", self.rules.shape);
            self.violation(ViolationKind::WrongOutputShape, Some(step), expected, format!("{:?}", output.shape));
        }
        let sum = output.data.single_int32();
        if sum.is_none() {
            self.violation(ViolationKind::WrongOutputSize, Some(step), "4 bytes".to_owned(), output.data.to_string());
        }
        sum
    }

    /// The step was executed, and what it did to the state is not known.
    fn unreadable(&mut self, waiting: &InFlight) {
        self.id.possible = Possible::UNKNOWN;
        self.id.last_accepted_sent = self.id.last_accepted_sent.max(waiting.sent_at);
        self.settle(waiting, Outcome::Completed, None, true);
    }

    /// A message that answers no request in flight on this stream.
    fn not_asked_for(&mut self, received: &Received) {
        let was_sent_here = |request| self.id.stream.is_some_and(|(first, last)| (first..=last).contains(&request));
        let answered_before = received.request().is_some_and(was_sent_here);
        let what = match &received.result {
            Ok(_) => "an answer".to_owned(),
            Err(text) => format!("the error '{text}'"),
        };
        let front = self.id.in_flight.front().map(|waiting| waiting.step);
        let (kind, expected) = if answered_before {
            (ViolationKind::Duplicate, "one answer to each request".to_owned())
        } else {
            let waiting_for =
                front.map_or("nothing".to_owned(), |step| format!("an answer to request {}", step.request));
            (ViolationKind::Misaddressed, waiting_for)
        };
        self.violation(kind, front.as_ref(), expected, format!("{what} to request '{}'", received.id));
        self.ruling.distrust = true;
    }

    fn gave_up(&mut self) {
        let Some(waiting) = self.id.in_flight.pop_front() else { return };
        let waited = Duration::from_nanos(self.at.saturating_sub(waiting.sent_at));
        let expected = "an answer within the longest lawful wait".to_owned();
        self.violation(
            ViolationKind::Lost,
            Some(&waiting.step),
            expected,
            format!(
                "none for {} ms, and {} later requests of the stream unanswered",
                waited.as_millis(),
                self.id.in_flight.len()
            ),
        );
        self.settle(&waiting, Outcome::Indeterminate, None, true);
    }

    fn cut(&mut self, cut: Cut) {
        if let Cut::Broken(reason) = cut {
            let front = self.id.in_flight.front().map(|waiting| waiting.step);
            let expected = "the stream to last until the client closes it".to_owned();
            self.violation(ViolationKind::StreamBroken, front.as_ref(), expected, reason);
        }
        self.ruling.abandoned = self.id.in_flight.len();
        self.id.in_flight.clear();
        self.id.possible = Possible::UNKNOWN;
        let straggling = u64::try_from(self.rules.straggling.as_nanos()).unwrap_or(u64::MAX);
        self.id.in_doubt_until = self.at.saturating_add(straggling);
    }

    fn settle(&mut self, waiting: &InFlight, outcome: Outcome, sum: Option<i32>, judged: bool) {
        self.ruling.settled = Some(Settled { step: waiting.step, sent_at: waiting.sent_at, outcome, sum, judged });
    }

    fn violation(&mut self, kind: ViolationKind, step: Option<&Step>, expected: String, seen: String) {
        let place = Some(Place::new(self.context, self.id.correlation_id, step));
        let sent = step.map_or("nothing".to_owned(), ToString::to_string);
        self.ruling.violations.push(Violation { kind, at_ns: self.at, place, sent, expected, seen });
    }
}

/// Whether an error says that the sequence has to begin with START, for this ID and this model.
fn wants_start(text: &str, id: CorrelationId, model: &str) -> bool {
    // The text that Triton answers with; compatible servers may add to it.
    text.contains("must specify the START flag")
        && text.contains(&format!("sequence {id} "))
        && text.contains(&format!("'{model}'"))
}

#[cfg(test)]
mod tests;
