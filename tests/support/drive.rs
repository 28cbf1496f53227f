//! Drives a scenario as the engine does, and keeps every event: what a diagnosis is made from.

use std::{
    cell::RefCell,
    collections::VecDeque,
    rc::Rc,
    time::{Duration, Instant},
};

use sequence_stress::{
    conversation::{Connection, Lane},
    engine::{Hints, Preflight},
    event::{ContextId, Cut, Event, EventKind},
    history::{Entry, Form},
    oracle::{Oracle, Outcome, Rules, Violation, ViolationKind, diagnosis::Known},
    plan::{WorkerPlan, correlation_id},
    scenario::{Reuse, Scenario},
    seed::Seed,
    sequence::{RequestId, Sequence, Step},
    transport::{Client, Message, RequestTemplate, Stream},
};
use tokio::task::LocalSet;
use tonic::transport::Channel;

/// How long a run goes on after its first violation, for what follows from it.
const FOLLOW_UP: Duration = Duration::from_millis(800);

/// What a run was.
pub struct Drive {
    pub entries: Vec<Entry>,
    pub violations: Vec<Violation>,
    pub known: Known,
}

struct Log {
    oracle: Oracle,
    form: Form,
    began: Instant,
    drive: Drive,
    completed: u64,
    cut: bool,
    first_violation: Option<Instant>,
}

struct Worker {
    scenario: Scenario,
    preflight: Preflight,
    client: Client,
    log: Rc<RefCell<Log>>,
}

/// Runs the scenario until it is done, or some time after the first violation.
pub fn drive(scenario: &Scenario, seed: Seed) -> Drive {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, run(scenario, seed))
}

async fn run(scenario: &Scenario, seed: Seed) -> Drive {
    let client = Client::new(&scenario.target.endpoint, Duration::from_secs(5)).expect("an endpoint");
    let preflight = Preflight::ask(&client, scenario, Hints::default()).await.expect("a model");
    let before = client.counted(&scenario.target.model).await.expect("statistics");
    let log = Rc::new(RefCell::new(Log::new(scenario, &preflight)));
    let worker =
        Rc::new(Worker { scenario: scenario.clone(), preflight, client: client.clone(), log: Rc::clone(&log) });
    let tasks: Vec<_> = (0..scenario.load.workers.get())
        .map(|index| tokio::task::spawn_local(work(Rc::clone(&worker), WorkerPlan::new(scenario, seed, index))))
        .collect();
    for task in tasks {
        task.await.expect("a worker");
    }
    drop(worker);
    let mut log = Rc::into_inner(log).expect("the workers are done").into_inner();
    tokio::time::sleep(Duration::from_millis(100)).await;
    if let Ok(after) = client.counted(&scenario.target.model).await {
        log.check_counts(after.success - before.success);
    }
    log.drive
}

impl Log {
    fn new(scenario: &Scenario, preflight: &Preflight) -> Self {
        let model = &preflight.model;
        let rules = Rules {
            model: model.name.clone(),
            output: model.output.name.clone(),
            shape: model.shape.clone(),
            idle_limit: model.idle_limit,
            straggling: preflight.limits.lawful,
            mixes: model.mixes_pipelined.is_some(),
        };
        let id = |ContextId { worker, context }| correlation_id(scenario, worker, context);
        let (workers, contexts) = (scenario.load.workers.get(), scenario.contexts.count());
        let form = Form { model: model.name.clone(), output: model.output.name.clone(), shape: model.shape.clone() };
        let drive = Drive { entries: Vec::new(), violations: Vec::new(), known: Known::of(model) };
        let oracle = Oracle::new(rules, workers, contexts, id);
        Self { oracle, form, began: Instant::now(), drive, completed: 0, cut: false, first_violation: None }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("a short run")
    }

    /// Takes an event in; whether the stream has to be cut.
    fn tell(&mut self, scenario: &Scenario, context: ContextId, kind: EventKind) -> bool {
        let event = Event { at: self.now(), context, lane: Lane::FIRST, kind };
        let id = correlation_id(scenario, context.worker, context.context);
        self.cut |= matches!(event.kind, EventKind::Cut(_) | EventKind::GaveUp);
        self.drive.entries.push(Entry::new(&event, id, &self.form));
        let ruling = self.oracle.observe(event);
        self.completed += u64::from(ruling.settled.is_some_and(|settled| settled.outcome == Outcome::Completed));
        if !ruling.violations.is_empty() {
            self.first_violation.get_or_insert_with(Instant::now);
        }
        self.drive.violations.extend(ruling.violations);
        ruling.distrust
    }

    fn is_over(&self) -> bool {
        self.first_violation.is_some_and(|at| at.elapsed() > FOLLOW_UP)
    }

    fn died(&mut self, reason: &str) {
        if self.drive.violations.iter().all(|violation| violation.kind != ViolationKind::ServerDied) {
            let at = self.now();
            let text = |text: &str| text.to_owned();
            let died =
                Violation::of_the_run(ViolationKind::ServerDied, at, text("requests"), text("answers"), text(reason));
            self.drive.violations.push(died);
            self.first_violation = Some(self.began);
        }
    }

    fn check_counts(&mut self, success: u64) {
        if success != self.completed && !self.cut {
            let expected = format!("{} successes and as many inferences, 0 failures", self.completed);
            let (at, seen) = (self.now(), format!("{success} successes, {success} inferences, 0 failures"));
            let kind = ViolationKind::Statistics;
            self.drive.violations.push(Violation::of_the_run(kind, at, "requests".to_owned(), expected, seen));
        }
    }
}

/// What one context has to send, and waits for.
struct Burst {
    context: ContextId,
    to_send: VecDeque<Step>,
    in_flight: VecDeque<(RequestId, Instant)>,
}

async fn work(worker: Rc<Worker>, mut plan: WorkerPlan) {
    let mut serial = 0;
    let channel = worker.channel();
    for _ in 0..worker.scenario.load.iterations.map_or(1, std::num::NonZero::get) {
        if worker.log.borrow().is_over() {
            return;
        }
        let pass = plan.next_pass();
        let context = ContextId { worker: pass.worker, context: pass.context };
        let steps: Vec<_> = (serial..)
            .zip(&pass.sequences)
            .map(|(serial, sequence)| steps(context, pass.pattern, serial, sequence))
            .collect();
        serial += u32::try_from(pass.sequences.len()).expect("one or two");
        let bursts = match worker.preflight.reuse {
            Reuse::Pipelined => vec![steps.concat()],
            Reuse::AfterAnswer => steps,
        };
        for to_send in bursts {
            let burst = Burst { context, to_send: to_send.into(), in_flight: VecDeque::new() };
            if !worker.run(burst, &channel).await {
                break;
            }
        }
    }
}

fn steps(
    ContextId { worker, context }: ContextId,
    pattern: sequence_stress::sequence::Pattern,
    sequence: u32,
    Sequence { start, end, values }: &Sequence,
) -> Vec<Step> {
    let of = u32::try_from(values.len()).expect("short");
    let step = |(step, value): (u32, &i32)| Step {
        request: RequestId { worker, context, sequence, step },
        pattern,
        start: *start && step == 0,
        end: *end && step + 1 == of,
        value: *value,
        of,
    };
    (0..).zip(values).map(step).collect()
}

impl Worker {
    fn channel(&self) -> Channel {
        let endpoint = tonic::transport::Endpoint::from_shared(self.scenario.target.endpoint.uri());
        endpoint.expect("an address").tcp_nodelay(true).connect_lazy()
    }

    fn tell(&self, context: ContextId, kind: EventKind) -> bool {
        self.log.borrow_mut().tell(&self.scenario, context, kind)
    }

    /// Sends a burst on a stream of its own; whether all of it was answered.
    async fn run(&self, mut burst: Burst, channel: &Channel) -> bool {
        let model = &self.preflight.model;
        let ContextId { worker, context } = burst.context;
        let id = correlation_id(&self.scenario, worker, context);
        let template = RequestTemplate::new(&model.name, &model.input.name, &model.shape, &model.output.name, id);
        self.tell(burst.context, EventKind::Opened(Connection::Own));
        let mut stream = Stream::open(channel, template);
        while !(burst.to_send.is_empty() && burst.in_flight.is_empty()) {
            self.send(&mut burst, &stream);
            let limit =
                burst.in_flight.front().map_or(Instant::now(), |(_, at)| *at) + self.preflight.limits.lost_after;
            match tokio::time::timeout_at(limit.into(), stream.incoming.next()).await {
                Err(_) => {
                    self.tell(burst.context, EventKind::GaveUp);
                    self.tell(burst.context, EventKind::Cut(Cut::ByClient));
                    return false;
                }
                Ok(message) => {
                    if !self.take_in(&mut burst, message).await {
                        return false;
                    }
                }
            }
        }
        self.close(burst.context, stream).await
    }

    fn send(&self, burst: &mut Burst, stream: &Stream) {
        while self.scenario.sending.window.has_room(burst.in_flight.len())
            && let Some(room) = stream.outgoing.room_now()
            && let Some(step) = burst.to_send.pop_front()
        {
            self.tell(burst.context, EventKind::Sent(step));
            burst.in_flight.push_back((step.request, Instant::now()));
            room.send(step);
        }
    }

    async fn take_in(&self, burst: &mut Burst, message: Message) -> bool {
        match message {
            Message::Received(received) => {
                burst.in_flight.retain(|(request, _)| Some(*request) != received.request());
                let distrust = self.tell(burst.context, EventKind::Received(received));
                if distrust {
                    self.tell(burst.context, EventKind::Cut(Cut::ByClient));
                }
                !distrust
            }
            Message::End => self.broken(burst.context, "the server ended the stream").await,
            Message::Broken(reason) => self.broken(burst.context, &reason).await,
        }
    }

    async fn broken(&self, context: ContextId, reason: &str) -> bool {
        let mut is_there = self.client.server_live().await.is_ok();
        if !is_there {
            // It may be about to be there again.
            tokio::time::sleep(Duration::from_millis(500)).await;
            is_there = self.client.server_live().await.is_ok();
        }
        if is_there {
            self.tell(context, EventKind::Cut(Cut::Broken(reason.to_owned())));
        } else {
            self.tell(context, EventKind::Cut(Cut::Interrupted));
            self.log.borrow_mut().died(reason);
        }
        false
    }

    async fn close(&self, context: ContextId, stream: Stream) -> bool {
        let Stream { outgoing, mut incoming } = stream;
        drop(outgoing);
        let limit = tokio::time::Instant::now() + self.preflight.limits.lost_after;
        loop {
            match tokio::time::timeout_at(limit, incoming.next()).await {
                Err(_) => _ = self.tell(context, EventKind::NotClosed),
                Ok(Message::Received(received)) => {
                    if !self.tell(context, EventKind::Received(received)) {
                        continue;
                    }
                    self.tell(context, EventKind::Cut(Cut::ByClient));
                    return false;
                }
                Ok(Message::End) => _ = self.tell(context, EventKind::Closed),
                Ok(Message::Broken(reason)) => return self.broken(context, &reason).await,
            }
            return true;
        }
    }
}
