//! Inputs of all shapes, and inputs that are wrong.

use crate::{
    conversation::{Conversation, conversation},
    setup::{BY_SLOT, Setup},
    step::{Step, only, start, step},
};

pub(crate) fn conversations() -> Vec<Conversation> {
    let mut all = vec![shapes("direct", Setup::direct()), shapes("oldest", Setup::oldest())];
    all.extend([no_batch_shapes(), typed(), ragged(false), ragged(true), many_shapes()]);
    all.extend([bad("direct", Setup::direct()), bad("oldest", Setup::oldest()), bad_unary(), bad_keeps_sequence()]);
    all
}

fn shapes(kind: &str, setup: Setup) -> Conversation {
    let about = "steps of several elements: all are added, and every element of the answer is the sum";
    conversation(format!("shapes-{kind}"), about, setup)
        .exchange("a", start(5, 0).values(&[1, 2, 3]))
        .exchange("a", step(5, 0).values(&[4, 5]))
        .exchange("a", step(5, 6))
        .exchange("a", step(5, 0).values(&[]).shape(&[1, 0]))
        .exchange("a", only(6, 0).values(&[7, 8, 9, 10, 11, 12, 13, 14]))
        .statistics()
}

fn no_batch_shapes() -> Conversation {
    let about = "a model without batching takes shapes without a batch size";
    conversation("shapes-nobatch", about, Setup::direct().batch(0))
        .exchange("a", start(5, 0).values(&[1, 2, 3]))
        .exchange("a", step(5, 0).values(&[4, 5]).shape(&[1, 2]))
        .exchange("a", step(5, 6))
        .statistics()
}

fn typed() -> Conversation {
    let about = "elements in the tensor's own contents rather than in the raw ones";
    conversation("typed-contents", about, Setup::direct())
        .exchange("a", start(5, 0).typed(&[1, 2]))
        .exchange("a", step(5, 3))
        .exchange("a", step(5, 0).typed(&[4]))
        .infer(step(5, 0).typed(&[5]))
        .statistics()
}

/// Two sequences whose steps differ in shape, while a third one's execution lets them queue up.
fn ragged(is_allowed: bool) -> Conversation {
    let setup = Setup::direct().execute_ms(500);
    let (name, setup) = if is_allowed { ("ragged", setup.ragged()) } else { ("not-ragged", setup) };
    conversation(name, "sequences of unequal shapes at once: in one batch only where that is allowed", setup)
        .exchange("a", start(1, 1))
        .exchange("b", start(2, 0).values(&[1, 2]))
        .send("c", start(3, 1))
        .send("c", step(3, 2))
        .send("a", step(1, 10))
        .send("b", step(2, 0).values(&[10, 20]))
        .take("c", 2)
        .take("a", 1)
        .take("b", 1)
        .statistics()
}

fn many_shapes() -> Conversation {
    let about = "sequences of different shapes side by side";
    let mut it = conversation("many-shapes", about, Setup::dyna());
    for (link, id, width) in [("a", 11, 1), ("b", 12, 2), ("c", 13, 3), ("d", 14, 8)] {
        let values = |value: i32| vec![value; width];
        let last = Step::values(crate::step::end(id, 0), &values(3));
        it = it.send_all(link, [start(id, 0).values(&values(1)), step(id, 0).values(&values(2)), last]);
    }
    ["a", "b", "c", "d"].into_iter().fold(it, |it, link| it.take(link, 3)).statistics()
}

/// What is wrong with each of these is wrong with it alone.
fn wrong() -> Vec<Step> {
    let right = || start(5, 1);
    vec![
        right().datatype("FP32"),
        right().datatype("INT64"),
        right().datatype("NONE"),
        right().shape(&[1]),
        right().shape(&[1, 1, 1]),
        right().shape(&[1, -1]),
        right().shape(&[1, 2]),
        right().shape(&[]),
        right().bytes(&[1, 2, 3]).shape(&[1, 1]),
        right().bytes(&[1, 2, 3, 4, 5, 6, 7, 8]).shape(&[1, 1]),
        right().bytes(&[]).shape(&[1, 1]),
        right().no_contents(),
        right().no_inputs(),
        right().input_name("OTHER"),
        right().another_input("INPUT", 2),
        right().another_input("OTHER", 2),
        right().output("OTHER"),
        right().output("OUTPUT").output("OTHER"),
        right().model("nobody"),
        right().model(""),
        right().version("2"),
        right().version("one"),
    ]
}

fn bad(kind: &str, setup: Setup) -> Conversation {
    let begun = conversation(format!("bad-{kind}"), "requests that are wrong in one way each", setup);
    let asked = wrong().into_iter().fold(begun, |it, step| it.exchange("a", step));
    asked
        .exchange("a", start(5, 1).output("OUTPUT"))
        .exchange("a", step(5, 2).version("1"))
        .exchange("a", step(5, 3).output("OUTPUT").output("OUTPUT"))
        .statistics()
}

fn bad_unary() -> Conversation {
    let begun = conversation("bad-unary", "requests that are wrong in one way each, one by one", Setup::direct());
    wrong().into_iter().fold(begun, Conversation::infer).infer(start(5, 1)).statistics()
}

fn bad_keeps_sequence() -> Conversation {
    let about = "a wrong request in the middle leaves its sequence as it was";
    conversation("bad-in-the-middle", about, Setup::direct())
        .exchange("a", start(5, 1))
        .exchange("a", step(5, 2).datatype("FP32"))
        .exchange("a", step(5, 2).bytes(&[1, 2, 3]).shape(&[1, 1]))
        .exchange("a", step(5, 2).output("OTHER"))
        .exchange("a", step(5, 2).model(BY_SLOT).version("7"))
        .exchange("a", crate::step::end(5, 2).input_name("OTHER"))
        .exchange("a", step(5, 4))
        .statistics()
}
