//! Clients that cancel or vanish.

use crate::{
    conversation::{Conversation, Opening, conversation},
    setup::Setup,
    step::{end, only, start, step},
};

pub(crate) fn conversations() -> Vec<Conversation> {
    super::both()
        .into_iter()
        .flat_map(|(kind, setup)| [in_slot(kind, setup), in_backlog(kind, setup)].concat())
        .collect()
}

fn in_slot(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about, setup| conversation(format!("{what}-{kind}"), about, setup);
    vec![
        begin("cancel-idle-stream", "a stream with nothing under way is cancelled: its sequence lives on", setup())
            .exchange("a", start(5, 1))
            .cancel("a")
            .pause(300)
            .exchange("b", step(5, 2))
            .exchange("b", end(5, 3))
            .statistics(),
        begin(
            "disconnect-idle-stream",
            "a client that vanishes leaves its sequence until the idle limit",
            setup().idle_ms(1500),
        )
        .open("a", Opening::Proxied)
        .exchange("a", start(5, 1))
        .disconnect("a")
        .pause(300)
        .exchange("b", step(5, 2))
        .pause(2200)
        .exchange("b", step(5, 3))
        .statistics(),
        begin(
            "cancel-in-slot",
            "steps queued in a slot are cancelled with their stream, the dispatched one is not",
            setup().execute_ms(600),
        )
        .exchange("a", start(5, 1))
        .send_all("b", [step(5, 2), step(5, 4), step(5, 8), step(5, 16)])
        .pause(200)
        .cancel("b")
        .pause(2500)
        .exchange("a", step(5, 100))
        .exchange("a", only(5, 7))
        .statistics(),
        begin(
            "cancel-peers",
            "steps of another stream behind a cancelled one of their sequence",
            setup().execute_ms(600),
        )
        .send("a", start(5, 1))
        .send_all("b", [step(5, 2), step(5, 4)])
        .send("a", step(5, 8))
        .pause(100)
        .cancel("b")
        .take("a", 2)
        .pause(1500)
        .exchange("a", step(5, 100))
        .statistics(),
        begin("cancel-behind", "a cancelled step behind one that is not", setup().execute_ms(600))
            .send_all("a", [start(5, 1), step(5, 2), step(5, 4), step(5, 8)])
            .send("b", step(5, 16))
            .send("a", step(5, 32))
            .pause(100)
            .cancel("b")
            .take("a", 5)
            .pause(300)
            .exchange("a", end(5, 64))
            .statistics(),
        begin(
            "cancel-with-end",
            "a cancelled stream's END is queued: who waits gets the slot, the ID begins anew",
            setup().batch(1).execute_ms(500),
        )
        .exchange("a", start(6, 1))
        .send_all("b", [start(5, 1), step(5, 2), step(5, 4), end(5, 8)])
        .send("c", only(7, 100))
        .cancel("b")
        .take("c", 1)
        .pause(1000)
        .exchange("a", step(6, 2))
        .exchange("c", only(5, 9))
        .statistics(),
        begin("disconnect-in-slot", "a client that vanishes with steps queued", setup().execute_ms(600))
            .open("b", Opening::Proxied)
            .exchange("b", start(5, 1))
            .send_all("b", [step(5, 2), step(5, 4), step(5, 8), step(5, 16)])
            .pause(200)
            .disconnect("b")
            .pause(2500)
            .exchange("a", step(5, 100))
            .exchange("a", only(5, 7))
            .statistics(),
        begin(
            "cancel-unary",
            "a unary call is cancelled while it executes, and one while it is queued",
            setup().execute_ms(600),
        )
        .call("u", start(5, 1))
        .call("v", step(5, 2))
        .call("w", step(5, 4))
        .cancel("w")
        .take("u", 1)
        .take("v", 1)
        .pause(1200)
        .exchange("a", step(5, 100))
        .statistics(),
    ]
}

fn in_backlog(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let full = |what: &str, about, setup: Setup| {
        conversation(format!("{what}-{kind}"), about, setup).exchange("a", start(5, 1)).exchange("b", start(6, 10))
    };
    vec![
        full(
            "cancel-in-backlog",
            "a waiting sequence is cancelled with its stream: the slot goes to the next",
            setup(),
        )
        .send_all("c", [start(7, 100), step(7, 200)])
        .send("d", only(8, 1000))
        .cancel("c")
        .quiet(500)
        .exchange("e", step(7, 400))
        .exchange("a", end(5, 2))
        .take("d", 1)
        .exchange("b", end(6, 20))
        .statistics(),
        full("cancel-backlog-peers", "one of a waiting sequence's two streams is cancelled: all of it is", setup())
            .send("c", start(7, 100))
            .send("d", step(7, 200))
            .send("e", step(7, 400))
            .pause(100)
            .cancel("d")
            .quiet(1000)
            .exchange("f", step(7, 800))
            .exchange("a", end(5, 2))
            .take("c", 1)
            .take("e", 1)
            .exchange("b", end(6, 20))
            .statistics(),
        full(
            "cancel-backlog-at-once",
            "when a cancelled sequence in the backlog is noticed: a START of its ID tells",
            setup(),
        )
        .send("c", start(7, 100))
        .pause(100)
        .cancel("c")
        .pause(100)
        .send_all("d", [start(7, 1), end(7, 2)])
        .pause(300)
        .exchange("a", end(5, 2))
        .take("d", 2)
        .exchange("b", end(6, 20))
        .statistics(),
        full("cancel-backlog-unary", "a waiting unary START is cancelled", setup())
            .call("c", start(7, 100))
            .call("d", step(7, 200))
            .pause(100)
            .cancel("c")
            .take("d", 1)
            .exchange("a", end(5, 2))
            .exchange("b", end(6, 20))
            .exchange("a", only(7, 9))
            .statistics(),
        full("disconnect-in-backlog", "a client vanishes while its sequence waits", setup())
            .open("c", Opening::Proxied)
            .send_all("c", [start(7, 100), end(7, 200)])
            .send("d", only(8, 1000))
            .pause(100)
            .disconnect("c")
            .quiet(500)
            .exchange("a", end(5, 2))
            .take("d", 1)
            .exchange("b", end(6, 20))
            .statistics(),
    ]
}
