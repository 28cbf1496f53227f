//! Time limits: of sequences that pause, and of requests that wait.

use crate::{
    conversation::{Conversation, conversation},
    setup::Setup,
    step::{end, only, start, step},
};

pub(crate) fn conversations() -> Vec<Conversation> {
    let two = super::both().into_iter().flat_map(|(kind, setup)| [idle(kind, setup), timeouts(kind, setup)].concat());
    let one = super::both_with_one_slot().into_iter().flat_map(|(kind, setup)| waiting(kind, setup));
    two.chain(one).collect()
}

fn idle(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about, setup| conversation(format!("{what}-{kind}"), about, setup);
    vec![
        begin("idle", "a pause below the idle limit, and one beyond it", setup().idle_ms(600))
            .exchange("a", start(5, 1))
            .pause(250)
            .exchange("a", step(5, 2))
            .pause(250)
            .exchange("a", step(5, 4))
            .pause(1200)
            .exchange("a", step(5, 8))
            .exchange("a", start(5, 100))
            .exchange("a", end(5, 200))
            .statistics(),
        begin(
            "idle-frees-the-slot",
            "who waits gets the slot of a sequence that pauses too long",
            setup().idle_ms(1000),
        )
        .exchange("a", start(5, 1))
        .exchange("b", start(6, 10))
        .send_all("c", [start(7, 100), end(7, 200)])
        .pause(300)
        .exchange("b", step(6, 20))
        .quiet(100)
        .take("c", 2)
        .exchange("a", step(5, 2))
        .exchange("b", step(6, 40))
        .statistics(),
        begin(
            "idle-while-executing",
            "the clock is the last arrival: what is queued is answered, what comes later is not",
            setup().idle_ms(400).execute_ms(400),
        )
        .send_all("a", [start(5, 1), step(5, 2), step(5, 4), step(5, 8)])
        .pause(1000)
        .send("b", step(5, 16))
        .take("b", 1)
        .take("a", 4)
        .statistics(),
        begin("idle-one-of-two", "a sequence that pauses too long does not harm the other", setup().idle_ms(900))
            .exchange("a", start(5, 1))
            .exchange("b", start(6, 10))
            .pause(500)
            .exchange("b", step(6, 20))
            .pause(500)
            .exchange("b", step(6, 40))
            .pause(200)
            .exchange("b", step(6, 80))
            .exchange("a", step(5, 2))
            .exchange("b", end(6, 160))
            .statistics(),
    ]
}

/// 5 has the slot and stays alive, 7 waits for longer than the idle limit.
fn waiting(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| {
        let begun = conversation(format!("{what}-{kind}"), about, setup().idle_ms(800));
        let waiting = begun.exchange("a", start(5, 1)).send("c", start(7, 100));
        (0..4).fold(waiting, |it, _| it.pause(250).exchange("a", step(5, 1)))
    };
    vec![
        begin(
            "idle-in-the-backlog",
            "a sequence that waits is not reaped before it has had the slot, but then at once",
        )
        .quiet(100)
        .exchange("a", end(5, 2))
        .take("c", 1)
        .pause(250)
        .exchange("c", step(7, 200))
        .statistics(),
        begin("idle-backlog-refreshed", "a step that comes while its sequence waits starts the clock anew")
            .send("d", step(7, 200))
            .exchange("a", end(5, 2))
            .take("c", 1)
            .take("d", 1)
            .pause(250)
            .exchange("c", step(7, 400))
            .statistics(),
    ]
}

fn timeouts(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| conversation(format!("{what}-{kind}"), about, setup());
    let full = |what: &str, about| begin(what, about).exchange("a", start(5, 1)).exchange("b", start(6, 10));
    vec![
        full("timeout", "a time limit that passes in the backlog rejects all of the sequence, and no other")
            .send_all("c", [start(7, 100).timeout_ms(500), step(7, 200)])
            .quiet(100)
            .take("c", 2)
            .exchange("c", step(7, 400))
            .exchange("a", end(5, 2))
            .exchange("b", end(6, 20))
            .exchange("c", only(7, 800))
            .statistics(),
        full("timeout-of-a-later-step", "the earliest of a waiting sequence's time limits counts")
            .send_all("c", [start(7, 100).timeout_ms(5000), step(7, 200).timeout_ms(500), step(7, 400)])
            .take("c", 3)
            .exchange("a", end(5, 2))
            .exchange("b", end(6, 20))
            .statistics(),
        full("timeout-in-time", "a slot that comes in time; then the time limit means nothing")
            .send_all("c", [start(7, 100).timeout_ms(1500), step(7, 200).timeout_ms(1500)])
            .quiet(200)
            .exchange("a", end(5, 2))
            .take("c", 2)
            .pause(1800)
            .exchange("c", end(7, 400))
            .exchange("b", end(6, 20))
            .statistics(),
        full("timeout-of-one-of-two", "one waits with a time limit, the other without")
            .send("c", start(7, 100).timeout_ms(500))
            .send_all("d", [start(8, 1000), end(8, 2000)])
            .take("c", 1)
            .quiet(200)
            .exchange("a", end(5, 2))
            .take("d", 2)
            .exchange("b", end(6, 20))
            .statistics(),
        full("timeout-unary", "a rejection for the time limit, with its code")
            .call("c", start(7, 100).timeout_ms(300))
            .take("c", 1)
            .infer(step(7, 1))
            .exchange("a", end(5, 2))
            .exchange("b", end(6, 20))
            .statistics(),
        begin("timeout-in-a-slot", "a time limit says nothing to a sequence that has a slot")
            .exchange("a", start(5, 1).timeout_ms(1))
            .pause(200)
            .exchange("a", step(5, 2).timeout_ms(1))
            .exchange("a", end(5, 3).timeout_ms(1))
            .statistics(),
        begin("timeout-zero", "a time limit of 0 is none")
            .exchange("a", start(5, 1))
            .exchange("b", start(6, 10))
            .send("c", only(7, 100).timeout_ms(0))
            .quiet(400)
            .exchange("a", end(5, 2))
            .take("c", 1)
            .statistics(),
    ]
}
