//! What clients do: they hold their conversations, act by act.

use std::{collections::VecDeque, sync::Arc};

use rand::RngExt as _;

use super::{
    super::conversation::{IDLE_US, Script},
    Answer, Sent, Stream, What, World, id,
};
use crate::states::State;
use workload::{
    conversation::{Act, Connection, Lane, Transport},
    event::{Cut, EventKind},
    sequence::{Pattern, RequestId, Step},
};

/// Conversations that each client holds.
const CONVERSATIONS: u32 = 8;

impl World {
    pub(super) fn go_on(&mut self, client: usize) {
        if self.clients[client].pauses {
            return;
        }
        loop {
            let Some(act) = self.clients[client].acts.front().copied() else {
                if self.clients[client].conversations == CONVERSATIONS {
                    return;
                }
                self.check_state(client);
                self.clients[client].conversations += 1;
                self.seen.conversations += 1;
                self.clients[client].acts = Script::conversation(&mut self.random, self.small_values).into();
                continue;
            };
            if !self.act(client, act) {
                return;
            }
            self.clients[client].acts.pop_front();
            if let Act::Pause { us } = act {
                self.clients[client].pauses = true;
                self.schedule(self.now + us, What::Client(client));
                return;
            }
            self.now += self.random.random_range(0..20);
        }
    }

    /// Does something; returns false where it has to wait.
    fn act(&mut self, client: usize, act: Act) -> bool {
        match act {
            Act::Open { lane, over, .. } => self.open(client, lane, over),
            Act::Send { lane, start, end, value, elements, special, .. } => {
                let request = self.next_request(client);
                let given = self.kind.given(value);
                let value = self.kind.number(given).of_elements(elements);
                let step = Step { request, pattern: Pattern::Valid, start, end, value, of: 1, special };
                self.send(client, lane, step, given);
            }
            Act::Await { lane, unanswered } => {
                let stream = self.clients[client].lanes[lane.index()];
                return stream.is_none_or(|stream| self.streams[stream].unanswered <= unanswered);
            }
            Act::Close { lane } => {
                if let Some(stream) = self.clients[client].lanes[lane.index()].take() {
                    self.streams[stream].is_open = false;
                    self.tell(client, lane, EventKind::Closed);
                }
            }
            // The server may end a connection in good order at any time.
            Act::Cancel { lane } if self.random.random_bool(0.3) => self.lapse(client, lane),
            Act::Cancel { lane } => self.cut(client, lane, Cut::Cancelled),
            Act::Reset { lane } => self.cut(client, lane, Cut::Reset),
            Act::Kill { lane } => self.cut(client, lane, Cut::Killed),
            Act::HalfClose { .. } | Act::Pause { .. } | Act::At { .. } | Act::StopReading { .. } => {}
        }
        true
    }

    fn open(&mut self, client: usize, lane: Lane, over: Connection) {
        let slowness = if self.random.random_bool(0.1) { IDLE_US } else { self.random.random_range(1..5000) };
        self.streams.push(Stream {
            client,
            lane,
            last_up: 0,
            last_down: 0,
            slowness,
            cancelled: Arc::default(),
            order: VecDeque::new(),
            under_way: 0,
            is_open: true,
            unanswered: 0,
        });
        self.clients[client].lanes[lane.index()] = Some(self.streams.len() - 1);
        self.tell(client, lane, EventKind::Opened(over, Transport::GrpcStream));
    }

    fn next_request(&mut self, client: usize) -> RequestId {
        let worker = u32::try_from(client).expect("few");
        let sequence = self.clients[client].sequences;
        self.clients[client].sequences += 1;
        RequestId { worker, context: 0, sequence, step: 0 }
    }

    fn send(&mut self, client: usize, lane: Lane, step: Step, given: i32) {
        if self.clients[client].lanes[lane.index()].is_none() {
            self.open(client, lane, Connection::Own);
        }
        self.tell(client, lane, EventKind::Sent(step));
        let stream = self.clients[client].lanes[lane.index()].expect("it was opened");
        self.sent.push(Sent { stream, step, given, answer: None });
        let delay = self.random.random_range(0..self.streams[stream].slowness);
        let stream = &mut self.streams[stream];
        stream.unanswered += 1;
        stream.under_way += 1;
        stream.last_up = stream.last_up.max(self.now + delay) + 1;
        let at = stream.last_up;
        self.schedule(at, What::Arrives(self.sent.len() - 1));
    }

    fn cut(&mut self, client: usize, lane: Lane, cut: Cut) {
        let Some(stream) = self.clients[client].lanes[lane.index()].take() else { return };
        self.streams[stream].is_open = false;
        self.tell(client, lane, EventKind::Cut(cut));
        let delay = self.random.random_range(0..self.streams[stream].slowness * 2);
        self.schedule(self.now + delay, What::Cancelled(stream));
    }

    /// The server ends the connection of a stream in good order: it executes what it has read, and perhaps what is under way.
    fn lapse(&mut self, client: usize, lane: Lane) {
        if self.random.random_bool(0.5) {
            return self.cut(client, lane, Cut::Lapsed);
        }
        let Some(stream) = self.clients[client].lanes[lane.index()].take() else { return };
        self.streams[stream].is_open = false;
        self.tell(client, lane, EventKind::Cut(Cut::Lapsed));
    }

    /// Where nothing of an ID is under way, what the server holds has to be among what it may hold.
    fn check_state(&mut self, client: usize) {
        if self.wrong.is_some() {
            return;
        }
        let is_quiet = |stream: &Stream| stream.order.is_empty() && stream.under_way == 0 && stream.unanswered == 0;
        let of_client = self.streams.iter().filter(|stream| {
            stream.client == client && (stream.is_open || stream.under_way > 0 || !stream.order.is_empty())
        });
        if !of_client
            .clone()
            .all(|stream| is_quiet(stream) || (!stream.is_open && stream.order.is_empty() && stream.under_way == 0))
        {
            return;
        }
        let held = if self.server.is_live(id(client).0.get()) {
            let last = self.clients[client].last_accepted.expect("a sequence began");
            let Some(Answer::Sum(sum, _)) = self.sent[last].answer else { return };
            // Where the model mixes two sequences its sum is not that of the last step that was accepted.
            State::Live(Some(self.kind.number(sum)).filter(|_| self.kind.keeps_sums()))
        } else {
            State::Absent
        };
        self.seen.checks_of_the_state += 1;
        assert!(
            self.oracle.ids[client].may_hold(held, self.now * 1000, &self.oracle.rules),
            "at {} µs client {client}: {held:?} is not among {:#?}",
            self.now,
            self.oracle.ids[client]
        );
    }
}
