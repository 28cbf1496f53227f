//! The streams of a simulated run: what travels on them, and when it arrives.
//!
//! Each stream keeps its order in both directions, with delays of its own. A cancellation travels by itself: the server drops unread
//! what the cancellation overtakes.

use std::{
    collections::VecDeque,
    mem,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use rand::RngExt as _;

use super::{super::nanos, What, World, network::To};
use reference::simulated::Answer;
use workload::{
    conversation::{Connection, Transport},
    event::{Code, ContextId, Nanos, Received},
    sequence::{RequestId, Step},
};

/// How long the fastest message of a stream is under way, in ns: as on one machine. Another message takes up to twice as long.
const UNDER_WAY: Range<Nanos> = 20_000..200_000;

/// What a stream brings its client.
#[derive(Debug)]
pub(in super::super) enum Message {
    Received(Box<Received>),
    End,
    /// The end, with the code and the text of a request's error.
    Status(Code, String),
    /// The end, because the server is gone.
    Broken,
    /// The end, because the faulty network took the connection.
    Taken,
    DeadlinePassed,
}

/// What was the end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    None,
    /// The server ended it, in good order or not.
    ByServer,
    /// The network took its connection.
    ByNetwork,
}

/// What a client sends on a stream.
#[derive(Debug)]
enum Up {
    /// A step, and the place of its correlation ID among all.
    Request(Step, usize),
    HalfClose,
}

/// A stream, or calls that are made one after the other.
#[derive(Debug)]
pub(super) struct Stream {
    context: ContextId,
    over: Connection,
    by: Transport,
    /// What carries it, where its network is faulty.
    pub(super) connection: Option<usize>,
    deadline: Option<Duration>,
    /// When the stream's deadline passes, or that of the call that is under way.
    deadline_at: Option<Nanos>,
    /// How long its fastest message is under way.
    fastest: Nanos,
    up: VecDeque<Up>,
    down: VecDeque<Message>,
    inbox: VecDeque<Message>,
    last_up: Nanos,
    last_down: Nanos,
    /// What the server has read and not answered, by name.
    order: VecDeque<usize>,
    /// The places of the correlation IDs that the server has read on it.
    ids: Vec<usize>,
    cancelled: Arc<AtomicBool>,
    /// Whether a call is under way.
    is_calling: bool,
    /// Whether the server knows that nothing more comes.
    is_half_closed: bool,
    end: End,
    is_dropped: bool,
    /// Events to come that name it.
    to_come: u32,
}

/// A request that the server has read.
#[derive(Debug)]
pub(super) struct Request {
    stream: usize,
    step: Step,
    /// Whether the model took it in.
    is_accepted: bool,
    answer: Option<Answer>,
}

impl Stream {
    /// Whether the server still reads it, and answers.
    fn is_served(&self) -> bool {
        self.end == End::None && !self.cancelled.load(Relaxed)
    }
}

impl World<'_> {
    fn schedule_on(&mut self, stream: usize, at: Nanos, what: fn(usize) -> What) {
        self.streams[stream].to_come += 1;
        self.schedule(at, what(stream));
    }

    /// Something happened on a stream. One on which nothing more can happen is forgotten.
    pub(super) fn happened(&mut self, stream: usize) {
        self.streams[stream].to_come -= 1;
        self.forget_if_over(stream);
    }

    fn forget_if_over(&mut self, stream: usize) {
        let its = &self.streams[stream];
        if its.is_dropped
            && its.to_come == 0
            && its.order.is_empty()
            && let Some(connection) = self.streams.remove(stream).connection
        {
            self.carries_no_more(connection, stream);
        }
    }

    /// Opens a stream.
    pub(in super::super) fn open(
        &mut self,
        context: ContextId,
        (over, by): (Connection, Transport),
        deadline: Option<Duration>,
    ) -> usize {
        let connection = if by.is_stream() { self.connection(context, over) } else { None };
        let stream = Stream {
            context,
            over,
            by,
            connection,
            deadline,
            deadline_at: None,
            fastest: self.random.random_range(UNDER_WAY),
            up: VecDeque::new(),
            down: VecDeque::new(),
            inbox: VecDeque::new(),
            last_up: 0,
            last_down: 0,
            order: VecDeque::new(),
            ids: Vec::new(),
            cancelled: Arc::default(),
            is_calling: false,
            is_half_closed: false,
            end: End::None,
            is_dropped: false,
            to_come: 0,
        };
        let place = self.streams.insert(stream);
        if let Some(connection) = connection {
            self.carries(connection, place);
        }
        if by.is_stream() {
            self.start_deadline(place);
        }
        place
    }

    fn start_deadline(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        if let Some(deadline) = its.deadline {
            let at = self.now + nanos(deadline);
            its.deadline_at = Some(at);
            self.schedule_on(stream, at, What::Deadline);
        }
    }

    pub(in super::super) fn send(&mut self, stream: usize, step: Step) {
        self.requests_sent += 1;
        let RequestId { worker, context, .. } = step.request;
        let id = self.place(ContextId { worker, context });
        if !self.streams[stream].by.is_stream() {
            self.connect_call(stream);
            self.streams[stream].is_calling = true;
            self.start_deadline(stream);
        }
        self.sends(stream, Up::Request(step, id));
    }

    /// Whether a request that a worker has sent has no response, and its stream is there.
    pub(in super::super) fn owes_answers(&self) -> bool {
        let waits = |stream: &Stream| {
            let has_sent = stream.up.iter().any(|up| matches!(up, Up::Request(..)));
            has_sent || !stream.order.is_empty() || !stream.down.is_empty()
        };
        self.streams.iter().any(|(_, stream)| !stream.is_dropped && waits(stream))
    }

    /// A call goes over the connection of the one before, unless the network has taken that.
    fn connect_call(&mut self, stream: usize) {
        let Stream { context, over, connection, .. } = self.streams[stream];
        if connection.is_none()
            && let Some(connection) = self.connection(context, over)
        {
            self.streams[stream].connection = Some(connection);
            self.carries(connection, stream);
        }
    }

    /// Sends a step of the count of the slots, with the ID of this number.
    pub(in super::super) fn send_for_count(&mut self, stream: usize, step: Step, number: usize) {
        let workers = (self.plan.scenario.workers() * self.contexts_per_worker) as usize;
        self.sends(stream, Up::Request(step, workers + number));
    }

    /// Says that nothing more follows on a stream.
    pub(in super::super) fn half_close(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        if its.by.is_stream() {
            return self.sends(stream, Up::HalfClose);
        }
        its.is_half_closed = true;
        self.end_calls(stream);
    }

    /// Of calls nothing comes behind the answer to the last.
    fn end_calls(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        let is_done = its.up.is_empty() && its.order.is_empty() && its.down.is_empty();
        if !its.by.is_stream() && its.is_half_closed && is_done && its.end == End::None {
            its.end = End::ByServer;
            its.inbox.push_back(Message::End);
            let worker = its.context.worker;
            self.wake(worker, self.now);
        }
    }

    /// How long a message takes over a network that is clear.
    fn travels(&mut self, stream: usize) -> Nanos {
        let fastest = self.streams[stream].fastest;
        fastest + self.random.random_range(0..fastest)
    }

    /// When a message arrives that is sent now on a stream, if no other is before it. None where the network loses it.
    fn arrival(&mut self, stream: usize, to: To) -> Option<Nanos> {
        let arrives = self.now + self.travels(stream);
        match self.streams[stream].connection {
            Some(connection) => self.passes(connection, to, arrives),
            None => Some(arrives),
        }
    }

    fn sends(&mut self, stream: usize, what: Up) {
        let Some(arrives) = self.arrival(stream, To::Server) else { return };
        let its = &mut self.streams[stream];
        its.up.push_back(what);
        its.last_up = its.last_up.max(arrives);
        let at = its.last_up;
        self.schedule_on(stream, at, What::Arrives);
    }

    /// The client has nothing more to do with a stream, which cancels it unless it has ended.
    pub(in super::super) fn leave(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        its.is_dropped = true;
        its.deadline_at = None;
        its.inbox.clear();
        if its.end == End::ByServer {
            self.forget_if_over(stream);
        } else {
            let at = self.now + self.travels(stream);
            self.schedule_on(stream, at, What::Cancelled);
        }
    }

    /// What a stream brought next, if anything did.
    pub(in super::super) fn take(&mut self, stream: usize) -> Option<Message> {
        self.streams[stream].inbox.pop_front()
    }

    pub(super) fn arrives(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        let Some(what) = its.up.pop_front() else { return };
        if !its.is_served() {
            return;
        }
        if self.disturbances.is_away {
            return self.break_off(stream);
        }
        match what {
            Up::HalfClose => {
                its.is_half_closed = true;
                self.end_if_done(stream);
            }
            Up::Request(step, id) => {
                let cancelled = Arc::clone(&its.cancelled);
                let request = Request { stream, step, is_accepted: false, answer: None };
                let name = self.requests.insert(request);
                let its = &mut self.streams[stream];
                its.order.push_back(name);
                if !its.ids.contains(&id) {
                    its.ids.push(id);
                }
                if let Some(answer) = self.submit(name, &step, id, cancelled) {
                    self.answered(name, answer);
                } else {
                    self.requests[name].is_accepted = true;
                }
                self.serve();
            }
        }
    }

    pub(super) fn answered(&mut self, name: usize, answer: Answer) {
        let request = &mut self.requests[name];
        let (stream, is_late) = (request.stream, request.is_accepted);
        if let Err(refused) = &answer
            && is_late
            && self.streams[stream].by.ends_with_errors()
        {
            let status = Message::Status(Code::Grpc(refused.code), refused.text.clone());
            self.close_with(stream, status);
        }
        self.requests[name].answer = Some(answer);
        while let Some(&first) = self.streams[stream].order.front() {
            let request = &mut self.requests[first];
            let Some(answer) = request.answer.take() else { break };
            let step = request.step;
            self.requests.remove(first);
            self.streams[stream].order.pop_front();
            if self.streams[stream].is_served() {
                let received = self.received(&step, answer, self.streams[stream].by);
                self.bring(stream, Message::Received(Box::new(received)));
            }
        }
        self.end_if_done(stream);
        self.forget_if_over(stream);
    }

    fn bring(&mut self, stream: usize, message: Message) {
        let Some(arrives) = self.arrival(stream, To::Client) else { return };
        let its = &mut self.streams[stream];
        its.down.push_back(message);
        its.last_down = its.last_down.max(arrives);
        let at = its.last_down;
        self.schedule_on(stream, at, What::Delivered);
    }

    /// The server ends a stream, whatever is under way.
    fn close_with(&mut self, stream: usize, last: Message) {
        let its = &mut self.streams[stream];
        if its.is_served() {
            its.end = End::ByServer;
            self.bring(stream, last);
        }
    }

    /// The server ends, and with it all that it has: every connection breaks.
    pub(super) fn end_server(&mut self) {
        self.disturbances.is_away = true;
        self.server.reload();
        self.forget_connections();
        let streams: Vec<_> = self.streams.iter().map(|(stream, _)| stream).collect();
        for stream in streams {
            self.break_off(stream);
        }
    }

    /// The network takes the connection of a stream: what is under way is lost. Between two calls nobody sees that.
    pub(super) fn taken(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        if !its.by.is_stream() && !its.is_calling {
            if let Some(connection) = its.connection.take() {
                self.carries_no_more(connection, stream);
            }
            return;
        }
        its.end = End::ByNetwork;
        its.down.clear();
        its.deadline_at = None;
        if !its.is_dropped {
            its.inbox.push_back(Message::Taken);
            let worker = its.context.worker;
            self.wake(worker, self.now);
            let at = self.now + self.travels(stream);
            self.schedule_on(stream, at, What::Cancelled);
        }
    }

    /// The server is gone. Between two calls nobody sees that.
    fn break_off(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        // A call whose answer is on its way is over for the server.
        let is_served = its.by.is_stream() || (its.is_calling && its.down.is_empty());
        for name in mem::take(&mut its.order) {
            self.requests.remove(name);
        }
        if is_served {
            self.close_with(stream, Message::Broken);
        }
        self.forget_if_over(stream);
    }

    /// Ends a half-closed stream on which nothing is unanswered.
    fn end_if_done(&mut self, stream: usize) {
        let its = &mut self.streams[stream];
        if its.is_half_closed && its.order.is_empty() && its.is_served() && its.by.is_stream() {
            its.end = End::ByServer;
            self.client_is_gone(stream);
            self.bring(stream, Message::End);
        }
    }

    /// What a stream's client began and did not end has none any more.
    fn client_is_gone(&mut self, stream: usize) {
        let version = self.version(self.streams[stream].context.worker);
        for id in mem::take(&mut self.streams[stream].ids) {
            self.server.disconnected(version, &self.ids[id].1);
        }
    }

    pub(super) fn cancelled(&mut self, stream: usize) {
        let its = &self.streams[stream];
        if its.end == End::ByServer || its.cancelled.swap(true, Relaxed) {
            return;
        }
        self.client_is_gone(stream);
        self.server.cancelled(Duration::from_nanos(self.now));
        self.serve();
    }

    /// What a stream brings comes to its client. Returns whose that is, if he waits for it.
    pub(super) fn delivered(&mut self, stream: usize) -> Option<u32> {
        let its = &mut self.streams[stream];
        let message = its.down.pop_front()?;
        if its.is_dropped {
            return None;
        }
        if !its.by.is_stream() {
            (its.deadline_at, its.is_calling) = (None, false);
        }
        its.inbox.push_back(message);
        let worker = its.context.worker;
        self.end_calls(stream);
        Some(worker)
    }

    pub(super) fn deadline(&mut self, stream: usize) -> Option<u32> {
        let its = &mut self.streams[stream];
        if its.is_dropped || its.deadline_at != Some(self.now) {
            return None;
        }
        its.deadline_at = None;
        its.inbox.push_back(Message::DeadlinePassed);
        Some(its.context.worker)
    }
}
