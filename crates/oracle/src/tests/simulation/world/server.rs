//! What becomes of requests that arrive, and of the answers on their way back.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use rand::RngExt as _;

use super::{super::conversation::IDLE_US, Alteration, Answer, Kind, SEEN_BYTES, Sent, Stream, What, World, id};
use crate::{Ruling, Words};
use reference::simulated::{SequenceId, Submitted};
use workload::{
    controls,
    conversation::Lane,
    event::{EventKind, Received, Response, Series},
    sequence::{Special, Step},
    tensor::{Tensor, TensorData},
};

impl World {
    pub(super) fn arrives(&mut self, request: usize) {
        let Sent { stream, step, given, .. } = self.sent[request];
        let Stream { client, ref mut under_way, ref mut order, ref cancelled, .. } = self.streams[stream];
        *under_way -= 1;
        if cancelled.load(Relaxed) {
            return;
        }
        order.push_back(request);
        let cancelled = Arc::clone(cancelled);
        let submitted = Submitted {
            version: None,
            name: request,
            id: &SequenceId::Number(self.id_on_the_server(client)),
            start: step.start,
            end: step.end,
            shape: vec![1, 1],
            data: given.to_le_bytes().into(),
            batch_size: if step.flaw().is_some() { 2 } else { 1 },
            timeout: match step.special {
                Some(Special::TimeoutUs(us)) => Some(Duration::from_micros(us)),
                _ => None,
            },
            cancelled,
        };
        let lag = Duration::from_micros(self.random.random_range(0..IDLE_US / 2));
        let rejected = self.server.submit(submitted, Duration::from_micros(self.now), lag);
        match rejected {
            Some(answer) => self.answered(request, answer.into()),
            None => self.clients[client].last_accepted = Some(request),
        }
        self.serve();
    }

    pub(super) fn serve(&mut self) {
        let mut answers = Vec::new();
        let random = &mut self.random;
        let more = || Duration::from_micros(random.random_range(0..3000));
        self.server.advance(Duration::from_micros(self.now), more, &mut answers);
        for (request, answer) in answers {
            self.answered(request, answer.into());
        }
        let wake = self.server.next_wake().map(|at| u64::try_from(at.as_nanos().div_ceil(1000)).expect("soon"));
        if let Some(wake) = wake.map(|wake| wake.max(self.now)).filter(|wake| *wake < self.wakes_at) {
            self.wakes_at = wake;
            self.schedule(wake, What::Server);
        }
    }

    fn answered(&mut self, request: usize, answer: Answer) {
        if let Some(log) = &mut self.log {
            log.push(format!(
                "{} µs: the server answers {} with {answer:?}",
                self.now, self.sent[request].step.request
            ));
        }
        self.sent[request].answer = Some(answer);
        let at = self.sent[request].stream;
        if self.kind.arithmetic.answers.are_series() {
            // The last of its responses may come after all those to another request.
            let delay = self.random.random_range(0..self.streams[at].slowness);
            self.streams[at].order.retain(|other| *other != request);
            return self.schedule(self.now + delay, What::Delivered(request));
        }
        while let Some(&first) = self.streams[at].order.front().filter(|first| self.sent[**first].answer.is_some()) {
            let delay = self.random.random_range(0..self.streams[at].slowness);
            let stream = &mut self.streams[at];
            stream.order.pop_front();
            stream.last_down = stream.last_down.max(self.now + delay) + 1;
            let when = stream.last_down;
            self.schedule(when, What::Delivered(first));
        }
    }

    pub(super) fn delivered(&mut self, request: usize) {
        let Sent { stream, step, given, answer } = self.sent[request];
        let Stream { client, lane, is_open, ref mut unanswered, .. } = self.streams[stream];
        if !is_open {
            return;
        }
        *unanswered -= 1;
        let answer = match answer.expect("it was answered") {
            Answer::Sum(_, seen) if self.kind.arithmetic.formula.is_stateless() => {
                Answer::Sum(given + i32::from(step.start), seen)
            }
            other => other,
        };
        let answer = self.tampered(client, lane, (&step, given), answer);
        let ruling = self.tell(client, lane, received(&self.kind, client, &step, answer));
        self.seen.answers += 1;
        self.seen.sums += u64::from(matches!(answer, Answer::Sum(..)));
        if let Some(doubt) = ruling.settled.expect("it is settled").doubt {
            *self.seen.unjudged.entry(doubt).or_default() += 1;
        }
        self.go_on(client);
    }

    /// The answer, altered where it is the one to be altered and is determined.
    /// What the oracle would say of an event.
    fn judge(&self, client: usize, lane: Lane, kind: EventKind) -> Ruling {
        let event = self.oracle.read(self.event(client, lane, kind));
        self.oracle.clone().observe(event)
    }

    fn tampered(&mut self, client: usize, lane: Lane, (step, given): (&Step, i32), answer: Answer) -> Answer {
        if self.tampering.is_none_or(|tampering| self.seen.answers < tampering.answer) || self.seen.tampered.is_some() {
            return answer;
        }
        let right = self.judge(client, lane, received(&self.kind, client, step, answer));
        let is_determined = right.settled.is_some_and(|settled| settled.doubt.is_none()) && !self.small_values;
        let (how, altered) = match answer {
            Answer::Sum(..) if step.start && self.random.random_bool(0.2) => (Alteration::Rejected, Answer::NoStart),
            Answer::Sum(sum, seen) if self.random.random_bool(0.3) => {
                (Alteration::Controls, Answer::Sum(sum, self.mistaken(seen)))
            }
            Answer::Sum(sum, seen) if self.random.random_bool(0.5) => {
                (Alteration::Doubled, Answer::Sum(sum.wrapping_add(given), seen))
            }
            Answer::Sum(sum, seen) => (Alteration::OtherSum, Answer::Sum(sum.wrapping_add(self.random.random()), seen)),
            Answer::NoStart if !step.start => {
                let seen = controls::Seen::new(
                    [Some(false), Some(step.end), Some(true)],
                    id(client).0.get().cast_signed(),
                    None,
                );
                let seen = seen.to_bytes().try_into().expect("its elements");
                (Alteration::Accepted, Answer::Sum(self.random.random(), seen))
            }
            Answer::NoStart | Answer::Flawed | Answer::Expired | Answer::Cancelled => return answer,
        };
        if !is_determined {
            return answer;
        }
        let wrong = self.judge(client, lane, received(&self.kind, client, step, altered));
        if wrong.violations.is_empty() && self.kind.has_few_numbers() {
            return answer;
        }
        self.seen.tampered = Some((how, wrong.violations.len()));
        altered
    }

    /// What the model saw, with one of the controls that it is told another than it was.
    fn mistaken(&mut self, seen: [u8; SEEN_BYTES]) -> [u8; SEEN_BYTES] {
        let mut seen = controls::Seen::from_bytes(&seen).expect("it is right");
        match self.random.random_range(0..4) {
            0 if self.kind.told.corrid_bits.is_some() => seen.corrid += 1,
            1 if self.kind.told.end => seen.end = seen.end.map(|end| !end),
            2 => seen.ready = Some(false),
            _ => seen.start = seen.start.map(|start| !start),
        }
        seen.to_bytes().try_into().expect("its elements")
    }
}

pub(in super::super) fn received(kind: &Kind, client: usize, step: &Step, answer: Answer) -> EventKind {
    let outputs = |number: u32, sum: i32, seen: [u8; SEEN_BYTES]| {
        let output = |name: &str, datatype: &str, elements, bytes: &[u8]| Tensor {
            name: name.into(),
            datatype: datatype.into(),
            shape: vec![1, elements],
            data: TensorData::Raw(bytes.into()),
        };
        let first = kind.arithmetic.answer(kind.number(sum), step, id(client));
        let answer = first.wrapping_add(kind.arithmetic.answers.besides(number, step.value));
        let datatype = kind.arithmetic.datatype.name();
        let count = step.value.elements().get();
        let bytes = answer.to_bytes().repeat(count.into());
        vec![output("OUTPUT", datatype, count.into(), &bytes), output("SEEN", "INT64", 5, &seen)]
    };
    let response = |outputs| Ok(Response { model: "m".into(), outputs, ..Response::default() });
    let result = match answer {
        Answer::Sum(sum, seen) => response(outputs(0, sum, seen)).map(|first: Response| {
            let count = kind.arithmetic.answers.count();
            let further = (1..count).map(|number| outputs(number, sum, seen));
            let further = further.map(|outputs| Response { outputs, ..first.clone() }).collect();
            Response { series: Series { further, ..Series::default() }, ..first }
        }),
        Answer::Cancelled => response(Vec::new()),
        Answer::Flawed => Err("… must specify batch-size 1 due to requirements of sequence batcher".to_owned()),
        Answer::Expired => Err("timeout of the corresponding sequence has been expired".to_owned()),
        Answer::NoStart => Err(format!(
            "inference request for sequence {} to model 'm' must specify the START flag on the first request of the sequence",
            id(client)
        )),
    };
    let result = match kind.words {
        Words::Known | Words::KnownWithOneStatus => result,
        Words::Unknown => result.map_err(|_| "no".to_owned()),
    };
    EventKind::Received(Box::new(Received { id: step.request.to_string(), result, code: None, outputs: 0 }))
}
