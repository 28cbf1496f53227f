//! A little server that is simulated, its clients, and one thing that goes wrong.

use std::{collections::VecDeque, num::NonZeroU64};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::history::Entry;
use workload::{
    conversation::Lane,
    event::{ContextId, EventKind, Nanos},
    number::Number,
    seed::Seed,
    sequence::{CorrelationId, Pattern, RequestId, Step},
};

const CLIENTS: u32 = 6;

/// What goes wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    SmallMistake,
    Twice,
    Skipped,
    Reset,
    NotSaved,
    OtherState,
    Swapped,
    OutOfOrder,
    EndFirst,
    NotReset,
    OtherId,
    Stray,
    OtherAnswer,
    /// A sum that has nothing to do with anything.
    Random,
}

/// A client's sequence, and its state in the server.
#[derive(Debug, Default)]
struct Client {
    serial: u32,
    /// The steps to be sent.
    to_send: VecDeque<Step>,
    /// The steps under way; the sum of one that was executed out of turn.
    under_way: VecDeque<(Step, Option<Number>)>,
    state: Number,
    /// Whether the sequence has a state.
    live: bool,
    /// What an earlier sequence of the client left.
    last: Number,
}

/// The world after a run: what was seen, and which answer was the first wrong one.
pub(super) struct World {
    generator: ChaCha8Rng,
    bits: u32,
    now: Nanos,
    clients: Vec<Client>,
    pub(super) entries: Vec<Entry>,
    mutation: Mutation,
    /// The mutation comes at the first chance after so many answers.
    due_after: u32,
    /// Wrong answers, with the sums that had to come.
    pub(super) wrong: Vec<(RequestId, Number)>,
    done: bool,
    /// The answer that is given to another client: the client, and the sum.
    owed: Option<(usize, Number)>,
}

impl World {
    /// Runs until some answers after the mutation.
    pub(super) fn run(mutation: Mutation, bits: u32, seed: u64) -> Self {
        let generator = Seed(seed).generator(0);
        let clients = (0..CLIENTS).map(|_| Client::default()).collect();
        let mut world = Self {
            generator,
            bits,
            now: 0,
            clients,
            entries: Vec::new(),
            mutation,
            due_after: 0,
            wrong: Vec::new(),
            done: false,
            owed: None,
        };
        world.due_after = world.generator.random_range(100..200);
        let mut follow_up = 200;
        for _ in 0..3000 {
            world.happen();
            follow_up -= u32::from(world.done);
            if follow_up == 0 {
                break;
            }
        }
        world
    }

    fn value(&mut self) -> Number {
        let word: u32 = self.generator.random();
        (word >> (32 - self.bits)).cast_signed().into()
    }

    fn tell(&mut self, client: usize, what: EventKind) {
        self.now += self.generator.random_range(1_000..200_000);
        let worker = u32::try_from(client).expect("few");
        let correlation_id = CorrelationId(NonZeroU64::new(u64::from(worker) + 1).expect("not zero"));
        let context = ContextId { worker, context: 0 };
        self.entries.push(Entry { at: self.now, context, correlation_id, lane: Lane::FIRST, what });
    }

    fn happen(&mut self) {
        let client = self.generator.random_range(0..self.clients.len());
        let it = &self.clients[client];
        if it.to_send.is_empty() && it.under_way.is_empty() {
            self.begin(client);
        } else if !it.to_send.is_empty() && (it.under_way.is_empty() || self.generator.random_bool(0.55)) {
            let step = self.clients[client].to_send.pop_front().expect("there is one");
            self.tell(client, EventKind::Sent(step));
            self.clients[client].under_way.push_back((step, None));
        } else if !it.under_way.is_empty() {
            self.answer(client);
        }
    }

    fn begin(&mut self, client: usize) {
        let of: u32 = self.generator.random_range(4..20);
        let worker = u32::try_from(client).expect("few");
        let sequence = self.clients[client].serial;
        for step in 0..of {
            let request = RequestId { worker, context: 0, sequence, step };
            let value = self.value();
            let step = Step {
                request,
                pattern: Pattern::Valid,
                start: step == 0,
                end: step + 1 == of,
                value,
                of,
                special: None,
            };
            self.clients[client].to_send.push_back(step);
        }
        self.clients[client].serial += 1;
    }

    /// Executes a client's oldest step, unless that was done before, and answers it.
    fn answer(&mut self, client: usize) {
        let right = self.right_sum(client);
        self.due_after = self.due_after.saturating_sub(1);
        let is_due = self.due_after == 0 && !self.done;
        let wrong = if is_due { self.mutate(client) } else { None };
        let sum = wrong.unwrap_or_else(|| self.execute(client));
        let sum = match self.owed {
            Some((to, owed)) if to == client => {
                self.owed = None;
                owed
            }
            _ => sum,
        };
        let (step, _) = self.clients[client].under_way.pop_front().expect("there is one");
        if let Some(right) = right.filter(|right| *right != sum) {
            self.wrong.push((step.request, right));
        }
        self.tell(client, EventKind::Answered(step.request, sum, None));
        if step.end {
            let it = &mut self.clients[client];
            (it.live, it.last) = (false, sum);
        }
    }

    /// The sum that has to come, as the client can tell from the answer before.
    fn right_sum(&self, client: usize) -> Option<Number> {
        let (step, _) = self.clients[client].under_way.front().expect("there is one");
        if step.start {
            return Some(step.value);
        }
        let before = RequestId { step: step.request.step - 1, ..step.request };
        let answered = self.entries.iter().rev().find_map(|entry| match entry.what {
            EventKind::Answered(request, sum, _) if request == before => Some(sum),
            _ => None,
        });
        // After the first wrong answer only it is looked at.
        answered.filter(|_| self.wrong.is_empty()).map(|sum| sum.wrapping_add(step.value))
    }

    fn execute(&mut self, client: usize) -> Number {
        let it = &mut self.clients[client];
        let (step, before) = it.under_way.front().expect("there is one");
        if let Some(sum) = before {
            return *sum;
        }
        let base = if step.start { Number::default() } else { it.state };
        it.state = base.wrapping_add(step.value);
        it.live = true;
        it.state
    }

    /// Does the one thing wrong where it can be done here; returns the sum.
    fn mutate(&mut self, client: usize) -> Option<Number> {
        let (step, before) = *self.clients[client].under_way.front().expect("there is one");
        // Far enough from both ends for what has to follow, and at START what needs that.
        let inside = (3..step.of - 3).contains(&step.request.step) && step.of > 8;
        let at_start = step.start && step.request.sequence > 0;
        let fits = if self.mutation == Mutation::NotReset { at_start } else { inside };
        if !fits || before.is_some() {
            return None;
        }
        let (state, value) = (self.clients[client].state, step.value);
        let other = self.other(client);
        let taken = |this: &mut Self, sum: Number| {
            this.clients[client].state = sum;
            Some(sum)
        };
        let sum = match self.mutation {
            Mutation::SmallMistake => Some(self.execute(client).wrapping_add(1.into())),
            Mutation::Twice => taken(self, state.wrapping_add(value).wrapping_add(value)),
            Mutation::Skipped => taken(self, state),
            Mutation::Reset => taken(self, value),
            Mutation::NotSaved => {
                // This answer is right; the next one shows it.
                self.done = true;
                return Some(state.wrapping_add(value));
            }
            Mutation::OtherState => taken(self, self.clients[other?].state.wrapping_add(value)),
            Mutation::Swapped => {
                let theirs = self.clients[other?].state;
                self.clients[other?].state = state;
                taken(self, theirs.wrapping_add(value))
            }
            Mutation::OutOfOrder => self.before_its_turn(client, false),
            Mutation::EndFirst => self.before_its_turn(client, true),
            Mutation::NotReset => taken(self, self.clients[client].last.wrapping_add(value)),
            Mutation::OtherId => {
                let sum = self.clients[other?].state.wrapping_add(value);
                self.clients[other?].state = sum;
                Some(sum)
            }
            Mutation::Stray => {
                let theirs = self.stray_value(other?)?;
                taken(self, state.wrapping_add(theirs).wrapping_add(value))
            }
            Mutation::OtherAnswer => self.exchange(client, other?),
            Mutation::Random => {
                // As large as a sum is at that step.
                let sum = (0..=step.request.step).fold(Number::default(), |sum, _| sum.wrapping_add(self.value()));
                taken(self, sum)
            }
        };
        self.done = sum.is_some();
        sum
    }

    /// Another client in the middle of a sequence, with a step under way.
    fn other(&mut self, than: usize) -> Option<usize> {
        let inside = |client: &Client| {
            client.live && client.under_way.front().is_some_and(|(step, _)| !step.start && !step.end && step.of > 4)
        };
        let all: Vec<_> =
            (0..self.clients.len()).filter(|other| *other != than && inside(&self.clients[*other])).collect();
        (!all.is_empty()).then(|| all[self.generator.random_range(0..all.len())])
    }

    /// Executes the step behind the oldest one first.
    fn before_its_turn(&mut self, client: usize, end: bool) -> Option<Number> {
        let it = &mut self.clients[client];
        let (first, _) = it.under_way[0];
        let next = it.under_way.get_mut(1)?;
        if end {
            // The sequence ends sooner than was meant.
            next.0.end = true;
            next.0.of = next.0.request.step + 1;
            it.to_send.clear();
            it.under_way.truncate(2);
        }
        let next = it.under_way.get_mut(1).expect("it is there");
        let early = it.state.wrapping_add(next.0.value);
        next.1 = Some(early);
        let (request, end) = (next.0.request, next.0);
        it.state = early.wrapping_add(first.value);
        let sum = it.state;
        for entry in self.entries.iter_mut().rev() {
            match &mut entry.what {
                EventKind::Sent(step) if step.request == request => *step = end,
                _ => {}
            }
        }
        Some(sum)
    }

    /// The value of a step of another client that is under way, and will be answered rightly.
    fn stray_value(&self, other: usize) -> Option<Number> {
        self.clients[other].under_way.front().map(|(step, _)| step.value)
    }

    /// Two steps get each other's answers; the states are right.
    fn exchange(&mut self, client: usize, other: usize) -> Option<Number> {
        if self.clients[other].under_way.front()?.1.is_some() {
            return None;
        }
        let theirs = self.execute(other);
        let mine = self.execute(client);
        self.clients[other].under_way[0].1 = Some(mine);
        Some(theirs)
    }
}
