//! A trace of each sequence with a violation: a span for the sequence, and one for each of its steps.

use std::{
    borrow::Cow,
    time::{Duration, Instant, SystemTime},
};

use opentelemetry::{
    Context, KeyValue,
    trace::{Event, Span as _, SpanBuilder, Status, TraceContextExt as _, Tracer as _},
};
use opentelemetry_sdk::trace::{SdkTracer, Span};

use crate::{
    metrics::values::{Run, Values},
    report::{Description, evidence},
};
use oracle::{Violation, history::Entry};
use workload::{
    event::{EventKind, Nanos},
    sequence::{RequestId, Step},
};

/// How long a sequence waits for further violations of it.
const HOLD: Duration = Duration::from_secs(2);

/// What the thread is told: a violation of a scenario's run, and what happened in its sequence.
pub(super) struct Told {
    pub(super) scenario: String,
    pub(super) violation: Violation,
    pub(super) entries: Vec<Entry>,
}

/// Makes traces.
pub(super) struct Traces {
    tracer: SdkTracer,
    held: Vec<Sequence>,
}

/// A sequence that becomes a trace.
struct Sequence {
    scenario: String,
    since: Instant,
    violations: Vec<Violation>,
    /// What happened in it; of several violations that of the last one.
    entries: Vec<Entry>,
}

/// A step, and what came of it.
struct Sent {
    step: Step,
    at: Nanos,
    answered: Option<(Nanos, Result<String, String>)>,
}

impl Traces {
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self { tracer, held: Vec::new() }
    }

    /// Takes in a violation. One that concerns no request has no trace.
    pub(super) fn take(&mut self, Told { scenario, violation, entries }: Told) {
        let Some(request) = violation.request() else { return };
        let of = |id: RequestId| (id.worker, id.context, id.sequence);
        let is_its = |held: &&mut Sequence| {
            held.scenario == scenario && held.violations[0].request().is_some_and(|its| of(its) == of(request))
        };
        if let Some(held) = self.held.iter_mut().find(is_its) {
            held.violations.push(violation);
            held.entries = entries;
        } else {
            self.held.push(Sequence { scenario, since: Instant::now(), violations: vec![violation], entries });
        }
    }

    /// Sends the sequences that are held for long enough; all of them where nothing more comes.
    pub(super) fn send(&mut self, values: &Values, is_over: bool) {
        for sequence in self.held.extract_if(.., |held| is_over || held.since.elapsed() >= HOLD) {
            // Whoever told of a violation told before when its run began.
            let Some(run) = values.runs.get(&sequence.scenario) else { continue };
            let Some(began) = run.began else { continue };
            sequence.send(&self.tracer, run, began);
        }
    }
}

impl Sequence {
    fn send(&self, tracer: &SdkTracer, run: &Run, began: SystemTime) {
        let time = |at: Nanos| began + Duration::from_nanos(at);
        let steps = self.steps();
        let first = &self.violations[0];
        let begins = steps.first().map_or(first.at_ns, |sent| sent.at);
        let ends = steps.iter().filter_map(|sent| sent.answered.as_ref().map(|(at, _)| *at));
        let ends = ends.chain(self.violations.iter().map(|violation| violation.at_ns)).max().unwrap_or(begins);
        let builder = SpanBuilder::from_name("sequence").with_start_time(time(begins));
        let mut root = tracer.build_with_context(builder.with_attributes(self.attributes(run)), &Context::new());
        let mut events = self.violations.clone();
        let parent = Context::new().with_remote_span_context(root.span_context().clone());
        for sent in &steps {
            let its: Vec<_> =
                events.extract_if(.., |violation| violation.request() == Some(sent.step.request)).collect();
            sent.send(tracer, &parent, &its, time);
        }
        // The step of these is not known any more.
        mark(&mut root, &events, time);
        root.set_status(Status::error(first.kind.name()));
        root.end_with_timestamp(time(ends));
    }

    fn steps(&self) -> Vec<Sent> {
        let mut steps: Vec<Sent> = Vec::new();
        for entry in &self.entries {
            let answer = match &entry.what {
                EventKind::Sent(step) => {
                    steps.push(Sent { step: *step, at: entry.at, answered: None });
                    continue;
                }
                EventKind::Answered(request, number, _) => Some((*request, Ok(number.to_string()))),
                EventKind::Received(received) => {
                    let answer = match &received.result {
                        Ok(response) => Ok(format!("{} outputs", response.outputs.len())),
                        Err(text) => Err(text.clone()),
                    };
                    received.request().map(|request| (request, answer))
                }
                _ => None,
            };
            let Some((request, answer)) = answer else { continue };
            if let Some(sent) = steps.iter_mut().rfind(|sent| sent.step.request == request) {
                sent.answered.get_or_insert((entry.at, answer));
            }
        }
        steps
    }

    fn attributes(&self, run: &Run) -> Vec<KeyValue> {
        let mut attributes = vec![
            text("scenario", self.scenario.clone()),
            text("model", run.model.clone()),
            text("seed", run.seed.clone()),
        ];
        if let Some(place) = &self.violations[0].place {
            attributes.push(text("correlation_id", place.correlation_id.to_string()));
            attributes.push(number("worker", place.worker));
            attributes.push(number("context", place.context));
        }
        let step = self.entries.iter().find_map(|entry| match &entry.what {
            EventKind::Sent(step) => Some(*step),
            _ => None,
        });
        if let Some(step) = step {
            attributes.push(text("pattern", step.pattern.name()));
            attributes.push(number("steps", step.of));
        }
        attributes
    }
}

impl Sent {
    fn send(&self, tracer: &SdkTracer, parent: &Context, violations: &[Violation], time: impl Fn(Nanos) -> SystemTime) {
        let Self { step, at, answered } = self;
        let mut attributes = vec![
            text("request_id", step.request.to_string()),
            number("step", step.request.step + 1),
            KeyValue::new("sequence_stress.start", step.start),
            KeyValue::new("sequence_stress.end", step.end),
            text("value", step.value.to_string()),
        ];
        attributes.extend(match answered {
            Some((_, Ok(answer))) => vec![text("outcome", "response"), text("answer", answer.clone())],
            Some((_, Err(error))) => vec![text("outcome", "error"), text("error", error.clone())],
            None => vec![text("outcome", "none")],
        });
        let builder = SpanBuilder::from_name("step").with_start_time(time(*at)).with_attributes(attributes);
        let mut span = tracer.build_with_context(builder, parent);
        mark(&mut span, violations, &time);
        if let Some(first) = violations.first() {
            span.set_status(Status::error(first.kind.name()));
        }
        let last = violations.iter().map(|violation| violation.at_ns).max();
        let ends = answered.as_ref().map(|(at, _)| *at).or(last).unwrap_or(*at);
        span.end_with_timestamp(time(ends));
    }
}

/// Adds an event to a span for each violation.
fn mark(span: &mut Span, violations: &[Violation], time: impl Fn(Nanos) -> SystemTime) {
    for violation in violations {
        let Description { sent, expected, seen } = Description::of(violation);
        let mut attributes = vec![
            text("kind", violation.kind.name()),
            text("sent", sent),
            text("expected", expected),
            text("seen", seen),
        ];
        if let Some(explanation) = violation.explanations.first() {
            attributes.push(text("cause", explanation.cause.name()));
            attributes.push(text("evidence", evidence(violation, explanation)));
        }
        let Event { name, timestamp, attributes, .. } = Event::new("violation", time(violation.at_ns), attributes, 0);
        span.add_event_with_timestamp(name, timestamp, attributes);
    }
}

fn text(name: &str, value: impl Into<Cow<'static, str>>) -> KeyValue {
    KeyValue::new(format!("sequence_stress.{name}"), opentelemetry::StringValue::from(value.into()))
}

fn number(name: &str, value: u32) -> KeyValue {
    KeyValue::new(format!("sequence_stress.{name}"), i64::from(value))
}
