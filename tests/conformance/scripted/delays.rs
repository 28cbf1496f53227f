//! Batches that wait to be filled.

use crate::{
    conversation::{Conversation, conversation},
    setup::Setup,
    step::{end, start, step},
};

pub(crate) fn conversations() -> Vec<Conversation> {
    let mut all = [("0", 0.0), ("half", 0.5), ("1", 1.0)].map(|(name, minimum)| utilization(name, minimum)).to_vec();
    all.extend([utilization_reached(), utilization_above_what_lives(), delay_then_busy()]);
    all.extend([
        preferred_reached(),
        preferred_not_reached(),
        preferred_two_sizes(),
        delay_only(),
        preferred_full_batch(),
    ]);
    all.extend([false, true].map(ordering));
    all
}

/// Two sequences on four slots with a delay of 1.2 s.
fn utilization(name: &str, minimum: f32) -> Conversation {
    let about = "two of four slots, with a queue delay, for slot utilizations of 0, 1/2 and 1";
    conversation(format!("utilization-{name}"), about, Setup::direct().utilization(1200, minimum))
        .send("a", start(5, 1))
        .quiet(500)
        .send("b", start(6, 10))
        .quiet(300)
        .quiet(800)
        .take("a", 1)
        .take("b", 1)
        .statistics()
}

fn utilization_reached() -> Conversation {
    let about = "a batch goes as soon as enough slots are ready, and each of the next waits again";
    conversation("utilization-reached", about, Setup::direct().batch(2).utilization(3000, 1.0))
        .send("a", start(5, 1))
        .quiet(200)
        .send("b", start(6, 10))
        .quiet(300)
        .take("a", 1)
        .take("b", 1)
        .send_all("a", [step(5, 2), end(5, 3)])
        .quiet(300)
        .send_all("b", [step(6, 20), end(6, 30)])
        .quiet(300)
        .take("a", 2)
        .take("b", 2)
        .statistics()
}

fn utilization_above_what_lives() -> Conversation {
    let about = "one sequence alone waits for the delay at each step";
    conversation("utilization-alone", about, Setup::direct().batch(2).utilization(600, 1.0))
        .send("a", start(5, 1))
        .quiet(350)
        .take("a", 1)
        .send_all("a", [step(5, 2), step(5, 3)])
        .quiet(350)
        .take("a", 2)
        .statistics()
}

fn delay_then_busy() -> Conversation {
    let about = "steps that queue behind an execution go together, without a wait for more";
    conversation("utilization-queued", about, Setup::direct().batch(2).utilization(600, 1.0).execute_ms(500))
        .send("a", start(5, 1))
        .send("b", start(6, 10))
        .send("a", step(5, 2))
        .send("b", step(6, 20))
        .take("a", 2)
        .take("b", 2)
        .statistics()
}

fn preferred_reached() -> Conversation {
    let about = "Oldest: a batch of the preferred size goes at once";
    conversation("preferred-reached", about, Setup::oldest().preferred(&[2], 3000))
        .send("a", start(5, 1))
        .quiet(300)
        .send("b", start(6, 10))
        .quiet(300)
        .take("a", 1)
        .take("b", 1)
        .statistics()
}

fn preferred_not_reached() -> Conversation {
    let about = "Oldest: a batch below the preferred size goes after the delay";
    conversation("preferred-not-reached", about, Setup::oldest().preferred(&[4], 1000))
        .send("a", start(5, 1))
        .send("b", start(6, 10))
        .quiet(400)
        .quiet(1000)
        .take("a", 1)
        .take("b", 1)
        .statistics()
}

fn preferred_two_sizes() -> Conversation {
    let about = "Oldest: the smallest preferred size that is reached is enough";
    conversation("preferred-two-sizes", about, Setup::oldest().preferred(&[2, 4], 1500))
        .send("a", start(5, 1))
        .send("b", start(6, 10))
        .quiet(300)
        .send("c", start(7, 100))
        .quiet(500)
        .quiet(1500)
        .take("a", 1)
        .take("b", 1)
        .take("c", 1)
        .statistics()
}

fn delay_only() -> Conversation {
    let about = "Oldest: a delay without preferred sizes";
    conversation("delay-oldest", about, Setup::oldest().preferred(&[], 800))
        .send("a", start(5, 1))
        .send("b", start(6, 10))
        .quiet(300)
        .quiet(800)
        .take("a", 1)
        .take("b", 1)
        .statistics()
}

fn preferred_full_batch() -> Conversation {
    let about = "Oldest: a full batch does not wait";
    conversation("delay-full-oldest", about, Setup::oldest().batch(2).preferred(&[], 5000))
        .send("a", start(5, 1))
        .quiet(300)
        .send("b", start(6, 10))
        .quiet(300)
        .take("a", 1)
        .take("b", 1)
        .statistics()
}

fn ordering(is_preserved: bool) -> Conversation {
    let setup = Setup::oldest().candidates(6).execute_ms(20);
    let (name, setup) =
        if is_preserved { ("ordering-preserved", setup.preserve_ordering()) } else { ("ordering", setup) };
    let ids = [5, 6, 7, 8, 9, 10];
    let mut it = conversation(name, "six sequences interleaved on one stream", setup);
    it = it.send_all("a", ids.map(|id| start(id, 1)));
    it = it.send_all("a", ids.map(|id| step(id, 2)));
    it = it.send_all("a", ids.map(|id| end(id, 4)));
    it.take("a", 18)
}
