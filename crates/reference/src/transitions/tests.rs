//! What is noted of a scheduler's transitions.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use crate::{
    ServerSetup,
    simulated::{Blueprint, SequenceId, Simulated, Submitted},
};
use workload::seed::Seed;

/// A server with one slot, and who sends to it.
struct World {
    server: Simulated,
    now: Duration,
    sent: usize,
    cancelled: Vec<Arc<AtomicBool>>,
}

impl World {
    fn new(model: &str) -> Self {
        let setup = ServerSetup {
            max_batch_size: 1,
            idle_limit: Duration::from_secs(1),
            execution_time: Duration::from_millis(10),
            ..ServerSetup::default()
        };
        let mut server = Blueprint::new(model, setup).expect("a model").serve(&[], Seed(1), &["OUTPUT"]);
        server.watch();
        Self { server, now: Duration::ZERO, sent: 0, cancelled: Vec::new() }
    }

    fn send(&mut self, id: u64, flags: &str) -> &mut Self {
        self.send_in_time(id, flags, None)
    }

    fn send_in_time(&mut self, id: u64, flags: &str, timeout: Option<Duration>) -> &mut Self {
        let cancelled = Arc::<AtomicBool>::default();
        let request = Submitted {
            name: self.sent,
            version: None,
            id: &SequenceId::Number(id),
            start: flags.contains('S'),
            end: flags.contains('E'),
            shape: vec![1, 1],
            data: vec![1, 0, 0, 0],
            batch_size: 1,
            timeout,
            cancelled: Arc::clone(&cancelled),
        };
        self.server.submit(request, self.now, Duration::ZERO);
        self.sent += 1;
        self.cancelled.push(cancelled);
        self.pass(0)
    }

    /// Cancels the request of this number.
    fn cancel(&mut self, number: usize) -> &mut Self {
        self.cancelled[number].store(true, std::sync::atomic::Ordering::Relaxed);
        self.server.cancelled(self.now);
        self.pass(0)
    }

    fn pass(&mut self, ms: u64) -> &mut Self {
        let until = self.now + Duration::from_millis(ms);
        let mut answers = Vec::new();
        self.server.advance(self.now, || Duration::ZERO, &mut answers);
        while let Some(wake) = self.server.next_wake().filter(|wake| *wake <= until) {
            self.now = wake.max(self.now);
            self.server.advance(self.now, || Duration::ZERO, &mut answers);
        }
        self.now = until;
        self
    }

    /// The pairs that came about at correlation IDs, and in slots.
    fn pairs(&self) -> (Vec<String>, Vec<String>) {
        let texts = self.server.pairs().into_iter().map(|pair| pair.to_string());
        let (of_ids, of_slots): (Vec<_>, Vec<_>) = texts.partition(|text| text.starts_with("id: "));
        let bare =
            |texts: Vec<String>| texts.iter().filter_map(|text| Some(text.split_once(": ")?.1.to_owned())).collect();
        (bare(of_ids), bare(of_slots))
    }
}

#[test]
fn steps_meet_what_their_sequence_does() {
    let mut world = World::new("custom_sequence_int32");
    world.send(1, "S").send(1, "").pass(30).send(1, "E").pass(30).send(1, "").pass(30);
    let (of_ids, of_slots) = world.pairs();
    assert_eq!(
        of_ids,
        [
            "free/room START>slot",
            "free/room START>slot, executing/full step>slot",
            "executing/full step>slot, open/full END>slot",
            "open/full END>slot, free/room step>refused",
        ]
    );
    // What is refused comes to no slot.
    assert_eq!(
        of_slots,
        [
            "free/room START>slot",
            "free/room START>slot, executing/full step>slot",
            "executing/full step>slot, open/full END>slot",
        ]
    );
}

#[test]
fn a_slot_goes_from_one_sequence_to_the_next() {
    let mut world = World::new("custom_sequence_int32");
    world.send(1, "S").send(2, "SE").pass(5).send(1, "E").pass(100);
    world.send(3, "SE").pass(100);
    let (of_ids, of_slots) = world.pairs();
    assert!(of_ids.contains(&"free/full START+END>backlog".to_owned()), "{of_ids:?}");
    assert!(of_ids.contains(&"free/room START>slot, executing/waiting END>slot".to_owned()), "{of_ids:?}");
    for expected in [
        "executing/waiting END>slot, free/full START+END>backlog",
        "free/full START+END>backlog, free/room START+END>slot",
    ] {
        assert!(of_slots.contains(&expected.to_owned()), "{expected}: {of_slots:?}");
    }
    assert_eq!(of_slots.len(), 4, "{of_slots:?}");
}

#[test]
fn cancels_and_limits_that_pass_are_events() {
    let mut world = World::new("oldest_sequence_int32");
    let limit = Some(Duration::from_millis(5));
    world.send(1, "S").send(1, "").cancel(1).pass(100);
    world.send(1, "S").send_in_time(2, "S", limit).send(2, "").pass(30);
    world.send(3, "S").cancel(5).pass(2000);
    let (of_ids, of_slots) = world.pairs();
    for expected in [
        "free/room START>slot, executing/full step>slot",
        "executing/full step>slot, executing/full cancel",
        "backlog/waiting step>backlog, backlog/waiting expiry",
        "free/full START>backlog, backlog/waiting cancel",
    ] {
        assert!(of_ids.contains(&expected.to_owned()), "{expected}: {of_ids:?}");
    }
    assert!(of_slots.iter().any(|pair| pair.ends_with("idle")), "{of_slots:?}");
    assert!(!of_ids.iter().any(|pair| pair.matches("expiry").count() > 1), "{of_ids:?}");
}

#[test]
fn a_model_that_is_loaded_anew_knows_nothing_of_the_sequences_before() {
    let mut world = World::new("custom_sequence_int32");
    world.send(1, "S").pass(20).send(2, "S");
    world.server.reload();
    world.send(1, "").send(1, "S").pass(20);
    let (of_ids, of_slots) = world.pairs();
    for pair in [
        "free/room START>slot, open/waiting reload",
        "free/full START>backlog, backlog/waiting reload",
        "open/waiting reload, free/room step>refused",
        "free/room step>refused, free/room START>slot",
    ] {
        assert!(of_ids.iter().any(|its| its == pair), "'{pair}' is not in {of_ids:?}");
    }
    let after = "open/waiting reload, free/room START>slot";
    assert!(of_slots.iter().any(|its| its == after), "'{after}' is not in {of_slots:?}");
}
