//! Clients that cancel or vanish.
//!
//! What is cancelled in the backlog is noticed when a slot is freed, and in a slot when its next step would be dispatched. What else is cancelled with it comes back on a stream as a response
//! without outputs and without an error's text, because the status CANCELLED has none.

use crate::{
    conversation::{Conversation, Opening, conversation},
    setup::Setup,
    step::{end, only, start, step},
};

pub(crate) fn conversations() -> Vec<Conversation> {
    let two = super::both()
        .into_iter()
        .flat_map(|(kind, setup)| [idle(kind, setup), queued(kind, setup), behind_another(kind, setup)].concat());
    let backlog = super::both().into_iter().flat_map(|(kind, setup)| in_backlog(kind, setup));
    let one = super::both_with_one_slot().into_iter().flat_map(|(kind, setup)| with_one_slot(kind, setup));
    let lost = super::both().into_iter().map(|(kind, setup)| lost_slot(kind, setup));
    two.chain(backlog).chain(one).chain(lost).collect()
}

fn idle(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about, setup| conversation(format!("{what}-{kind}"), about, setup);
    vec![
        begin("cancel-idle-stream", "a stream with nothing under way is cancelled: its sequence lives on", setup())
            .exchange("a", start(5, 1))
            .cancel("a")
            .pause(200)
            .exchange("b", step(5, 2))
            .exchange("b", end(5, 3))
            .statistics(),
        begin(
            "disconnect-idle-stream",
            "a client vanishes: its sequence lives until the idle limit",
            setup().idle_ms(1000),
        )
        .open("a", Opening::Proxied)
        .exchange("a", start(5, 1))
        .disconnect("a")
        .pause(300)
        .exchange("b", step(5, 2))
        .pause(1600)
        .exchange("b", step(5, 3))
        .statistics(),
    ]
}

fn queued(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| conversation(format!("{what}-{kind}"), about, setup().execute_ms(500));
    let four = || [step(5, 2), step(5, 4), step(5, 8), step(5, 16)];
    vec![
        begin(
            "cancel-in-slot",
            "a stream is cancelled: its dispatched step is done, its queued ones are not, the slot is free",
        )
        .exchange("a", start(5, 1))
        .send_all("b", four())
        .cancel("b")
        .pause(1200)
        .exchange("a", step(5, 100))
        .exchange("a", only(5, 7))
        .statistics(),
        begin("disconnect-in-slot", "a client vanishes with steps queued: as if it had cancelled")
            .open("b", Opening::Proxied)
            .exchange("b", start(5, 1))
            .send_all("b", four())
            .disconnect("b")
            .pause(1200)
            .exchange("a", step(5, 100))
            .exchange("a", only(5, 7))
            .statistics(),
        begin(
            "cancel-peers",
            "a cancelled step is first in the queue: all of its sequence is cancelled, other streams' steps too",
        )
        .send("a", start(5, 1))
        .send_all("b", [step(5, 2), step(5, 4)])
        .send("a", step(5, 8))
        .cancel("b")
        .take("a", 2)
        .exchange("a", step(5, 100))
        .statistics(),
        begin("cancel-behind", "cancelled steps that are not first are noticed when they are")
            .send_all("a", [start(5, 1), step(5, 2)])
            .send("b", step(5, 16))
            .send("a", step(5, 32))
            .cancel("b")
            .take("a", 3)
            .exchange("a", end(5, 64))
            .statistics(),
        begin("cancel-unary", "a unary call that executes is cancelled, and one that is queued")
            .call("u", start(5, 1))
            .call("v", step(5, 2))
            .call("w", step(5, 4))
            .cancel("u")
            .cancel("w")
            .take("v", 1)
            .pause(200)
            .exchange("a", step(5, 100))
            .statistics(),
    ]
}

/// What a cancelled step leaves behind that is first in its slot's queue while another sequence's step executes.
fn behind_another(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| conversation(format!("{what}-{kind}"), about, setup().execute_ms(500));
    vec![
        begin(
            "cancel-behind-another",
            "a stream is cancelled while its START and another step wait for another sequence's execution",
        )
        .send("a", start(5, 1))
        .send_all("b", [start(6, 10), step(6, 20)])
        .cancel("b")
        .take("a", 1)
        .pause(1300)
        .exchange("d", step(6, 40))
        .exchange("a", end(5, 2))
        .statistics(),
        begin(
            "cancel-behind-another-end",
            "a stream is cancelled whose END waits for another sequence's execution: its slot is free",
        )
        .exchange("b", start(6, 10))
        .send("a", start(5, 1))
        .send("b", end(6, 20))
        .send("c", only(7, 100))
        .cancel("b")
        .take("a", 1)
        .take("c", 1)
        .exchange("d", step(6, 40))
        .exchange("d", only(8, 1))
        .statistics(),
    ]
}

/// With both slots taken, by 5 and 6.
fn full(name: String, about: &'static str, setup: Setup) -> Conversation {
    conversation(name, about, setup).exchange("a", start(5, 1)).exchange("b", start(6, 10))
}

/// Lets more than the idle limit of 1300 ms pass in which 5 and 6 stay alive.
fn kept_alive(it: Conversation) -> Conversation {
    (0..4).fold(it, |it, _| it.pause(200).exchange("a", step(5, 0)).exchange("b", step(6, 0))).quiet(100)
}

fn in_backlog(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| full(format!("{what}-{kind}"), about, setup());
    vec![
        kept_alive(
            full(
                format!("cancel-in-backlog-{kind}"),
                "a waiting sequence is cancelled with its stream: it is noticed when a slot is freed, with what came later",
                setup().idle_ms(1300),
            )
            .send_all("c", [start(7, 100), step(7, 200)])
            .send("d", only(8, 1000))
            .cancel("c")
            .send("e", step(7, 400)),
        )
        .exchange("a", end(5, 2))
        .take("e", 1)
        .take("d", 1)
        .exchange("e", step(7, 800))
        .exchange("b", end(6, 20))
        .statistics(),
        begin("cancel-backlog-peers", "one of a waiting sequence's three streams is cancelled: all of it is")
            .send("c", start(7, 100))
            .send("d", step(7, 200))
            .send("e", step(7, 400))
            .cancel("d")
            .quiet(200)
            .exchange("a", end(5, 2))
            .take("c", 1)
            .take("e", 1)
            .exchange("c", only(7, 1))
            .exchange("b", end(6, 20))
            .statistics(),
        begin("cancel-backlog-unary", "a waiting unary START is cancelled")
            .call("c", start(7, 100))
            .call("d", step(7, 200))
            .cancel("c")
            .quiet(200)
            .exchange("a", end(5, 2))
            .take("d", 1)
            .exchange("b", end(6, 20))
            .exchange("a", only(7, 9))
            .statistics(),
        begin("cancel-backlog-restarted", "a START of a waiting, cancelled sequence's ID is cancelled with it")
            .send("c", start(7, 100))
            .cancel("c")
            .send_all("d", [start(7, 1), end(7, 2)])
            .send("e", only(8, 1000))
            .quiet(200)
            .exchange("a", end(5, 2))
            .take("d", 2)
            .take("e", 1)
            .exchange("b", end(6, 20))
            .exchange("d", only(7, 3))
            .statistics(),
        begin("disconnect-in-backlog", "a client vanishes while its sequence waits")
            .open("c", Opening::Proxied)
            .send_all("c", [start(7, 100), end(7, 200)])
            .send("d", only(8, 1000))
            .disconnect("c")
            .quiet(200)
            .exchange("a", end(5, 2))
            .take("d", 1)
            .exchange("b", end(6, 20))
            .statistics(),
    ]
}

fn with_one_slot(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| conversation(format!("{what}-{kind}"), about, setup().execute_ms(500));
    vec![
        begin("cancel-for-the-backlog", "a stream with an END queued is cancelled: who waits gets the slot")
            .send_all("b", [start(5, 1), step(5, 2), step(5, 4), end(5, 8)])
            .send("c", only(7, 100))
            .cancel("b")
            .take("c", 1)
            .exchange("c", only(5, 9))
            .statistics(),
        begin("cancel-without-end", "a stream without END is cancelled with steps queued: who waits gets the slot")
            .send_all("b", [start(5, 1), step(5, 2), step(5, 4)])
            .send("c", only(7, 100))
            .cancel("b")
            .take("c", 1)
            .exchange("c", step(5, 9))
            .statistics(),
        begin("cancel-dispatched-end", "a stream is cancelled while its END executes: it is done, the slot is free")
            .exchange("b", start(5, 1))
            .send("b", end(5, 2))
            .send("c", only(7, 100))
            .cancel("b")
            .take("c", 1)
            .exchange("c", step(5, 9))
            .statistics(),
    ]
}

/// The real server forgets the ID of a cancelled sequence without a look at which sequence has it by now: the newer one gets
/// the START error, and its slot is lost, past the idle limit too.
fn lost_slot(kind: &str, setup: fn() -> Setup) -> Conversation {
    let about = "a stream with an END queued is cancelled, and the ID is started anew before that is noticed";
    conversation(format!("cancel-then-same-id-{kind}"), about, setup().execute_ms(500).idle_ms(1500))
        .send_all("b", [start(5, 1), step(5, 2), end(5, 4)])
        .cancel("b")
        .exchange("d", start(5, 100))
        .pause(200)
        .exchange("d", step(5, 200))
        .pause(2000)
        .exchange("d", start(8, 1))
        .send("e", start(9, 1))
        .quiet(700)
        .exchange("d", end(8, 2))
        .take("e", 1)
        .statistics()
}
