//! Who gets a slot, who waits for one, and for how long.

use crate::{
    conversation::{Conversation, conversation},
    setup::Setup,
    step::{end, only, start, step},
};

pub(crate) fn conversations() -> Vec<Conversation> {
    let mut all: Vec<Conversation> = super::both().into_iter().flat_map(|(kind, setup)| of_each(kind, setup)).collect();
    all.extend([
        no_batch("direct", Setup::direct().batch(0)),
        no_batch("oldest", Setup::dyna().batch(0).candidates(1)),
    ]);
    all.extend([reuse_in_the_backlog(), restart_in_the_backlog()]);
    all.extend([slot_at_end("direct", Setup::direct()), slot_at_end("oldest", Setup::oldest().candidates(1))]);
    all.extend([candidates_above_batch(), candidates_zero(), prefetch("direct", Setup::direct())]);
    all.extend([prefetch("oldest", Setup::oldest()), prefetch_of_one("direct", Setup::direct())]);
    all.extend([prefetch_of_one("oldest", Setup::oldest()), padding(), lowest_slot_first(), unused_slots()]);
    all.extend([2, 3].map(instances));
    all
}

fn of_each(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| conversation(format!("{what}-{kind}"), about, setup());
    vec![
        begin("backlog", "a third sequence on two slots waits until one ends")
            .exchange("a", start(5, 1))
            .exchange("b", start(6, 10))
            .send_all("c", [start(7, 100), step(7, 200)])
            .quiet(300)
            .exchange("a", step(5, 2))
            .exchange("b", end(6, 20))
            .take("c", 2)
            .exchange("c", end(7, 300))
            .exchange("a", end(5, 3))
            .statistics(),
        begin("backlog-order", "slots go to those who have waited longest")
            .exchange("a", start(5, 1))
            .exchange("b", start(6, 10))
            .send("c", only(7, 100))
            .send("d", start(8, 1000))
            .send("e", only(9, 10_000))
            .send("c", only(10, 7))
            .quiet(200)
            .exchange("a", end(5, 2))
            .take("c", 1)
            .take("d", 1)
            .quiet(300)
            .exchange("d", end(8, 2000))
            .take("e", 1)
            .take("c", 1)
            .exchange("b", end(6, 20))
            .statistics(),
        begin("backlog-more", "steps that come later join their sequence in the backlog")
            .exchange("a", start(5, 1))
            .exchange("b", start(6, 10))
            .send("c", start(7, 100))
            .send("d", step(7, 200))
            .send("c", end(7, 300))
            .send("d", step(7, 400))
            .quiet(200)
            .exchange("b", end(6, 20))
            .take("c", 2)
            .take("d", 2)
            .statistics(),
        begin("refused-behind-backlog", "a refusal waits behind its stream's earlier, waiting step")
            .exchange("a", start(5, 1))
            .exchange("b", start(6, 10))
            .send_all("c", [start(7, 100), step(99, 1), step(7, 200)])
            .quiet(300)
            .exchange("a", end(5, 2))
            .take("c", 3)
            .statistics(),
    ]
}

fn no_batch(kind: &str, setup: Setup) -> Conversation {
    let about = "a model without batching has one slot";
    conversation(format!("nobatch-{kind}"), about, setup)
        .exchange("a", start(5, 1))
        .send_all("b", [start(6, 10), end(6, 20)])
        .quiet(300)
        .exchange("a", end(5, 2))
        .take("b", 2)
        .exchange("a", step(5, 3))
        .statistics()
}

fn reuse_in_the_backlog() -> Conversation {
    let about = "two sequences of one ID wait, one behind the other's END: they are two";
    conversation("backlog-same-id-ended", about, Setup::direct().batch(1))
        .exchange("a", start(5, 1))
        .send_all("b", [start(6, 10), end(6, 20)])
        .send_all("c", [start(6, 100), end(6, 200)])
        .send("d", step(6, 400))
        .take("d", 1)
        .quiet(300)
        .exchange("a", end(5, 2))
        .take("b", 2)
        .take("c", 2)
        .statistics()
}

fn restart_in_the_backlog() -> Conversation {
    let about = "an ID is started again in the backlog without END: the old one ends early";
    conversation("backlog-same-id-not-ended", about, Setup::direct().batch(1))
        .exchange("a", start(5, 1))
        .send_all("b", [start(6, 10), step(6, 20)])
        .send_all("c", [start(6, 100), step(6, 200), end(6, 300)])
        .quiet(300)
        .exchange("a", end(5, 2))
        .take("b", 2)
        .take("c", 3)
        .statistics()
}

/// The waiting START has a time limit that passes while END executes: where it is refused, the slot was free only then.
fn slot_at_end(kind: &str, setup: Setup) -> Conversation {
    let about = "whether the slot is given on when END is dispatched, or when it is done";
    conversation(format!("slot-at-end-{kind}"), about, setup.batch(1).execute_ms(800))
        .exchange("a", start(5, 1))
        .send("b", start(6, 10).timeout_ms(500))
        .send("a", end(5, 2))
        .take("a", 1)
        .take("b", 1)
        .exchange("b", end(6, 20))
        .statistics()
}

fn candidates_above_batch() -> Conversation {
    let about = "four candidates on batches of two: all have slots, and at most two execute at once";
    let setup = Setup::oldest().batch(2).candidates(4).execute_ms(400);
    conversation("candidates-above-batch", about, setup)
        .send("a", start(5, 1))
        .send("b", start(6, 10))
        .send("c", start(7, 100))
        .send("d", start(8, 1000))
        .take("a", 1)
        .take("b", 1)
        .take("c", 1)
        .take("d", 1)
        .send("e", only(9, 10_000))
        .quiet(700)
        .exchange("a", end(5, 2))
        .take("e", 1)
        .statistics()
}

fn candidates_zero() -> Conversation {
    let about = "without a number of candidates there are as many as the batch size";
    conversation("candidates-zero", about, Setup::oldest().batch(2).candidates(0))
        .exchange("a", start(5, 1))
        .exchange("b", start(6, 10))
        .send("c", only(7, 100))
        .quiet(300)
        .exchange("a", end(5, 2))
        .take("c", 1)
        .statistics()
}

/// While one step executes three come, one after the other: the batch sizes tell which of them were put together.
fn prefetch(kind: &str, setup: Setup) -> Conversation {
    let about = "whether the next batch is formed while one executes";
    conversation(format!("prefetch-{kind}"), about, setup.execute_ms(800))
        .send("a", start(5, 1))
        .send("b", start(6, 10))
        .send("c", start(7, 100))
        .send("d", start(8, 1000))
        .take("a", 1)
        .take("b", 1)
        .take("c", 1)
        .take("d", 1)
        .statistics()
}

/// As [`prefetch`], with one waiting sequence only: how many of its steps have left its queue shows when it is cancelled.
fn prefetch_of_one(kind: &str, setup: Setup) -> Conversation {
    let about = "how many steps of one sequence are dispatched when its stream is cancelled";
    conversation(format!("prefetch-cancelled-{kind}"), about, setup.execute_ms(500))
        .exchange("a", start(5, 1))
        .send_all("b", [step(5, 2), step(5, 4), step(5, 8), step(5, 16), step(5, 32)])
        .pause(200)
        .cancel("b")
        .pause(3000)
        .exchange("a", step(5, 100))
        .statistics()
}

/// Empty slots below the highest busy one are padded; the batch size counts them, the inferences do not.
fn padding() -> Conversation {
    let about = "the batch size counts empty slots below the highest busy one";
    conversation("padding", about, Setup::direct())
        .exchange("a", start(5, 1))
        .exchange("b", start(6, 10))
        .exchange("c", start(7, 100))
        .exchange("d", start(8, 1000))
        .statistics()
        .exchange("c", step(7, 200))
        .statistics()
        .exchange("a", end(5, 2))
        .exchange("b", end(6, 20))
        .exchange("d", step(8, 2000))
        .statistics()
        .exchange("c", end(7, 300))
        .exchange("d", end(8, 3000))
        .statistics()
}

/// Which slot a sequence has shows in the batch size that its step alone makes.
fn lowest_slot_first() -> Conversation {
    let about = "the lowest free slot is taken first, whichever was freed first";
    conversation("lowest-slot-first", about, Setup::direct())
        .exchange("a", start(5, 1))
        .exchange("a", start(6, 10))
        .exchange("a", start(7, 100))
        .exchange("a", start(8, 1000))
        .exchange("a", end(7, 200))
        .exchange("a", end(5, 2))
        .exchange("a", end(6, 20))
        .statistics()
        .exchange("a", start(9, 1))
        .statistics()
        .exchange("a", start(10, 1))
        .statistics()
        .exchange("a", start(11, 1))
        .statistics()
}

fn unused_slots() -> Conversation {
    let about = "a sequence alone has the first slot each time";
    conversation("one-at-a-time", about, Setup::direct())
        .exchange("a", only(5, 1))
        .exchange("a", only(6, 10))
        .exchange("a", start(7, 100))
        .exchange("a", end(7, 200))
        .exchange("a", only(8, 1000))
        .statistics()
}

/// The slot that each sequence got shows in the batch size, and whether two share an instance in how long they take.
fn instances(count: u32) -> Conversation {
    let about = "how sequences are dealt out to instances: the batch sizes of their second steps tell the slots";
    let setup = Setup::direct().batch(2).instances(count);
    let mut it = conversation(format!("instances-{count}"), about, setup);
    for (link, id) in [("a", 5), ("b", 6), ("c", 7), ("d", 8)] {
        it = it.exchange(link, start(id, 1)).statistics();
    }
    it = it.send("e", only(9, 9));
    it = if count == 2 { it.quiet(300).exchange("a", end(5, 2)).take("e", 1) } else { it.take("e", 1) };
    it.exchange("b", end(6, 2)).exchange("c", end(7, 2)).exchange("d", end(8, 2)).statistics()
}
