//! One worker: its passes one after the other, each on one of its contexts.

use std::{cell::RefCell, pin::Pin, rc::Rc, sync::Arc, time::Duration};

use tokio::time::{Instant, Sleep};
use tonic::transport::Channel;

use super::{context::StreamContext, shared::Shared};
use crate::{
    conversation::{Connection, Lane},
    event::{ContextId, Cut, Event, EventKind},
    plan::{Pace, Pacer, Pass, WorkerPlan, correlation_id},
    recorder::{Record, Recorder},
    scenario::{ConnectionOwner, Reuse, Scenario, StreamLife},
    sequence::Step,
    transport::{CallError, Message, RequestTemplate, Stream, channel},
};

/// How long a deadline that has passed waits on for what the process itself may have been too slow to read.
const GRACE: Duration = Duration::from_millis(200);

/// A worker and what it owns.
pub(super) struct Worker {
    plan: WorkerPlan,
    pacer: Pacer,
    lines: Vec<Line>,
    sequences_begun: u32,
    stream_life: StreamLife,
    reuse: Reuse,
    out: Out,
}

/// A context and what it sends over.
struct Line {
    context: StreamContext,
    channel: Channel,
    template: RequestTemplate,
    stream: Option<Stream>,
}

/// Where events go, and what is shared with the rest of the run.
struct Out {
    shared: Arc<Shared>,
    recorder: Rc<RefCell<Recorder>>,
    thread: usize,
}

/// How a burst ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BurstEnd {
    /// All is answered; what came gives no reason to distrust the stream.
    Clean,
    /// All is answered, not all of it rightly.
    Suspicious,
    /// The stream is gone, and with it what was in flight.
    Cut,
}

impl Worker {
    pub(super) fn new(
        index: u32,
        thread: usize,
        shared: Arc<Shared>,
        recorder: Rc<RefCell<Recorder>>,
    ) -> Result<Self, CallError> {
        let scenario = &shared.scenario;
        Ok(Self {
            plan: WorkerPlan::new(scenario, shared.seed, index),
            pacer: Pacer::new(&scenario.load),
            lines: lines(scenario, &shared, index)?,
            sequences_begun: 0,
            stream_life: scenario.sending.stream,
            reuse: shared.preflight.reuse,
            out: Out { shared, recorder, thread },
        })
    }

    /// The connections that the worker will use, each once.
    pub(super) fn connections(&self) -> impl Iterator<Item = Channel> {
        let count = match self.out.shared.scenario.sending.connection {
            ConnectionOwner::PerContext => self.lines.len(),
            ConnectionOwner::PerWorker => 1,
        };
        self.lines.iter().take(count).map(|line| line.channel.clone())
    }

    /// Runs passes until the pacer or the run says stop.
    pub(super) async fn run(mut self) {
        let mut issued = 0;
        while !self.out.shared.is_stopping() && self.pacer.pace(self.out.shared.elapsed(), issued) == Pace::Go {
            let pass = self.plan.next_pass();
            self.run_pass(pass).await;
            self.out.shared.finished_a_pass(self.out.thread);
            issued += 1;
        }
        for line in &mut self.lines {
            line.close(&self.out).await;
        }
    }

    async fn run_pass(&mut self, pass: Pass) {
        let line = &mut self.lines[pass.context as usize];
        let mut sequences = pass.sequences.into_iter();
        let at_once = match self.reuse {
            Reuse::Pipelined => sequences.len(),
            Reuse::AfterAnswer => 1,
        };
        while sequences.len() > 0 {
            let serial = self.sequences_begun;
            line.context.begin(pass.pattern, sequences.by_ref().take(at_once), serial);
            self.sequences_begun += u32::try_from(at_once).expect("a pass has one sequence or two");
            let end = line.burst(&self.out).await;
            if end == BurstEnd::Suspicious || (end == BurstEnd::Clean && self.stream_life == StreamLife::PerSequence) {
                line.close(&self.out).await;
            }
            // After a cut the rest of the pass is left out: its ID is in doubt, and the next pass begins with a new stream.
            if end == BurstEnd::Cut || self.out.shared.is_stopping() {
                return;
            }
        }
    }
}

fn lines(scenario: &Scenario, shared: &Shared, worker: u32) -> Result<Vec<Line>, CallError> {
    let model = &shared.preflight.model;
    let connect = || channel(&scenario.target.endpoint, scenario.limits.connect_ms.duration());
    let common_channel = connect()?;
    let line = |context| {
        let correlation_id = correlation_id(scenario, worker, context);
        Ok(Line {
            context: StreamContext::new(ContextId { worker, context }, scenario.sending.window),
            channel: match scenario.sending.connection {
                ConnectionOwner::PerContext => connect()?,
                ConnectionOwner::PerWorker => common_channel.clone(),
            },
            template: RequestTemplate::new(
                &model.name,
                &model.input.name,
                &model.shape,
                &model.output.name,
                correlation_id,
            ),
            stream: None,
        })
    };
    (0..scenario.contexts.count()).map(line).collect()
}

impl Line {
    /// Sends what the context has to send, and takes in the answers.
    async fn burst(&mut self, out: &Out) -> BurstEnd {
        let id = self.context.id;
        let context = &mut self.context;
        let stream = self.stream.get_or_insert_with(|| {
            out.tell(id, EventKind::Opened(Connection::Own));
            Stream::open(&self.channel, self.template.clone())
        });
        let limit = out.shared.preflight.limits.lost_after;
        let mut timer = std::pin::pin!(tokio::time::sleep(limit));
        let mut suspicious = false;
        while !context.is_done() {
            send_while_there_is_room(context, stream, out);
            tokio::select! {
                biased;
                message = stream.incoming.next() => match out.take_in(context, message).await {
                    Some(record) if record.distrust => {
                        return self.cut(out, Cut::ByClient);
                    }
                    Some(record) => suspicious |= !record.violations.is_empty(),
                    None => {
                        self.stream = None;
                        return BurstEnd::Cut;
                    }
                },
                () = stream.outgoing.room(), if context.next_request().is_some() => {}
                () = &mut timer => {
                    if out.is_overdue(context, limit, timer.as_mut()) {
                        out.tell(id, EventKind::GaveUp);
                        return self.cut(out, Cut::ByClient);
                    }
                }
            }
        }
        if suspicious { BurstEnd::Suspicious } else { BurstEnd::Clean }
    }

    fn cut(&mut self, out: &Out, cut: Cut) -> BurstEnd {
        self.stream = None;
        self.context.abandon();
        out.tell(self.context.id, EventKind::Cut(cut));
        BurstEnd::Cut
    }

    /// Closes the stream, if there is one, and takes in what still comes: on a correct server nothing but the end.
    async fn close(&mut self, out: &Out) {
        let Some(Stream { outgoing, mut incoming }) = self.stream.take() else { return };
        drop(outgoing);
        let mut deadline = Instant::now() + out.shared.preflight.limits.lost_after;
        loop {
            match tokio::time::timeout_at(deadline, incoming.next()).await {
                Err(_) if woke_late(deadline) => {
                    deadline = Instant::now() + GRACE;
                    continue;
                }
                Err(_) => _ = out.tell(self.context.id, EventKind::NotClosed),
                Ok(Message::End) => _ = out.tell(self.context.id, EventKind::Closed),
                Ok(message) => {
                    let record = out.take_in(&mut self.context, message).await;
                    if record.is_some_and(|record| !record.distrust) {
                        continue;
                    }
                }
            }
            return;
        }
    }
}

/// Whether the process was held up past a deadline: then it first gets the time to read what came in the meantime.
fn woke_late(deadline: Instant) -> bool {
    deadline.elapsed() > GRACE / 2
}

fn send_while_there_is_room(context: &mut StreamContext, stream: &mut Stream, out: &Out) {
    while let Some(step) = context.next_request() {
        let Some(room) = stream.outgoing.room_now() else { return };
        // Told before it is handed over: the server cannot see the step before this time.
        let now = out.shared.now();
        out.tell_at(now, context.id, EventKind::Sent(step));
        context.on_sent(&step, now);
        room.send(step);
    }
}

impl Out {
    /// Takes in what a stream brought; none where that was its end.
    async fn take_in(&self, context: &mut StreamContext, message: Message) -> Option<Record> {
        let reason = match message {
            Message::Received(received) => {
                let record = self.tell(context.id, EventKind::Received(received));
                if let Some(settled) = &record.settled {
                    context.on_outcome(settled.step.request);
                }
                return Some(record);
            }
            Message::End => "the server ended the stream".to_owned(),
            Message::Broken(reason) => reason,
        };
        context.abandon();
        let cut = if self.shared.server_is_there(&reason).await { Cut::Broken(reason) } else { Cut::Interrupted };
        self.tell(context.id, EventKind::Cut(cut));
        None
    }

    fn tell(&self, context: ContextId, kind: EventKind) -> Record {
        self.tell_at(self.shared.now(), context, kind)
    }

    fn tell_at(&self, at: u64, context: ContextId, kind: EventKind) -> Record {
        if let EventKind::Sent(step) = &kind {
            self.shared.sent(self.thread, step.is_first());
            trace_step(context, step, "sent");
        }
        let record = self.recorder.borrow_mut().record(Event { at, context, lane: Lane::FIRST, kind });
        self.shared.noticed(self.thread, context, at, &record);
        record
    }

    /// Whether the oldest request has waited too long; else the timer is set to when it will have.
    fn is_overdue(&self, context: &StreamContext, limit: Duration, timer: Pin<&mut Sleep>) -> bool {
        let grace = u64::try_from(GRACE.as_nanos()).unwrap_or(0);
        let now = self.shared.now();
        let Some(deadline) = context.deadline(limit) else {
            timer.reset(Instant::now() + limit);
            return false;
        };
        if now >= deadline.saturating_add(grace) && !woke_late(timer.deadline()) {
            return true;
        }
        let wait = Duration::from_nanos(deadline.saturating_sub(now).saturating_add(grace));
        timer.reset(Instant::now() + wait);
        false
    }
}

pub(super) fn trace_step(context: ContextId, step: &Step, what: &str) {
    tracing::debug!("worker {} context {} request {}: {what} {step}", context.worker, context.context, step.request);
}
