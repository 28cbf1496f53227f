//! A context and its streams: carries out what the context's conversation says, and takes in what comes.

use std::{
    future::{pending, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use tokio::time::{Instant, Sleep};
use tonic::transport::Channel;

use super::{
    context::{Next, StreamContext},
    out::Out,
};
use crate::{
    conversation::{Connection, Lane},
    event::{Cut, EventKind, Nanos},
    recorder::Record,
    transport::{Incoming, Message, Outgoing, RequestTemplate, Resetter, Stream, resettable_channel},
};

/// How long a deadline that has passed waits on for what the process itself may have been too slow to read.
const GRACE: Duration = Duration::from_millis(200);

/// A context and what it sends over.
pub(super) struct Line {
    pub(super) context: StreamContext,
    channel: Channel,
    template: RequestTemplate,
    streams: Streams,
}

/// The open streams, by lane.
#[derive(Default)]
struct Streams {
    /// None where the stream is half-closed, or not open.
    outgoing: Vec<Option<Outgoing>>,
    incoming: Vec<Option<Incoming>>,
    resetters: Vec<Option<Resetter>>,
}

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// As it was written; what came gives no reason to distrust the streams.
    Clean,
    /// As it was written, not all of it answered rightly.
    Suspicious,
    /// Early: a stream is gone that should not be, and with it what was in flight.
    Cut,
}

/// What a line waits for besides messages.
enum Wait {
    /// Room on a lane for the next step.
    Room(Lane),
    Until(Option<Nanos>),
}

/// What came of an act.
enum Done {
    Ok,
    Suspicious,
    Cut,
}

impl Line {
    pub(super) fn new(context: StreamContext, channel: Channel, template: RequestTemplate) -> Self {
        Self { context, channel, template, streams: Streams::default() }
    }

    /// The connection that the context sends over where nothing else is asked for.
    pub(super) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Holds the context's conversation to its end.
    pub(super) async fn converse(&mut self, out: &Out) -> End {
        let limit = out.shared.preflight.limits.lost_after;
        let mut timer = std::pin::pin!(tokio::time::sleep(limit));
        let mut suspicious = false;
        let mut began = false;
        loop {
            let wait = loop {
                match self.context.next(out.shared.now()) {
                    Next::Done => return if suspicious { End::Suspicious } else { End::Clean },
                    Next::Wait(until) => break Wait::Until(until),
                    Next::Send(_, step)
                        if step.start && began && self.context.is_at_rest() && out.shared.is_stopping() =>
                    {
                        self.context.abandon();
                        return End::Cut;
                    }
                    Next::Send(lane, step) => {
                        if !self.send(lane, step, out) {
                            break Wait::Room(lane);
                        }
                        began = true;
                    }
                    Next::Open(lane, over) => {
                        if let Err(reason) = self.open(lane, over, out) {
                            return self.broken(lane, reason, out).await;
                        }
                    }
                    Next::Close(lane) => match self.close(lane, out).await {
                        Done::Ok => {}
                        Done::Suspicious => suspicious = true,
                        Done::Cut => return self.cut(out),
                    },
                    Next::HalfClose(lane) => self.half_close(lane, out),
                    Next::Cancel(lane) => self.end(lane, Cut::Cancelled, out),
                    Next::Reset(lane) => self.end(lane, Cut::Reset, out),
                }
            };
            tokio::select! {
                biased;
                (lane, message) = next_message(&mut self.streams.incoming) => {
                    match self.take_in(lane, message, out).await {
                        Done::Ok => {}
                        Done::Suspicious => suspicious = true,
                        Done::Cut => return End::Cut,
                    }
                }
                () = room(&self.streams.outgoing, &wait) => {}
                () = pause(&wait, out) => {}
                () = &mut timer => {
                    if self.is_overdue(limit, timer.as_mut(), out) {
                        out.tell(self.context.id, self.context.slowest(), EventKind::GaveUp);
                        return self.cut(out);
                    }
                }
            }
        }
    }

    /// Closes all streams in good order.
    pub(super) async fn close_all(&mut self, out: &Out) {
        for lane in self.streams.open_lanes() {
            // What else comes is told; there is nothing more to send.
            self.close(lane, out).await;
        }
    }

    fn open(&mut self, lane: Lane, over: Connection, out: &Out) -> Result<(), String> {
        if self.streams.is_open(lane) {
            return Ok(());
        }
        let (channel, resetter) = match over {
            Connection::Own => (self.channel.clone(), None),
            Connection::Neighbour => {
                (out.shared.neighbour(self.context.id.worker).unwrap_or(&self.channel).clone(), None)
            }
            Connection::Fresh => {
                let scenario = &out.shared.scenario;
                let made = resettable_channel(&scenario.target.endpoint, scenario.limits.connect_ms.duration());
                let (channel, resetter) = made.map_err(|error| error.to_string())?;
                (channel, Some(resetter))
            }
        };
        out.tell(self.context.id, lane, EventKind::Opened(over));
        let Stream { outgoing, incoming } = Stream::open(&channel, self.template.clone());
        self.streams.put(lane, outgoing, incoming, resetter);
        Ok(())
    }

    /// Sends a step, if there is room for it.
    fn send(&mut self, lane: Lane, step: crate::sequence::Step, out: &Out) -> bool {
        if !self.streams.is_open(lane) {
            // A stream that nobody opened is the context's own, which cannot fail.
            let _ = self.open(lane, Connection::Own, out);
        }
        let Some(room) = self.streams.outgoing[lane.index()].as_ref().and_then(Outgoing::room_now) else {
            return false;
        };
        // Told before it is handed over: the server cannot see the step before this time.
        let now = out.shared.now();
        out.tell_at(now, self.context.id, lane, EventKind::Sent(step));
        self.context.on_sent(lane, &step, now);
        room.send(step);
        true
    }

    fn half_close(&mut self, lane: Lane, out: &Out) {
        if self.streams.outgoing.get_mut(lane.index()).and_then(Option::take).is_some() {
            out.tell(self.context.id, lane, EventKind::HalfClosed);
        }
    }

    /// Ends a stream as the conversation has it, whatever is under way.
    fn end(&mut self, lane: Lane, cut: Cut, out: &Out) {
        if let (Cut::Reset, Some(Some(resetter))) = (&cut, self.streams.resetters.get(lane.index())) {
            resetter.reset();
        }
        if self.streams.drop_lane(lane) {
            out.tell(self.context.id, lane, EventKind::Cut(cut));
        }
        self.context.forget(lane);
    }

    /// Ends all streams, because one of them cannot be trusted any more.
    fn cut(&mut self, out: &Out) -> End {
        for lane in self.streams.open_lanes() {
            self.end(lane, Cut::ByClient, out);
        }
        self.context.abandon();
        End::Cut
    }

    async fn take_in(&mut self, lane: Lane, message: Message, out: &Out) -> Done {
        let reason = match message {
            Message::Received(received) => {
                let record = out.tell(self.context.id, lane, EventKind::Received(received));
                if let Some(settled) = &record.settled {
                    self.context.on_outcome(lane, settled.step.request);
                }
                return self.weigh(&record, out);
            }
            Message::End if self.streams.is_half_closed(lane) && self.context.unanswered(lane) == 0 => {
                self.streams.drop_lane(lane);
                out.tell(self.context.id, lane, EventKind::Closed);
                return Done::Ok;
            }
            Message::End => "the server ended the stream".to_owned(),
            Message::Broken(reason) => reason,
        };
        self.broken(lane, reason, out).await;
        Done::Cut
    }

    fn weigh(&mut self, record: &Record, out: &Out) -> Done {
        if record.distrust {
            self.cut(out);
            Done::Cut
        } else if record.violations.is_empty() {
            Done::Ok
        } else {
            Done::Suspicious
        }
    }

    /// A stream broke; the others of the conversation end with it.
    async fn broken(&mut self, lane: Lane, reason: String, out: &Out) -> End {
        self.streams.drop_lane(lane);
        let cut = if out.shared.server_is_there(&reason).await { Cut::Broken(reason) } else { Cut::Interrupted };
        out.tell(self.context.id, lane, EventKind::Cut(cut));
        self.context.forget(lane);
        self.cut(out)
    }

    /// Closes a stream, if it is open, and takes in what still comes: on a correct server nothing but the end.
    async fn close(&mut self, lane: Lane, out: &Out) -> Done {
        self.streams.outgoing.get_mut(lane.index()).and_then(Option::take);
        let Some(mut incoming) = self.streams.incoming.get_mut(lane.index()).and_then(Option::take) else {
            return Done::Ok;
        };
        let mut deadline = Instant::now() + out.shared.preflight.limits.lost_after;
        let mut done = Done::Ok;
        loop {
            match tokio::time::timeout_at(deadline, incoming.next()).await {
                Err(_) if woke_late(deadline) => {
                    deadline = Instant::now() + GRACE;
                    continue;
                }
                Err(_) => {
                    out.tell(self.context.id, lane, EventKind::NotClosed);
                    done = Done::Suspicious;
                }
                Ok(Message::End) if self.context.unanswered(lane) == 0 => {
                    out.tell(self.context.id, lane, EventKind::Closed);
                }
                Ok(message) => match self.take_in(lane, message, out).await {
                    Done::Cut => return Done::Cut,
                    Done::Ok => continue,
                    Done::Suspicious => {
                        done = Done::Suspicious;
                        continue;
                    }
                },
            }
            self.streams.drop_lane(lane);
            return done;
        }
    }

    /// Whether the oldest request has waited too long; else the timer is set to when it will have.
    fn is_overdue(&self, limit: Duration, timer: Pin<&mut Sleep>, out: &Out) -> bool {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let now = out.shared.now();
        let Some(since) = self.context.waits_since() else {
            timer.reset(Instant::now() + limit);
            return false;
        };
        let deadline = since.saturating_add(nanos(limit)).saturating_add(nanos(GRACE));
        if now >= deadline && !woke_late(timer.deadline()) {
            return true;
        }
        timer.reset(Instant::now() + Duration::from_nanos(deadline.saturating_sub(now)));
        false
    }
}

impl Streams {
    fn put(&mut self, lane: Lane, outgoing: Outgoing, incoming: Incoming, resetter: Option<Resetter>) {
        let index = lane.index();
        if self.incoming.len() <= index {
            self.outgoing.resize_with(index + 1, || None);
            self.incoming.resize_with(index + 1, || None);
            self.resetters.resize_with(index + 1, || None);
        }
        (self.outgoing[index], self.incoming[index], self.resetters[index]) =
            (Some(outgoing), Some(incoming), resetter);
    }

    fn is_open(&self, lane: Lane) -> bool {
        self.incoming.get(lane.index()).is_some_and(Option::is_some)
    }

    fn is_half_closed(&self, lane: Lane) -> bool {
        self.outgoing.get(lane.index()).is_none_or(Option::is_none)
    }

    fn open_lanes(&self) -> Vec<Lane> {
        (0..).zip(&self.incoming).filter(|(_, stream)| stream.is_some()).map(|(lane, _)| Lane(lane)).collect()
    }

    /// Drops a stream, which cancels it where it has not ended; whether there was one.
    fn drop_lane(&mut self, lane: Lane) -> bool {
        let index = lane.index();
        if index >= self.incoming.len() {
            return false;
        }
        (self.outgoing[index], self.resetters[index]) = (None, None);
        self.incoming[index].take().is_some()
    }
}

/// The next message of any stream.
async fn next_message(incoming: &mut [Option<Incoming>]) -> (Lane, Message) {
    poll_fn(|context| {
        for (lane, stream) in (0..).zip(&mut *incoming) {
            if let Some(stream) = stream
                && let Poll::Ready(message) = stream.poll_next(context)
            {
                return Poll::Ready((Lane(lane), message));
            }
        }
        Poll::Pending
    })
    .await
}

async fn room(outgoing: &[Option<Outgoing>], wait: &Wait) {
    match wait {
        Wait::Room(lane) => match &outgoing[lane.index()] {
            Some(outgoing) => outgoing.room().await,
            None => pending().await,
        },
        Wait::Until(_) => pending().await,
    }
}

async fn pause(wait: &Wait, out: &Out) {
    match wait {
        Wait::Until(Some(until)) => {
            tokio::time::sleep(Duration::from_nanos(until.saturating_sub(out.shared.now()))).await;
        }
        _ => pending().await,
    }
}

/// Whether the process was held up past a deadline: then it first gets the time to read what came in the meantime.
fn woke_late(deadline: Instant) -> bool {
    deadline.elapsed() > GRACE / 2
}
