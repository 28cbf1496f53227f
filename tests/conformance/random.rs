//! Conversations from a seed, made so that every answer is determined.
//!
//! All steps of an ID go on one stream, or each waits for the one before it; every sequence that has a slot ends, so that who
//! waits gets one; and an ID is used again before its END is answered only where state belongs to the slot.

use rand::RngExt as _;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng as _};

use crate::{
    conversation::{By, Conversation, Link, OnPython, conversation},
    scripted::{NO_STATE, NO_TEXTS},
    setup::{Setup, State},
    snapshot,
    step::{SequenceId, Step, end, only, start, step},
};

const LINKS: [Link; 4] = ["a", "b", "c", "d"];
const CONVERSATIONS: usize = 24;
const NATIVE_CONVERSATIONS: usize = 12;
/// The first number of those that are held by calls.
const BY_CALLS: u64 = 50;
const PLANS: i64 = 10;
/// Each plan has IDs of its own: so many, and no more.
const IDS_OF_A_PLAN: i64 = 100;

/// A kind of model, and what may be done to it.
struct Kind {
    name: &'static str,
    setup: fn() -> Setup,
    slots: usize,
    /// Whether state belongs to the slot; else it belongs to the correlation ID.
    by_slot: bool,
    ids: Ids,
    /// Whether steps have several elements now and then.
    varies: bool,
    on_python: OnPython,
}

/// What correlation IDs are.
#[derive(Clone, Copy, PartialEq)]
enum Ids {
    Numbers,
    Texts,
    Both,
}

const BY_SLOT: Kind = Kind {
    name: "direct-1x4",
    setup: Setup::direct,
    slots: 4,
    by_slot: true,
    ids: Ids::Both,
    varies: true,
    on_python: OnPython::Same,
};
const BY_ID: Kind = Kind { name: "oldest-4", setup: Setup::oldest, by_slot: false, ids: Ids::Numbers, ..BY_SLOT };
/// The state's shape is fixed, and so is the input's.
const IMPLICIT: Kind = Kind { varies: false, on_python: NO_STATE, ..BY_SLOT };

const KINDS: [Kind; 8] = [
    BY_SLOT,
    Kind { name: "direct-1x1", setup: || Setup::direct().batch(1), slots: 1, ..BY_SLOT },
    Kind { name: "direct-2x2", setup: || Setup::direct().batch(2).instances(2), ..BY_SLOT },
    Kind { name: "nobatch", setup: || Setup::direct().batch(0), slots: 1, ..BY_SLOT },
    BY_ID,
    Kind { name: "oldest-2", setup: || Setup::oldest().batch(4).candidates(2), slots: 2, ..BY_ID },
    Kind { name: "dyna-1", setup: || Setup::dyna().batch(1).candidates(1), slots: 1, ..BY_ID },
    Kind { name: "dyna-delayed", setup: || Setup::dyna().preferred(&[2, 4], 20), ..BY_ID },
];
/// What the Python backend has not; the names tell which.
const NATIVE_KINDS: [Kind; 6] = [
    Kind { name: "implicit-1x4", setup: Setup::implicit, ..IMPLICIT },
    Kind { name: "implicit-zero-2x2", setup: || implicit_zero().batch(2).instances(2), ..IMPLICIT },
    Kind { name: "implicit-nobatch", setup: || Setup::implicit().batch(0), slots: 1, ..IMPLICIT },
    Kind { name: "implicit-oldest-4", setup: Setup::implicit_oldest, ..IMPLICIT },
    Kind { name: "implicit-oldest-2", setup: || Setup::implicit_oldest().batch(2).candidates(2), slots: 2, ..IMPLICIT },
    Kind {
        name: "oldest-string",
        setup: || Setup::dyna().corrid("TYPE_STRING"),
        ids: Ids::Texts,
        on_python: NO_TEXTS,
        ..BY_ID
    },
];

fn implicit_zero() -> Setup {
    Setup::implicit().state(State::Zero)
}

/// All conversations of the seed, which is 1 if the environment names no other.
pub(crate) fn conversations() -> Vec<Conversation> {
    let seed = snapshot::seed();
    let name = if seed == snapshot::KEPT_SEED { String::new() } else { format!("seed-{seed}-") };
    let of_both = KINDS.iter().cycle().take(CONVERSATIONS);
    let all = of_both.chain(NATIVE_KINDS.iter().cycle().take(NATIVE_CONVERSATIONS));
    (0..).zip(all).map(|(index, kind)| of(seed, &name, index, kind)).collect()
}

fn of(seed: u64, name: &str, index: u64, kind: &'static Kind) -> Conversation {
    held(seed, name, index, kind, false).on_python(kind.on_python)
}

fn held(seed: u64, name: &str, index: u64, kind: &'static Kind, is_step_by_step: bool) -> Conversation {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(index);
    let begun = conversation(format!("{name}{index:02}-{}", kind.name), "plans from a seed", (kind.setup)());
    (0..PLANS)
        .fold(begun, |it, plan| {
            let mut plan = Plan { kind, random: &mut random, first_id: plan * IDS_OF_A_PLAN + 1 };
            if is_step_by_step { plan.step_by_step(it) } else { plan.add(it) }
        })
        .counts()
}

/// More of them, with calls in place of streams, each made when the one before it is answered.
pub(crate) fn conversations_by_calls() -> Vec<Conversation> {
    let seed = snapshot::seed();
    let name = if seed == snapshot::KEPT_SEED { String::new() } else { format!("seed-{seed}-") };
    let kinds = KINDS.iter().chain(&NATIVE_KINDS).zip([By::Unary, By::Http, By::HttpBinary].into_iter().cycle());
    let of = |(index, (kind, by))| held(seed, &name, BY_CALLS + index, kind, true).over(by);
    (0..).zip(kinds).filter_map(of).collect()
}

struct Plan<'a> {
    kind: &'a Kind,
    random: &'a mut ChaCha8Rng,
    first_id: i64,
}

impl Plan<'_> {
    fn add(mut self, it: Conversation) -> Conversation {
        if self.random.random_bool(0.5) { self.pipelined(it) } else { self.step_by_step(it) }
    }

    /// Up to four streams with up to three IDs each, all sent before anything is awaited.
    fn pipelined(&mut self, mut it: Conversation) -> Conversation {
        let links = &LINKS[..self.random.random_range(1..=LINKS.len())];
        let mut counts = Vec::new();
        for link in links {
            let ids = self.random.random_range(1..=3);
            let scripts = (0..ids).map(|_| self.script(self.kind.by_slot)).collect();
            let steps = self.shuffled(scripts);
            counts.push((*link, steps.len()));
            it = steps.into_iter().fold(it, |it, step| it.send_at_once(link, step));
        }
        counts.into_iter().fold(it, |it, (link, count)| it.take(link, count))
    }

    /// No more IDs than slots, on any stream, each step behind the answer to the one before.
    fn step_by_step(&mut self, it: Conversation) -> Conversation {
        let ids = self.random.random_range(1..=self.kind.slots);
        let scripts = (0..ids).map(|_| self.script(true)).collect();
        let steps = self.shuffled(scripts);
        steps.into_iter().fold(it, |it, step| {
            let link = LINKS[self.random.random_range(0..LINKS.len())];
            it.send_at_once(link, step).take(link, 1)
        })
    }

    /// All steps of several scripts, those of each in their order.
    fn shuffled(&mut self, scripts: Vec<Vec<Step>>) -> Vec<Step> {
        let mut left: Vec<_> = scripts.into_iter().map(Vec::into_iter).collect();
        let mut steps = Vec::new();
        while !left.is_empty() {
            let next = self.random.random_range(0..left.len());
            match left[next].next() {
                Some(step) => steps.push(step),
                None => drop(left.swap_remove(next)),
            }
        }
        steps
    }

    /// What is sent of one ID; at its end no sequence of it lives.
    fn script(&mut self, may_reuse: bool) -> Vec<Step> {
        let id = self.id();
        let mut steps = Vec::new();
        if self.random.random_bool(0.15) {
            steps.push(self.varied(step(id.clone(), 0)));
        }
        let sequences = if may_reuse { self.random.random_range(1..=3) } else { 1 };
        for _ in 0..sequences {
            self.sequence(&id, &mut steps);
        }
        steps
    }

    /// START to END, perhaps with another START in between, perhaps with steps behind END.
    fn sequence(&mut self, id: &SequenceId, steps: &mut Vec<Step>) {
        if self.random.random_bool(0.2) {
            steps.push(self.varied(only(id.clone(), 0)));
        } else {
            steps.push(self.varied(start(id.clone(), 0)));
            for _ in 0..self.random.random_range(0..4) {
                let restarts = self.random.random_bool(0.15);
                let next = if restarts { start(id.clone(), 0) } else { step(id.clone(), 0) };
                steps.push(self.varied(next));
            }
            steps.push(self.varied(end(id.clone(), 0)));
        }
        if self.random.random_bool(0.2) {
            let late = if self.random.random_bool(0.5) { end(id.clone(), 0) } else { step(id.clone(), 0) };
            steps.push(self.varied(late));
        }
    }

    /// An ID that nobody has had before.
    fn id(&mut self) -> SequenceId {
        let number = self.first_id;
        self.first_id += 1;
        let is_text = match self.kind.ids {
            Ids::Numbers => false,
            Ids::Texts => true,
            Ids::Both => self.random.random_bool(0.3),
        };
        if is_text { SequenceId::Text(format!("sequence {number}")) } else { SequenceId::Number(number) }
    }

    /// The step with values of its own, one or a few.
    fn varied(&mut self, step: Step) -> Step {
        let count = if self.kind.varies && self.random.random_bool(0.15) { self.random.random_range(2..=4) } else { 1 };
        let values: Vec<i32> = (0..count).map(|_| self.random.random_range(-999..=999)).collect();
        step.values(&values)
    }
}
