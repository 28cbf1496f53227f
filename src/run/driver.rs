//! A context and its streams: carries out what the context's conversation says, and takes in what comes.

mod streams;

use std::{collections::BTreeSet, future::pending, pin::Pin, time::Duration};

use tokio::time::{Instant, Sleep};

use self::streams::{Streams, Way, next_message};
use super::{
    context::{Next, StreamContext},
    shared::Out,
};
use crate::addressing::addressed;
use wire::transport::{Dialer, Link, Message, Outgoing, RequestTemplate, Stream};
use workload::{
    conversation::{Connection, Lane, Transport},
    endpoint::Endpoint,
    event::{ContextId, Cut, EventKind, Nanos, Received},
    sequence::{RequestId, Step},
};

/// How long a deadline that has passed waits on for what the process itself may have been too slow to read.
const GRACE: Duration = Duration::from_millis(200);

pub(super) struct Driver {
    pub(super) context: StreamContext,
    dialer: Dialer,
    /// The connection that the context sends over where nothing else is asked for.
    pub(super) link: Link,
    template: RequestTemplate,
    streams: Streams,
    /// The worker's other contexts whose IDs the conversation uses: what happens to a stream happens to theirs, too.
    pub(super) others: BTreeSet<u32>,
    /// How much of what was done to the server was heeded, and how much of that was told.
    pub(super) heeded: u64,
    told: u64,
}

/// A conversation ended early: a stream is gone that should not be, and with it what was in flight.
pub(super) struct CutShort;

/// Whether not all was answered rightly, so that the streams are suspicious.
type Suspicious = bool;

impl Driver {
    pub(super) fn new(context: StreamContext, dialer: Dialer, link: Link, template: RequestTemplate) -> Self {
        let (streams, others) = (Streams::default(), BTreeSet::new());
        Self { context, dialer, link, template, streams, others, heeded: 0, told: 0 }
    }

    /// Holds the context's conversation to its end.
    pub(super) async fn converse(&mut self, out: &Out) -> Result<Suspicious, CutShort> {
        let limit = out.shared.lost_after();
        let held_up = &out.shared.threads[out.thread].held_up;
        let mut timer = std::pin::pin!(tokio::time::sleep(limit));
        // How long the thread had been held up when the timer was set.
        let mut held_up_before = held_up.so_far();
        let mut suspicious = false;
        let mut began = false;
        loop {
            // What is waited for besides messages: room on a lane for the next step, or a time.
            let (room_on, until) = loop {
                self.heed(out);
                // When the run is stopping no pause lasts any longer.
                let now = out.shared.clock.now();
                match self.context.next(if out.shared.gate.is_stopping() { Nanos::MAX } else { now }) {
                    Next::Done => return Ok(suspicious),
                    Next::Wait(until) => break (None, until),
                    Next::Send(_, step)
                        if step.start && began && self.context.is_at_rest() && out.shared.gate.is_stopping() =>
                    {
                        self.context.abandon();
                        return Err(CutShort);
                    }
                    // It ends before another one takes its place.
                    Next::Send(lane, _) if self.streams.is_open(lane) && self.streams.is_half_closed(lane) => {
                        suspicious |= self.close(lane, out).await?;
                    }
                    Next::Send(lane, step) => {
                        if !self.send(lane, step, now, out) {
                            self.context.waits_for_server();
                            break (Some(lane), None);
                        }
                        began = true;
                    }
                    Next::Open(lane, over, by) => {
                        // What an earlier conversation left open there is not what this one asks for.
                        suspicious |= self.close(lane, out).await?;
                        if let Err(reason) = self.open(lane, over, by, out) {
                            return Err(self.broken(lane, Cut::Broken(reason), out).await);
                        }
                    }
                    Next::Close(lane) => suspicious |= self.close(lane, out).await?,
                    Next::HalfClose(lane) => self.half_close(lane, out),
                    Next::End(lane, cut) => self.end(lane, cut, out),
                    Next::StopReading(us) => self.stop_reading(us, out).await,
                }
            };
            tokio::select! {
                biased;
                (lane, message) = next_message(&mut self.streams.incoming) => {
                    suspicious |= self.take_in(lane, message, out).await?;
                }
                () = room(&self.streams.outgoing, room_on) => {}
                () = pause(until, out) => {}
                () = &mut timer => {
                    let held_up_since = held_up.so_far().saturating_sub(held_up_before);
                    held_up_before = held_up.so_far();
                    if self.is_overdue(out.shared.lost_after(), timer.as_mut(), held_up_since, out) {
                        if self.survived("no response", out).await? {
                            timer.as_mut().reset(Instant::now() + limit);
                            continue;
                        }
                        return Err(self.give_up(out));
                    }
                }
            }
        }
    }

    /// The context of a request, if the conversation has its ID; else the conversation's own.
    fn context_of(&self, request: RequestId) -> ContextId {
        let RequestId { worker, context, .. } = request;
        let own = self.context.id;
        if worker == own.worker && self.others.contains(&context) { ContextId { worker, context } } else { own }
    }

    /// Tells what happened to a stream on all contexts that may have steps on it.
    fn tell_all(&self, lane: Lane, what: &EventKind, out: &Out) {
        out.tell(self.context.id, lane, what.clone());
        self.tell_others(lane, what, out);
    }

    fn tell_others(&self, lane: Lane, what: &EventKind, out: &Out) {
        for context in &self.others {
            let its = ContextId { context: *context, ..self.context.id };
            out.tell(its, lane, what.clone());
        }
    }

    /// Tells that a stream is gone. If that is the server's fault, it is one fault: for the other contexts the client gave the stream up.
    fn tell_cut(&self, lane: Lane, cut: Cut, out: &Out) {
        let theirs = match cut {
            Cut::Ended | Cut::Status(..) | Cut::Broken(_) => Cut::ByClient,
            _ => cut.clone(),
        };
        out.tell(self.context.id, lane, EventKind::Cut(cut));
        self.tell_others(lane, &EventKind::Cut(theirs), out);
    }

    /// Closes all streams in good order.
    pub(super) async fn close_all(&mut self, out: &Out) {
        for lane in self.streams.open_lanes() {
            // What else comes is told; there is nothing more to send.
            let _ = self.close(lane, out).await;
        }
    }

    fn open(&mut self, lane: Lane, over: Connection, by: Transport, out: &Out) -> Result<(), String> {
        let (link, severer) = match over {
            Connection::Own => (self.link.clone(), None),
            Connection::Neighbour => {
                (out.shared.neighbour(self.context.id.worker, &self.dialer).unwrap_or(&self.link).clone(), None)
            }
            Connection::Fresh | Connection::Narrow | Connection::Process => {
                let (link, severer) = self.dialer.made_for_a_stream(over, by).map_err(|error| error.to_string())?;
                (link, Some(severer))
            }
        };
        self.tell_all(lane, &EventKind::Opened(over, by), out);
        let target = &out.shared.setup.scenario.target;
        let server = self.dialer.endpoint(by).and_then(|endpoint| target.server_at(endpoint));
        if server.is_some() {
            self.tell_all(lane, &EventKind::ServedBy(server), out);
        }
        let way = Way::new(link.taken(by), severer, by);
        let Stream { outgoing, incoming } =
            Stream::open_within(&link, by, self.template.clone(), self.context.deadline(lane))
                .map_err(|error| error.to_string())?;
        self.streams.put(lane, outgoing, incoming, way);
        Ok(())
    }

    /// Sends a step, if there is room for it.
    fn send(&mut self, lane: Lane, step: Step, mut now: Nanos, out: &Out) -> bool {
        if !self.streams.is_open(lane) {
            // A stream that nobody opened is the context's own, which cannot fail.
            let _ = self.open(lane, self.context.reopens_over(lane), self.context.transport, out);
            now = out.shared.clock.now();
        }
        let Some(room) = self.streams.outgoing[lane.index()].as_ref().and_then(Outgoing::room_now) else {
            return false;
        };
        // Told before it is handed over: the server cannot see the step before this time.
        let its = self.context_of(step.request);
        if let Some(due) = self.context.due() {
            out.tell_at(now, its, lane, EventKind::Due(due));
        }
        out.tell_at(now, its, lane, EventKind::Sent(step));
        self.context.on_sent(lane, &step, now);
        room.send(step);
        true
    }

    fn half_close(&mut self, lane: Lane, out: &Out) {
        if self.streams.outgoing.get_mut(lane.index()).and_then(Option::take).is_some() {
            self.tell_all(lane, &EventKind::HalfClosed, out);
        }
    }

    /// Ends a stream as the conversation has it, whatever is under way.
    fn end(&mut self, lane: Lane, cut: Cut, out: &Out) {
        if let (Cut::Reset | Cut::Killed, Some(severer)) = (&cut, self.streams.severer(lane)) {
            severer.sever();
        }
        if self.streams.drop_lane(lane) {
            self.tell_cut(lane, cut, out);
        }
        self.context.forget(lane);
    }

    /// Does nothing for a while, not even read.
    async fn stop_reading(&mut self, us: u64, out: &Out) {
        for lane in self.streams.open_lanes() {
            self.tell_all(lane, &EventKind::StoppedReading(us), out);
        }
        let _ = tokio::time::timeout(Duration::from_micros(us), out.shared.gate.stopped()).await;
        self.context.read_on(out.shared.clock.now());
    }

    /// An answer has not come for too long.
    fn give_up(&mut self, out: &Out) -> CutShort {
        let lane = self.context.slowest();
        self.streams.waited_long(lane);
        if let Some(cut) = self.streams.taken_on_purpose(lane) {
            self.end(lane, cut, out);
        } else {
            let request = self.context.oldest(lane);
            // Some of what it is answered with may have come.
            let part = request.and_then(|request| self.streams.incoming[lane.index()].as_mut()?.unfinished(request));
            let what = part.map_or(EventKind::GaveUp, |received| EventKind::Received(Box::new(received)));
            let its = request.map_or(self.context.id, |request| self.context_of(request));
            out.tell(its, lane, what);
        }
        self.cut(out)
    }

    /// Ends all streams, because one of them cannot be trusted any more.
    fn cut(&mut self, out: &Out) -> CutShort {
        for lane in self.streams.open_lanes() {
            self.end(lane, Cut::ByClient, out);
        }
        self.context.abandon();
        CutShort
    }

    /// Tells what was done to the server since the last look: before anything that may be its consequence.
    pub(super) fn heed(&mut self, out: &Out) {
        let count = out.shared.disturbances.count();
        while self.heeded < count {
            let begins = self.heeded.is_multiple_of(2);
            if begins && self.has_own_server(out) {
                let is_over = self.heeded + 1 < count;
                match out.shared.absences.were_away(self.heeded / 2) {
                    // Which servers are away is known when all are back; who sees something odd before waits for that.
                    _ if !is_over => return,
                    Some(away) if !self.is_of(&away) => {
                        self.heeded += 2;
                        continue;
                    }
                    _ => {}
                }
            }
            let disturbance = out.shared.disturbances.next(self.heeded);
            self.tell_all(Lane::FIRST, &EventKind::Disturbed(disturbance), out);
            self.told += 1;
            self.heeded += 1;
        }
    }

    /// Whether the endpoint is one of several servers, so that it does not matter to the context when another one is away.
    fn has_own_server(&self, out: &Out) -> bool {
        let servers = out.shared.setup.scenario.target.servers();
        self.is_of(servers)
    }

    /// Whether all that the context sends goes to servers that are in a list.
    fn is_of(&self, servers: &[Endpoint]) -> bool {
        [&self.dialer.grpc, &self.dialer.http].into_iter().flatten().all(|endpoint| servers.contains(endpoint))
    }

    /// Whether the server was away of late, and has come back: then what looks wrong may be a consequence of that. Where the run does not
    /// reconnect nobody asks. Without the server the conversation is over.
    async fn survived(&mut self, reason: &str, out: &Out) -> Result<bool, CutShort> {
        if out.shared.reconnects().is_none() {
            return Ok(false);
        }
        let before = self.heeded;
        if !out.shared.server_survives(reason).await {
            for lane in self.streams.open_lanes() {
                self.end(lane, Cut::Interrupted, out);
            }
            self.context.abandon();
            return Err(CutShort);
        }
        self.heed(out);
        Ok(self.heeded != before)
    }

    async fn take_in(&mut self, lane: Lane, message: Message, out: &Out) -> Result<Suspicious, CutShort> {
        let message = match message {
            Message::Received(received) if received.id.is_empty() => {
                let server = out.shared.preflight.model.server.as_deref();
                let message = addressed(server, received, &self.context.under_way(lane));
                if matches!(message, Message::Lapsed(_)) {
                    out.shared.threads[out.thread].missed_its_request();
                }
                message
            }
            message => message,
        };
        let (came, told) = (out.shared.clock.now(), self.told);
        if let Message::Received(received) = &message
            && let Received { result: Err(text), .. } = received
            && received.request().is_some_and(|request| self.context.is_to_be_answered(lane, request))
        {
            self.survived(text, out).await?;
        }
        self.heed(out);
        if matches!(message, Message::Received(_) | Message::End) {
            self.streams.heard_of(lane);
        }
        let cut = match message {
            Message::ServedBy(server) => {
                self.tell_all(lane, &EventKind::ServedBy(server), out);
                return Ok(false);
            }
            Message::Received(received) => {
                // Whose server was there all the time, waited for another one in vain.
                let at = if told == self.told && self.has_own_server(out) { came } else { out.shared.clock.now() };
                let its = received.request().map_or(self.context.id, |request| self.context_of(request));
                let record = out.tell_at(at, its, lane, EventKind::Received(Box::new(received)));
                if let Some(settled) = &record.settled {
                    self.context.on_outcome(lane, settled.step.request);
                }
                // What is not to be trusted any more takes the other streams with it.
                return if record.distrust { Err(self.cut(out)) } else { Ok(!record.violations.is_empty()) };
            }
            Message::End if self.streams.is_half_closed(lane) && self.context.unanswered(lane) == 0 => {
                self.streams.drop_lane(lane);
                self.tell_all(lane, &EventKind::Closed, out);
                return Ok(false);
            }
            Message::End => Cut::Ended,
            // The server may have taken it in or not, and is not to blame.
            Message::Lapsed(_) => {
                self.end(lane, Cut::Lapsed, out);
                return Err(self.cut(out));
            }
            // The conversation goes on: it has it so.
            Message::DeadlinePassed => {
                self.end(lane, Cut::Deadline, out);
                return Ok(false);
            }
            // Who says so is there. Nothing else is known of the other requests.
            Message::Status(code, text) => {
                // A status names no request: on a stream that several IDs share nobody knows whose it is.
                let cut = if self.others.is_empty() { Cut::Status(code, text) } else { Cut::ByClient };
                self.tell_cut(lane, cut, out);
                self.streams.drop_lane(lane);
                self.context.forget(lane);
                return Err(self.cut(out));
            }
            Message::Broken(reason) => Cut::Broken(reason),
        };
        Err(self.broken(lane, cut, out).await)
    }

    /// A stream broke; the others of the conversation end with it.
    async fn broken(&mut self, lane: Lane, cut: Cut, out: &Out) -> CutShort {
        let on_purpose = self.streams.taken_on_purpose(lane);
        self.streams.drop_lane(lane);
        // A server that is being restarted is not gone.
        out.shared.disturbances.over().await;
        let cut = match on_purpose {
            Some(cut) => cut,
            None if out.shared.server_survives(cut.reason()).await => cut,
            None => Cut::Interrupted,
        };
        self.heed(out);
        self.tell_cut(lane, cut, out);
        self.context.forget(lane);
        self.cut(out)
    }

    /// Closes a stream, if it is open, and takes in what still comes: on a correct server nothing but the end.
    async fn close(&mut self, lane: Lane, out: &Out) -> Result<Suspicious, CutShort> {
        self.streams.outgoing.get_mut(lane.index()).and_then(Option::take);
        let Some(mut incoming) = self.streams.incoming.get_mut(lane.index()).and_then(Option::take) else {
            return Ok(false);
        };
        let limits = &out.shared.preflight.limits;
        // A stream that owes no answer waits for nothing but its end.
        let limit = if self.context.unanswered(lane) == 0 { limits.silence } else { out.shared.lost_after() };
        let asked_at = out.shared.clock.now();
        let mut deadline = Instant::now() + limit;
        let mut held_up_before = out.shared.threads[out.thread].held_up.so_far();
        let mut suspicious = false;
        loop {
            match tokio::time::timeout_at(deadline, incoming.told()).await {
                Err(_) => {
                    let more = out.shared.time_left(asked_at, limit);
                    if !more.is_zero() {
                        deadline = Instant::now() + more;
                        continue;
                    }
                    let held_up = out.shared.threads[out.thread].held_up.so_far();
                    let more = held_up.saturating_sub(held_up_before).max(deadline.elapsed());
                    if more > GRACE / 2 {
                        (deadline, held_up_before) = (Instant::now() + more.max(GRACE), held_up);
                        continue;
                    }
                    if self.survived("a stream did not end", out).await? {
                        deadline = Instant::now() + limit;
                        continue;
                    }
                    suspicious = self.not_closed(lane, out);
                }
                Ok(Message::End) if self.context.unanswered(lane) == 0 => {
                    self.tell_all(lane, &EventKind::Closed, out);
                }
                Ok(Message::DeadlinePassed) => {
                    self.tell_cut(lane, Cut::Deadline, out);
                    self.context.forget(lane);
                }
                Ok(message) => {
                    suspicious |= self.take_in(lane, message, out).await?;
                    continue;
                }
            }
            self.streams.drop_lane(lane);
            return Ok(suspicious);
        }
    }

    fn not_closed(&mut self, lane: Lane, out: &Out) -> Suspicious {
        self.streams.waited_long(lane);
        if let Some(cut) = self.streams.taken_on_purpose(lane) {
            self.tell_cut(lane, cut, out);
            self.context.forget(lane);
            false
        } else {
            // One stream is one violation.
            out.tell(self.context.id, lane, EventKind::NotClosed);
            self.tell_others(lane, &EventKind::Closed, out);
            true
        }
    }

    /// Whether the oldest request has waited too long; else the timer is set to when it will have. What the thread was held up
    /// for since the timer was set, the request may wait longer, and so it may for a server that was disturbed.
    fn is_overdue(&self, limit: Duration, timer: Pin<&mut Sleep>, held_up: Duration, out: &Out) -> bool {
        let Some(since) = self.context.waits_since() else {
            timer.reset(Instant::now() + limit);
            return false;
        };
        let left = out.shared.time_left(since, limit + GRACE);
        let more = held_up.max(timer.deadline().elapsed());
        if left.is_zero() && more <= GRACE / 2 {
            return true;
        }
        timer.reset(Instant::now() + if left.is_zero() { more.max(GRACE) } else { left });
        false
    }
}

async fn room(outgoing: &[Option<Outgoing>], lane: Option<Lane>) {
    match lane.and_then(|lane| outgoing[lane.index()].as_ref()) {
        Some(outgoing) => outgoing.room().await,
        None => pending().await,
    }
}

async fn pause(until: Option<Nanos>, out: &Out) {
    let Some(until) = until else { return pending().await };
    // That it was woken early is seen by the next look at the pause.
    out.reaches(until).await;
}
