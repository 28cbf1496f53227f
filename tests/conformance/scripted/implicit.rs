//! State that the server keeps for the model, by slot: when it is there, whose it is, and when it begins anew.

use super::NO_STATE;
use crate::{
    conversation::{Conversation, Opening, Query, conversation},
    setup::{Setup, State},
    step::{end, only, start, step},
};

pub(crate) fn conversations() -> Vec<Conversation> {
    let kinds: [super::Kind; 4] = [
        ("direct", || Setup::implicit().batch(2)),
        ("oldest", || Setup::implicit_oldest().batch(2).candidates(2)),
        ("direct-zero", || Setup::implicit().batch(2).state(State::Zero)),
        ("oldest-zero", || Setup::implicit_oldest().batch(2).candidates(2).state(State::Zero)),
    ];
    let mut all: Vec<_> = kinds.iter().flat_map(|(kind, setup)| sequences(kind, *setup)).collect();
    // Nothing but the beginning differs between the kinds of state, and waiting takes time.
    all.extend(kinds[..2].iter().flat_map(|(kind, setup)| [slots(kind, *setup), losses(kind, *setup)].concat()));
    all.extend(kinds[2..].iter().map(|(kind, setup)| error_at_start(kind, setup())));
    all.extend([
        no_batch("direct", Setup::implicit().batch(0)),
        no_batch("oldest", Setup::implicit_oldest().batch(0).candidates(1)),
        one_buffer("direct", Setup::implicit().batch(2).state(State::OneBuffer)),
        one_buffer("oldest", Setup::implicit_oldest().batch(2).candidates(2).state(State::OneBuffer)),
        gaps(),
        candidates_above_batch(),
        instances("direct", Setup::implicit().batch(2).instances(2)),
        instances("oldest", Setup::implicit_oldest().batch(2).candidates(2).instances(2)),
        instance_added(),
        reload(),
        shapes(),
    ]);
    all.into_iter().map(|conversation| conversation.on_python(NO_STATE)).collect()
}

fn sequences(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| conversation(format!("{what}-{kind}"), about, setup());
    vec![
        begin("simple", "a sequence step by step, then one all at once, by numbers and by texts")
            .exchange("a", start(5, 1))
            .exchange("a", step(5, 2))
            .infer(step(5, 4))
            .exchange("b", end(5, 8))
            .exchange("a", step(5, 16))
            .send_all("a", [start("5", 10), step("5", 20), end("5", 40)])
            .take("a", 3)
            .exchange("a", only(7, i32::MAX))
            .statistics(),
        begin("restart", "a live ID is started again: step by step, and all at once")
            .exchange("a", start(5, 1))
            .exchange("a", step(5, 2))
            .exchange("a", start(5, 30))
            .exchange("a", end(5, 40))
            .send_all("a", [start(6, 1), step(6, 2), start(6, 30), step(6, 40), only(6, 500)])
            .take("a", 5)
            .statistics(),
        begin(
            "reuse-pipelined",
            "an ID is used again before its END is answered: two sequences, each with its own state",
        )
        .send_all("a", [start(5, 1), step(5, 2), end(5, 4), start(5, 10), step(5, 20), end(5, 40)])
        .take("a", 6)
        .send_all("a", [only(5, 1), only(5, 2), only(5, 4), start(5, 8)])
        .take("a", 4)
        .exchange("b", end(5, 16))
        .counts(),
        conversation(
            format!("error-{kind}"),
            "a step that the model answers with an error changes nothing",
            setup().error_on_value(13),
        )
        .exchange("a", start(5, 1))
        .exchange("b", start(6, 100))
        .exchange("a", step(5, 13))
        .exchange("a", step(5, 2))
        .exchange("b", step(6, 13))
        .infer(step(6, 13))
        .exchange("b", step(6, 200))
        .exchange("a", end(5, 13))
        .exchange("a", start(7, 13))
        .exchange("a", only(7, 4))
        .exchange("b", end(6, 400))
        .statistics(),
    ]
}

/// Without a beginning that is defined there would be nothing to expect of the step behind the error.
fn error_at_start(kind: &str, setup: Setup) -> Conversation {
    let about = "START is answered with an error: the sequence is there all the same, with the state of the beginning";
    conversation(format!("error-at-start-{kind}"), about, setup.error_on_value(13))
        .exchange("a", start(5, 100))
        .exchange("a", end(5, 200))
        .exchange("a", start(6, 13))
        .exchange("a", step(6, 4))
        .exchange("a", start(6, 13))
        .exchange("a", end(6, 8))
        .statistics()
}

fn slots(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about| conversation(format!("{what}-{kind}"), about, setup());
    vec![
        begin("backlog", "a sequence that waited finds nothing of the one whose slot it gets")
            .exchange("a", start(5, 1))
            .exchange("b", start(6, 10))
            .send_all("c", [start(7, 100), step(7, 200)])
            .quiet(200)
            .exchange("a", end(5, 2))
            .take("c", 2)
            .exchange("b", step(6, 20))
            .exchange("c", end(7, 400))
            .exchange("b", end(6, 40))
            .statistics(),
        begin("in-turn", "two sequences step in turn, one of them with pauses")
            .exchange("a", start(5, 1))
            .exchange("b", start(6, 10))
            .exchange("b", step(6, 20))
            .exchange("b", step(6, 40))
            .exchange("a", step(5, 2))
            .exchange("b", end(6, 80))
            .exchange("a", step(5, 4))
            .exchange("b", start(6, 100))
            .exchange("a", end(5, 8))
            .exchange("b", end(6, 200))
            .statistics(),
    ]
}

fn losses(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let begin = |what: &str, about, setup| conversation(format!("{what}-{kind}"), about, setup);
    let four = || [step(5, 2), step(5, 4), step(5, 8), step(5, 16)];
    vec![
        begin("idle", "a sequence is reaped, and its ID and its slot are taken again", setup().idle_ms(600))
            .exchange("a", start(5, 1))
            .exchange("a", step(5, 2))
            .pause(1200)
            .exchange("a", step(5, 4))
            .exchange("a", start(5, 100))
            .exchange("b", start(6, 1000))
            .exchange("a", end(5, 200))
            .exchange("b", end(6, 2000))
            .statistics(),
        begin(
            "idle-while-executing",
            "a sequence is reaped with steps queued: they go on from its state, and START does not",
            setup().idle_ms(400).execute_ms(400),
        )
        .send_all("a", [start(5, 1), step(5, 2), step(5, 4), step(5, 8)])
        .pause(1000)
        .send("b", start(5, 100))
        .take("a", 4)
        .take("b", 1)
        .counts(),
        begin(
            "cancel-in-slot",
            "a stream is cancelled with steps queued: what comes next begins anew",
            setup().execute_ms(500),
        )
        .exchange("b", start(5, 1))
        .send_all("b", four())
        .cancel("b")
        .pause(1200)
        .exchange("a", step(5, 100))
        .exchange("a", start(5, 7))
        .exchange("a", start(6, 70))
        .exchange("a", end(5, 7))
        .statistics(),
        begin(
            "cancel-behind",
            "cancelled steps of another stream are first in the queue: with them goes all that is queued",
            setup().execute_ms(500),
        )
        .send_all("a", [start(5, 1), step(5, 2)])
        .send("b", step(5, 16))
        .send("a", step(5, 32))
        .cancel("b")
        .take("a", 3)
        .exchange("a", end(5, 64))
        .exchange("a", only(6, 64))
        .statistics(),
        begin("disconnect", "a client vanishes, and another one goes on with its sequence", setup())
            .open("a", Opening::Proxied)
            .exchange("a", start(5, 1))
            .exchange("a", step(5, 2))
            .disconnect("a")
            .pause(200)
            .exchange("b", step(5, 4))
            .exchange("b", end(5, 8))
            .statistics(),
    ]
}

fn no_batch(kind: &str, setup: Setup) -> Conversation {
    conversation(format!("nobatch-{kind}"), "a model without batching: tensors and state have no batch size", setup)
        .exchange("a", start(5, 1))
        .send_all("b", [start(6, 10), step(6, 20), end(6, 40)])
        .exchange("a", step(5, 2))
        .quiet(200)
        .exchange("a", end(5, 4))
        .take("b", 3)
        .exchange("a", step(5, 8))
        .statistics()
}

fn one_buffer(kind: &str, setup: Setup) -> Conversation {
    let about = "what is read and what is written is in one buffer";
    conversation(format!("one-buffer-{kind}"), about, setup.error_on_value(13))
        .exchange("a", start(5, 1))
        .exchange("b", start(6, 10))
        .exchange("a", step(5, 2))
        .exchange("a", step(5, 13))
        .send_all("b", [step(6, 20), end(6, 40), start(6, 100), step(6, 200)])
        .take("b", 4)
        .exchange("a", end(5, 4))
        .exchange("b", start(6, 1))
        .exchange("b", end(6, 2))
        .counts()
}

/// Which sequences have no step in a batch shows in the batch sizes: they are padded, and READY is 0.
fn gaps() -> Conversation {
    let about = "batches in which slots are idle, first and in the middle, change no state";
    conversation("gaps", about, Setup::implicit())
        .exchange("a", start(5, 1))
        .exchange("b", start(6, 10))
        .exchange("c", start(7, 100))
        .exchange("d", start(8, 1000))
        .exchange("d", step(8, 2000))
        .exchange("d", step(8, 4000))
        .exchange("b", step(6, 20))
        .exchange("a", step(5, 2))
        .exchange("c", step(7, 200))
        .exchange("b", end(6, 40))
        .exchange("d", step(8, 8000))
        .exchange("a", end(5, 4))
        .exchange("c", end(7, 400))
        .exchange("d", end(8, 16_000))
        .statistics()
}

fn candidates_above_batch() -> Conversation {
    let about = "four candidates on batches of two: where in a batch a sequence stands varies, its state does not";
    let setup = Setup::implicit_oldest().batch(2).candidates(4).execute_ms(100);
    let begun = conversation("candidates-above-batch", about, setup);
    let sequence =
        |id: i64, value: i32| [start(id, value), step(id, 2 * value), step(id, 4 * value), end(id, 8 * value)];
    let four = [("a", 5, 1), ("b", 6, 100), ("c", 7, 10_000), ("d", 8, 1_000_000)];
    let sent = four.into_iter().fold(begun, |it, (link, id, value)| it.send_all(link, sequence(id, value)));
    four.into_iter().fold(sent, |it, (link, ..)| it.take(link, 4)).counts()
}

fn instances(kind: &str, setup: Setup) -> Conversation {
    let about = "four sequences on two instances of two slots, in turn, and a fifth one that waits";
    let four = [("a", 5, 1), ("b", 6, 100), ("c", 7, 10_000), ("d", 8, 1_000_000)];
    let round = |it, factor| {
        four.into_iter().fold(it, |it: Conversation, (link, id, v)| it.exchange(link, step(id, factor * v)))
    };
    let begun = conversation(format!("instances-{kind}"), about, setup);
    let begun = four.into_iter().fold(begun, |it, (link, id, value)| it.exchange(link, start(id, value)));
    round(round(begun, 2), 4)
        .send_all("e", [start(9, 1), step(9, 2)])
        .quiet(200)
        .exchange("c", end(7, 80_000))
        .take("e", 2)
        .exchange("a", end(5, 8))
        .exchange("e", end(9, 4))
        .exchange("b", end(6, 800))
        .exchange("d", end(8, 8_000_000))
        .statistics()
}

fn instance_added() -> Conversation {
    let setup = || Setup::implicit().batch(1);
    let about = "a model gets a second instance: live sequences go on from their states";
    conversation("instance-added", about, setup())
        .exchange("a", start(5, 1))
        .ask(Query::Load(Box::new(setup().instances(2))))
        .exchange("a", step(5, 2))
        .exchange("b", start(6, 10))
        .exchange("a", step(5, 4))
        .exchange("b", end(6, 20))
        .exchange("a", end(5, 8))
        .statistics()
}

fn reload() -> Conversation {
    let setup = || Setup::implicit().batch(2);
    conversation("reload", "a model is loaded as it is, then with another batch size: state stays, then goes", setup())
        .exchange("a", start(5, 1))
        .ask(Query::Load(Box::new(setup())))
        .exchange("a", step(5, 2))
        .ask(Query::Load(Box::new(Setup::implicit())))
        .exchange("a", step(5, 4))
        .exchange("a", start(5, 8))
        .exchange("a", end(5, 16))
        .statistics()
}

fn shapes() -> Conversation {
    let about = "inputs that do not have the shape of the state are rejected";
    conversation("shapes", about, Setup::implicit())
        .exchange("a", start(5, 1))
        .exchange("a", step(5, 0).values(&[1, 2]))
        .exchange("a", step(5, 0).values(&[]).shape(&[1, 0]))
        .infer(step(5, 0).shape(&[1]))
        .exchange("a", step(5, 2).another_input("INPUT_STATE", 7))
        .exchange("a", step(5, 2).output("OUTPUT_STATE"))
        .exchange("a", end(5, 4))
        .statistics()
}
