//! A worker of a simulation: it holds its iterations as a run's worker does, and its streams are those of the simulated network.

use std::{
    cell::{RefCell, RefMut},
    collections::BTreeSet,
    future::poll_fn,
    mem,
    rc::Rc,
    task::Poll,
    time::Duration,
};

use super::{
    arrivals::{Crew, Given},
    nanos,
    world::{Message, World},
};
use crate::run::{
    context::{Next, StreamContext},
    iterations::Iterations,
};
use oracle::Ruling;
use workload::{
    conversation::{Connection, Conversation, Lane, Transport},
    event::{ContextId, Cut, Due, EventKind, Nanos, Received},
    scenario::Population,
    sequence::{RequestId, Step},
};

/// The world that a simulation's clients share.
pub(super) type Shared<'p> = Rc<RefCell<World<'p>>>;

pub(super) struct Client<'p> {
    world: Shared<'p>,
    worker: u32,
    iterations: Iterations,
    drivers: Vec<Driver<'p>>,
    sequences_begun: u32,
}

/// A context and its streams.
struct Driver<'p> {
    world: Shared<'p>,
    context: StreamContext,
    lanes: Vec<Option<Open>>,
    /// The worker's other contexts whose IDs the conversation uses: what happens to a stream happens to theirs, too.
    others: BTreeSet<u32>,
    /// How much of what was done to the server was heeded.
    heeded: usize,
}

/// An open stream.
#[derive(Clone, Copy)]
struct Open {
    stream: usize,
    is_half_closed: bool,
}

/// Why a stream broke.
const GONE: &str = "the server is gone";

/// A conversation ended early: a stream is gone that should not be, and with it what was in flight.
struct CutShort;

/// Whether not all was answered rightly, so that the streams are suspicious.
type Suspicious = bool;

impl<'p> Client<'p> {
    pub(super) fn new(world: Shared<'p>, worker: u32, iterations: Iterations) -> Self {
        let plan = world.borrow().plan;
        let Population { sending, contexts, .. } = plan.scenario.population_of(worker);
        let arithmetic = plan.preflight.model.arithmetic;
        let driver = |context| {
            let id = ContextId { worker, context };
            let context = StreamContext::new(id, sending.window, sending.transport(), arithmetic);
            Driver { world: Rc::clone(&world), context, lanes: Vec::new(), others: BTreeSet::new(), heeded: 0 }
        };
        let drivers = (0..contexts.count()).map(driver).collect();
        Self { world, worker, iterations, drivers, sequences_begun: 0 }
    }

    /// Holds its iterations until there are no more.
    pub(super) async fn run(mut self) {
        let (phase, crew) = {
            let world = self.world.borrow();
            let scenario = &world.plan.scenario;
            let crew = scenario.place_of_population(self.worker);
            (scenario.phase_of(self.worker), Some(crew).filter(|crew| world.crews[*crew].is_some()))
        };
        let began = phase_begins(&self.world, self.worker, phase).await;
        match crew {
            Some(crew) => self.hold_given(crew).await,
            None => self.hold_all(began).await,
        }
        for driver in &mut self.drivers {
            driver.close_all().await;
        }
        if let Some(phase) = phase {
            let world = &mut *self.world.borrow_mut();
            world.phases.leave(phase, self.worker);
            world.wake_helper();
        }
    }

    async fn wait(&self, until: Option<Nanos>) {
        wait(&self.world, self.worker, until).await;
    }

    async fn hold_all(&mut self, began: Nanos) {
        loop {
            let now = self.world.borrow().now;
            let Some((iteration, sequences)) = self.iterations.next(Duration::from_nanos(now - began)) else { return };
            let due = iteration.at_us.saturating_mul(1000);
            while self.world.borrow().now < due {
                self.wait(Some(due)).await;
            }
            self.hold(iteration, sequences, None).await;
        }
    }

    /// Holds the iterations that it is given, each of which was due at a time of its own.
    async fn hold_given(&mut self, population: usize) {
        loop {
            let given = self.crew(population).next(self.worker);
            match given {
                Given::Iteration(due) => {
                    // When there are no more is for the schedule to say.
                    if let Some((iteration, sequences)) = self.iterations.next(Duration::ZERO) {
                        self.hold(iteration, sequences, Some(due)).await;
                    }
                    self.crew(population).ends(self.worker);
                    let world = &mut *self.world.borrow_mut();
                    world.wake(world.dispatcher(population), world.now);
                }
                Given::Nothing => self.wait(None).await,
                Given::Over => return,
            }
        }
    }

    fn crew(&self, population: usize) -> RefMut<'_, Crew> {
        RefMut::map(self.world.borrow_mut(), |world| world.crews[population].as_mut().expect("it has a rate"))
    }

    async fn hold(&mut self, iteration: Conversation, sequences: u32, due: Option<Due>) {
        let own = iteration.context as usize;
        let others = iteration.others();
        if !others.is_empty() {
            let all = || others.iter().map(|other| *other as usize).chain([own]);
            for context in all() {
                self.drivers[context].close_all().await;
            }
            all().for_each(|context| self.drivers[context].heed());
        }
        let driver = &mut self.drivers[own];
        driver.others = others;
        driver.context.begin(iteration.pattern, iteration.acts, self.sequences_begun, due);
        self.sequences_begun += sequences;
        // After a cut the rest of the iteration is left out: its ID is in doubt, and the next iteration begins with a new stream.
        let is_suspicious = matches!(driver.converse().await, Ok(true));
        if is_suspicious || !driver.others.is_empty() {
            driver.close_all().await;
        }
        let (others, heeded) = (mem::take(&mut driver.others), driver.heeded);
        for other in others {
            self.drivers[other as usize].heeded = heeded;
        }
        self.world.borrow_mut().iterations += 1;
    }
}

/// Waits until a phase begins, and says when it did; where there is none, the run began at 0.
pub(super) async fn phase_begins(world: &Shared<'_>, worker: u32, phase: Option<usize>) -> Nanos {
    let Some(phase) = phase else { return 0 };
    loop {
        let begun = world.borrow().phases.begun(phase);
        match begun {
            Some(at) => return at,
            None => wait(world, worker, None).await,
        }
    }
}

/// Waits until something happens that concerns a worker, or this time comes.
pub(super) async fn wait(world: &Shared<'_>, worker: u32, until: Option<Nanos>) {
    if let Some(until) = until {
        world.borrow_mut().wake(worker, until);
    }
    let mut has_waited = false;
    poll_fn(|_| if mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

impl Driver<'_> {
    /// Holds the context's conversation to its end.
    async fn converse(&mut self) -> Result<Suspicious, CutShort> {
        let mut suspicious = false;
        loop {
            let until = loop {
                self.heed();
                let now = self.world.borrow().now;
                match self.context.next(now) {
                    Next::Done => return Ok(suspicious),
                    Next::Wait(until) => break until,
                    // It ends before another one takes its place.
                    Next::Send(lane, _) if self.open_on(lane).is_some_and(|open| open.is_half_closed) => {
                        suspicious |= self.close(lane).await?;
                    }
                    Next::Send(lane, step) => self.send(lane, &step),
                    Next::Open(lane, over, by) => {
                        // What an earlier conversation left open there is not what this one asks for.
                        suspicious |= self.close(lane).await?;
                        self.open(lane, over, by);
                    }
                    Next::Close(lane) => suspicious |= self.close(lane).await?,
                    Next::HalfClose(lane) => self.half_close(lane),
                    Next::End(lane, cut) => self.end(lane, cut),
                    Next::StopReading(us) => self.stop_reading(us).await,
                }
            };
            if let Some((lane, message)) = self.next_message() {
                suspicious |= self.take_in(lane, message).await?;
                continue;
            }
            let lost_after = nanos(self.world.borrow().lost_after());
            let overdue = self.context.waits_since().and_then(|since| self.world.borrow().overdue(since, lost_after));
            if overdue.is_some_and(|overdue| overdue <= self.world.borrow().now) {
                return Err(self.give_up());
            }
            let until = until.into_iter().chain(overdue).min();
            wait(&self.world, self.context.id.worker, until).await;
        }
    }

    fn tell(&self, context: ContextId, lane: Lane, what: EventKind) -> Ruling {
        self.world.borrow_mut().tell(context, lane, what)
    }

    /// Tells what was done to the server since the last look: before anything that may be its consequence.
    fn heed(&mut self) {
        loop {
            let next = self.world.borrow().disturbance(self.heeded);
            let Some(disturbance) = next else { return };
            self.tell_all(Lane::FIRST, &EventKind::Disturbed(disturbance));
            self.heeded += 1;
        }
    }

    /// The context of a request, if the conversation has its ID; else the conversation's own.
    fn context_of(&self, request: RequestId) -> ContextId {
        let RequestId { worker, context, .. } = request;
        let own = self.context.id;
        if worker == own.worker && self.others.contains(&context) { ContextId { worker, context } } else { own }
    }

    /// Tells what happened to a stream on all contexts that may have steps on it.
    fn tell_all(&self, lane: Lane, what: &EventKind) {
        self.tell(self.context.id, lane, what.clone());
        self.tell_others(lane, what);
    }

    fn tell_others(&self, lane: Lane, what: &EventKind) {
        for context in &self.others {
            self.tell(ContextId { context: *context, ..self.context.id }, lane, what.clone());
        }
    }

    fn open_on(&self, lane: Lane) -> Option<Open> {
        self.lanes.get(lane.index()).copied().flatten()
    }

    fn open_lanes(&self) -> Vec<Lane> {
        (0..).zip(&self.lanes).filter(|(_, open)| open.is_some()).map(|(lane, _)| Lane(lane)).collect()
    }

    fn next_message(&self) -> Option<(Lane, Message)> {
        let mut world = self.world.borrow_mut();
        let mut open = (0..).zip(&self.lanes).filter_map(|(lane, open)| Some((Lane(lane), open.as_ref()?.stream)));
        open.find_map(|(lane, stream)| Some((lane, world.take(stream)?)))
    }

    fn open(&mut self, lane: Lane, over: Connection, by: Transport) {
        self.tell_all(lane, &EventKind::Opened(over, by));
        let stream = self.world.borrow_mut().open(self.context.id, (over, by), self.context.deadline(lane));
        if self.lanes.len() <= lane.index() {
            self.lanes.resize(lane.index() + 1, None);
        }
        self.lanes[lane.index()] = Some(Open { stream, is_half_closed: false });
    }

    fn send(&mut self, lane: Lane, step: &Step) {
        if self.open_on(lane).is_none() {
            self.open(lane, self.context.reopens_over(lane), self.context.transport);
        }
        let its = self.context_of(step.request);
        if let Some(due) = self.context.due() {
            self.tell(its, lane, EventKind::Due(due));
        }
        self.tell(its, lane, EventKind::Sent(*step));
        let now = self.world.borrow().now;
        self.context.on_sent(lane, step, now);
        if let Some(Open { stream, .. }) = self.open_on(lane) {
            self.world.borrow_mut().send(stream, *step);
        }
    }

    fn half_close(&mut self, lane: Lane) {
        if let Some(open) = self.lanes.get_mut(lane.index()).and_then(Option::as_mut)
            && !mem::replace(&mut open.is_half_closed, true)
        {
            let stream = open.stream;
            self.tell_all(lane, &EventKind::HalfClosed);
            self.world.borrow_mut().half_close(stream);
        }
    }

    /// Drops a stream, which cancels it where it has not ended; whether there was one.
    fn drop_lane(&mut self, lane: Lane) -> bool {
        let open = self.lanes.get_mut(lane.index()).and_then(Option::take);
        if let Some(Open { stream, .. }) = open {
            self.world.borrow_mut().leave(stream);
        }
        open.is_some()
    }

    /// Ends a stream as the conversation has it, whatever is under way.
    fn end(&mut self, lane: Lane, cut: Cut) {
        if self.drop_lane(lane) {
            self.tell_all(lane, &EventKind::Cut(cut));
        }
        self.context.forget(lane);
    }

    /// Does nothing for a while, not even read.
    async fn stop_reading(&mut self, us: u64) {
        for lane in self.open_lanes() {
            self.tell_all(lane, &EventKind::StoppedReading(us));
        }
        let until = self.world.borrow().now.saturating_add(us.saturating_mul(1000));
        while self.world.borrow().now < until {
            wait(&self.world, self.context.id.worker, Some(until)).await;
        }
        self.context.read_on(until);
    }

    /// An answer has not come for too long.
    fn give_up(&mut self) -> CutShort {
        let lane = self.context.slowest();
        if self.is_taken(lane) {
            self.end(lane, Cut::ByNetwork);
        } else {
            let its = self.context.oldest(lane).map_or(self.context.id, |request| self.context_of(request));
            self.tell(its, lane, EventKind::GaveUp);
        }
        self.cut()
    }

    /// Whether a stream that has been waited for has no connection any more, because the network took it.
    fn is_taken(&self, lane: Lane) -> bool {
        self.open_on(lane).is_some_and(|open| self.world.borrow_mut().give_up(open.stream))
    }

    /// Ends all streams, because one of them cannot be trusted any more.
    fn cut(&mut self) -> CutShort {
        for lane in self.open_lanes() {
            self.end(lane, Cut::ByClient);
        }
        self.context.abandon();
        CutShort
    }

    async fn take_in(&mut self, lane: Lane, message: Message) -> Result<Suspicious, CutShort> {
        self.heed();
        match message {
            Message::Received(received) => self.received(lane, received),
            // The conversation goes on: it has it so.
            Message::DeadlinePassed => {
                self.end(lane, Cut::Deadline);
                Ok(false)
            }
            Message::End => {
                self.drop_lane(lane);
                if self.context.unanswered(lane) == 0 {
                    self.tell_all(lane, &EventKind::Closed);
                    return Ok(false);
                }
                Err(self.ended(lane, Cut::Ended))
            }
            Message::Status(code, text) => {
                self.drop_lane(lane);
                // A status names no request: on a stream that several IDs share nobody knows whose it is.
                Err(self.ended(lane, if self.others.is_empty() { Cut::Status(code, text) } else { Cut::ByClient }))
            }
            Message::Taken => {
                self.end(lane, Cut::ByNetwork);
                Err(self.cut())
            }
            Message::Broken => {
                self.drop_lane(lane);
                // A server that is being restarted is not gone.
                while self.world.borrow().is_disturbed() {
                    wait(&self.world, self.context.id.worker, None).await;
                }
                self.heed();
                Err(self.ended(lane, Cut::Broken(GONE.to_owned())))
            }
        }
    }

    /// A stream is gone; the others of the conversation end with it. For the other contexts it is none of the server's doing, so that it is
    /// one fault.
    fn ended(&mut self, lane: Lane, cut: Cut) -> CutShort {
        self.tell(self.context.id, lane, EventKind::Cut(cut));
        self.tell_others(lane, &EventKind::Cut(Cut::ByClient));
        self.context.forget(lane);
        self.cut()
    }

    fn received(&mut self, lane: Lane, received: Box<Received>) -> Result<Suspicious, CutShort> {
        let its = received.request().map_or(self.context.id, |request| self.context_of(request));
        let ruling = self.tell(its, lane, EventKind::Received(received));
        if let Some(settled) = &ruling.settled {
            self.context.on_outcome(lane, settled.step.request);
        }
        // What is not to be trusted any more takes the other streams with it.
        if ruling.distrust { Err(self.cut()) } else { Ok(!ruling.violations.is_empty()) }
    }

    /// Closes all streams in good order.
    async fn close_all(&mut self) {
        for lane in self.open_lanes() {
            // What else comes is told; there is nothing more to send.
            let _ = self.close(lane).await;
        }
    }

    /// Closes a stream, if it is open, and takes in what still comes: on a correct server nothing but the end.
    async fn close(&mut self, lane: Lane) -> Result<Suspicious, CutShort> {
        let Some(open) = self.open_on(lane) else { return Ok(false) };
        if !open.is_half_closed {
            self.lanes[lane.index()] = Some(Open { is_half_closed: true, ..open });
            self.world.borrow_mut().half_close(open.stream);
        }
        let limits = self.world.borrow().plan.preflight.limits;
        // A stream that owes no answer waits for nothing but its end.
        let limit = if self.context.unanswered(lane) == 0 { limits.silence } else { self.world.borrow().lost_after() };
        let asked_at = self.world.borrow().now;
        let mut suspicious = false;
        while self.open_on(lane).is_some() {
            let message = self.world.borrow_mut().take(open.stream);
            let overdue = self.world.borrow().overdue(asked_at, nanos(limit));
            if let Some(message) = message {
                suspicious |= self.take_in(lane, message).await?;
            } else if overdue.is_some_and(|overdue| overdue <= self.world.borrow().now) {
                if self.is_taken(lane) {
                    self.end(lane, Cut::ByNetwork);
                    return Ok(false);
                }
                // One stream is one violation.
                self.tell(self.context.id, lane, EventKind::NotClosed);
                self.tell_others(lane, &EventKind::Closed);
                self.drop_lane(lane);
                return Ok(true);
            } else {
                wait(&self.world, self.context.id.worker, overdue).await;
            }
        }
        Ok(suspicious)
    }
}
