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
    all.extend(super::both_with_one_slot().into_iter().flat_map(|(kind, setup)| slot_at_end(kind, setup)));
    all.extend([candidates_above_batch(), candidates_zero(), padding(), lowest_slot_first(), unused_slots()]);
    all.extend([prefetch("direct", Setup::direct()), prefetch("oldest", Setup::oldest()), side_by_side()]);
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
        begin("rejected-behind-backlog", "a rejection waits behind its stream's earlier, waiting step")
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

/// The waiting START has a time limit, which means nothing from the moment on that it has a slot.
fn slot_at_end(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| conversation(format!("{what}-{kind}"), about, setup().execute_ms(800));
    vec![
        begin(
            "slot-at-end",
            "the slot is given on when END is dispatched: the time limit that passes while it executes is void",
        )
        .exchange("a", start(5, 1))
        .send("b", start(6, 10).timeout_ms(500))
        .send("a", end(5, 2))
        .take("a", 1)
        .take("b", 1)
        .exchange("b", end(6, 20))
        .statistics(),
        begin(
            "slot-at-queued-end",
            "the slot is not given on while END waits for an earlier step: the time limit counts",
        )
        .send_all("a", [start(5, 1), end(5, 2)])
        .send("b", start(6, 10).timeout_ms(400))
        .take("b", 1)
        .take("a", 2)
        .exchange("b", only(6, 20))
        .statistics(),
        conversation(
            format!("slot-of-ending-{kind}"),
            "a sequence that comes while END executes gets the slot of the idle instance, not the one that END gave on",
            setup().instances(2).execute_ms(500),
        )
        .exchange("a", start(5, 1))
        .send("a", end(5, 2))
        .send("b", start(6, 10))
        .quiet(700)
        .take("a", 1)
        .take("b", 1)
        .exchange("b", end(6, 20))
        .statistics(),
    ]
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
    let about = "no batch is formed while one executes: what comes meanwhile goes together";
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

/// The slot that each sequence got shows in the batch size.
fn instances(count: u32) -> Conversation {
    let about = "sequences are dealt out to instances: the first slot of each before the second of any";
    let setup = Setup::direct().batch(2).instances(count);
    let mut it = conversation(format!("instances-{count}"), about, setup);
    for (link, id) in [("a", 5), ("b", 6), ("c", 7), ("d", 8)] {
        it = it.exchange(link, start(id, 1)).statistics();
    }
    it = it.send("e", only(9, 9));
    it = if count == 2 { it.quiet(300).exchange("a", end(5, 2)).take("e", 1) } else { it.take("e", 1) };
    it.exchange("b", end(6, 2)).exchange("c", end(7, 2)).exchange("d", end(8, 2)).statistics()
}

/// Which sequences share an instance shows in what is answered while one of them executes.
fn side_by_side() -> Conversation {
    let about =
        "two instances of two slots: the first and the third sequence share one, the first and the second do not";
    let setup = Setup::direct().batch(2).instances(2).execute_ms(400);
    let mut it = conversation("instances-parallel", about, setup);
    for (link, id) in [("a", 5), ("b", 6), ("c", 7), ("d", 8)] {
        it = it.exchange(link, start(id, 1));
    }
    it.send("a", step(5, 2))
        .send("b", step(6, 2))
        .quiet(550)
        .take("a", 1)
        .take("b", 1)
        .send("a", step(5, 3))
        .send("c", step(7, 3))
        .quiet(550)
        .take("a", 1)
        .take("c", 1)
        .send("b", step(6, 4))
        .send("d", step(8, 4))
        .quiet(550)
        .take("b", 1)
        .take("d", 1)
        .statistics()
}
