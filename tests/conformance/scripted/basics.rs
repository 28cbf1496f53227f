//! One sequence after the other: what is a sequence, and what is rejected.

use crate::{
    conversation::{Conversation, conversation},
    setup::Setup,
    step::{SequenceId, end, only, start, step},
};

pub(crate) fn conversations() -> Vec<Conversation> {
    let mut all: Vec<Conversation> = super::both().into_iter().flat_map(|(kind, setup)| of_each(kind, setup)).collect();
    all.extend([reuse_pipelined(), reuse_after_answer(), dyna(), errors_keep_their_place()]);
    all
}

fn of_each(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| conversation(format!("{what}-{kind}"), about, setup());
    vec![
        begin("simple", "a sequence step by step, then one all at once")
            .exchange("a", start(5, 1))
            .exchange("a", step(5, 2))
            .exchange("a", end(5, 3))
            .send_all("a", [start(6, 10), step(6, 20), end(6, 30)])
            .take("a", 3)
            .statistics(),
        begin("length-one", "START and END on one step")
            .exchange("a", only(5, 7))
            .exchange("a", only(5, 8))
            .exchange("a", step(5, 9))
            .statistics(),
        begin("never-started", "steps without START of an ID that was never seen")
            .exchange("a", step(99, 1))
            .exchange("a", end(99, 2))
            .send_all("a", [step(99, 3), start(99, 4), end(99, 5)])
            .take("a", 3)
            .statistics(),
        begin("after-end", "START, 2, END, and one more: first step by step, then all at once")
            .exchange("a", start(5, 1))
            .exchange("a", step(5, 2))
            .exchange("a", end(5, 3))
            .exchange("a", step(5, 4))
            .send_all("a", [start(6, 1), step(6, 2), end(6, 3), step(6, 4)])
            .take("a", 4)
            .statistics(),
        begin("no-end-then-start", "START, 2, START, END on one ID")
            .send_all("a", [start(5, 1), step(5, 2), start(5, 30), end(5, 40)])
            .take("a", 4)
            .exchange("a", start(6, 1))
            .exchange("a", step(6, 2))
            .exchange("a", start(6, 30))
            .exchange("a", end(6, 40))
            .statistics(),
        begin("end-twice", "a second END comes too late")
            .exchange("a", start(5, 1))
            .send_all("a", [end(5, 2), end(5, 3)])
            .take("a", 2)
            .exchange("a", end(5, 4))
            .statistics(),
        begin("batch-of-two", "a request with batch size 2 is rejected")
            .exchange("a", start(5, 1).values(&[1, 2]).shape(&[2, 1]))
            .exchange("a", start(5, 1))
            .exchange("a", step(5, 2).values(&[1, 2]).shape(&[2, 1]))
            .exchange("a", end(5, 3))
            .statistics(),
        begin("no-id", "requests without a correlation ID")
            .exchange("a", start(0, 1))
            .exchange("a", start("", 1))
            .exchange("a", start(SequenceId::None, 1))
            .exchange("a", step(SequenceId::None, 1))
            .statistics(),
        begin("wrapping", "sums wrap around")
            .exchange("a", start(5, i32::MAX))
            .exchange("a", step(5, 1))
            .exchange("a", end(5, i32::MIN))
            .statistics(),
        begin("several-streams", "a sequence that comes on three streams")
            .exchange("a", start(5, 1))
            .exchange("b", step(5, 2))
            .exchange("c", step(5, 3))
            .exchange("a", end(5, 4))
            .statistics(),
    ]
}

/// Only where state belongs to the slot: both sequences of the ID are live at once.
fn reuse_pipelined() -> Conversation {
    let about = "an ID is used again before its END is answered; the state is by slot, so that both are right";
    conversation("reuse-pipelined-direct", about, Setup::direct().batch(2))
        .send_all("a", [start(5, 1), step(5, 2), end(5, 3), start(5, 10), step(5, 20), end(5, 30)])
        .take("a", 6)
        .send_all("a", [only(5, 1), only(5, 2), only(5, 3), only(5, 4)])
        .take("a", 4)
        .counts()
}

fn reuse_after_answer() -> Conversation {
    conversation("reuse-after-response-oldest", "an ID is used again after its END is answered", Setup::oldest())
        .send_all("a", [start(5, 1), step(5, 2), end(5, 3)])
        .take("a", 3)
        .send_all("b", [start(5, 10), step(5, 20), end(5, 30)])
        .take("b", 3)
        .statistics()
}

fn dyna() -> Conversation {
    conversation("dyna-formula", "END's answer is higher by the correlation ID's low 32 bits", Setup::dyna())
        .send_all("a", [start(1000, 1), step(1000, 2), end(1000, 3)])
        .take("a", 3)
        .send_all("a", [start((7 << 32) + 5, 1), end((7 << 32) + 5, 2)])
        .take("a", 2)
        .send_all("a", [start(-3, 100), end(-3, 200)])
        .take("a", 2)
        .exchange("a", only(12, 5))
        .statistics()
}

fn errors_keep_their_place() -> Conversation {
    let about = "on one stream, rejections come in the order of the requests, behind executions that take long";
    conversation("errors-in-order", about, Setup::direct().batch(2).execute_ms(300))
        .send_all("a", [start(5, 1), step(99, 1), start(0, 1), step(5, 2), step(98, 1), end(5, 3)])
        .quiet(100)
        .take("a", 6)
        .statistics()
}
