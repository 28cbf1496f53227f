//! Exact batches: the server's environment holds executions back until all that is to come is there.

use super::NO_STATE;
use crate::{
    conversation::{Conversation, Link, conversation},
    setup::{Setup, State},
    step::{Step, end, only, start, step},
};

const LINKS: [Link; 6] = ["a", "b", "c", "d", "e", "f"];

/// A whole sequence of this length.
fn sequence(id: i64, length: usize) -> Vec<Step> {
    let value = |index: usize| i32::try_from((index + 1) * 10).expect("short") + i32::try_from(id).expect("small");
    (0..length)
        .map(|index| match (index == 0, index + 1 == length) {
            (true, true) => only(id, value(index)),
            (true, false) => start(id, value(index)),
            (false, true) => end(id, value(index)),
            (false, false) => step(id, value(index)),
        })
        .collect()
}

/// Sequences of these lengths, each on its own stream, begun in this order.
fn side_by_side(name: &str, about: &'static str, setup: Setup, lengths: &[usize]) -> Conversation {
    let mut it = conversation(name, about, setup);
    for (index, (link, length)) in LINKS.into_iter().zip(lengths).enumerate() {
        it = it.send_all(link, sequence(i64::try_from(index).expect("few") + 1, *length));
    }
    for (link, length) in LINKS.into_iter().zip(lengths) {
        it = it.take(link, *length);
    }
    it.statistics()
}

/// With eight requests in slots before anything runs.
pub(crate) fn eight() -> Vec<Conversation> {
    let four = Setup::direct;
    vec![
        side_by_side("half", "two sequences on four slots", four(), &[4, 4]),
        side_by_side("full", "four sequences on four slots", four(), &[2, 2, 2, 2]),
        side_by_side("unequal", "sequences of 1, 1, 2 and 4 steps", four(), &[1, 1, 2, 4]),
        side_by_side("longest-first", "sequences of 4, 2, 1 and 1 steps", four(), &[4, 2, 1, 1]),
        side_by_side("one-alone", "one sequence", four(), &[8]),
        side_by_side("batch-of-one", "one slot", four().batch(1), &[8]),
        side_by_side("utilization-full", "all slots have to be ready", four().utilization(400, 1.0), &[2, 2, 2, 2]),
        side_by_side(
            "utilization-unequal",
            "all slots have to be ready, and soon cannot",
            four().utilization(400, 1.0),
            &[1, 1, 2, 4],
        ),
        side_by_side(
            "utilization-half",
            "half the slots have to be ready",
            four().utilization(400, 0.5),
            &[1, 1, 2, 4],
        ),
        skipped("skipped", Setup::direct()),
        no_end_then_start("no-end-then-start", Setup::direct()),
        skipped("implicit-skipped", Setup::implicit()).on_python(NO_STATE),
        no_end_then_start("implicit-no-end-then-start", Setup::implicit()).on_python(NO_STATE),
        implicit("implicit-full", Setup::implicit(), &[2, 2, 2, 2]),
        implicit("implicit-unequal", Setup::implicit().state(State::Zero), &[1, 1, 2, 4]),
        implicit("implicit-longest-first", Setup::implicit().state(State::OneBuffer), &[4, 2, 1, 1]),
    ]
}

fn implicit(name: &str, setup: Setup, lengths: &[usize]) -> Conversation {
    side_by_side(name, "side by side, with state that the server keeps", setup, lengths).on_python(NO_STATE)
}

/// Two sequences have steps in the first and the last batch, two in all.
fn skipped(name: &str, setup: Setup) -> Conversation {
    conversation(name, "sequences that are not in every batch", setup)
        .send_all("a", [start(1, 1), end(1, 3)])
        .send_all("b", [start(2, 11), step(2, 12), end(2, 13)])
        .send_all("c", [start(3, 111)])
        .send_all("d", [start(4, 1111), step(4, 1112)])
        .take("a", 2)
        .take("b", 3)
        .take("c", 1)
        .take("d", 2)
        .statistics()
}

fn no_end_then_start(name: &str, setup: Setup) -> Conversation {
    conversation(name, "an ID is started again without END, beside another", setup)
        .send_all("a", [start(1, 1), step(1, 2), start(1, 30), end(1, 40)])
        .send_all("b", sequence(2, 4))
        .take("a", 4)
        .take("b", 4)
        .statistics()
}

/// With eight requests in slots, and two in the backlog, before anything runs.
pub(crate) fn eight_and_two() -> Vec<Conversation> {
    vec![
        side_by_side("backlog", "a fifth sequence on four slots", Setup::direct(), &[2, 2, 2, 2, 2]),
        side_by_side(
            "backlog-fill",
            "two short ones end, two from the backlog step in",
            Setup::direct(),
            &[1, 3, 1, 3, 1, 1],
        ),
        side_by_side("backlog-long", "a short one ends, a waiting one steps in", Setup::direct(), &[1, 2, 2, 3, 2]),
        backlog_fill_without_end(),
        same_id_ended(),
        same_id_not_ended(),
    ]
}

fn backlog_fill_without_end() -> Conversation {
    conversation("backlog-fill-no-end", "a waiting sequence steps in before its END has come", Setup::direct())
        .send_all("a", sequence(1, 1))
        .send_all("b", sequence(2, 3))
        .send_all("c", sequence(3, 1))
        .send_all("d", sequence(4, 3))
        .send_all("e", [start(5, 1)])
        .send_all("f", [start(6, 1)])
        .take("a", 1)
        .take("b", 3)
        .take("c", 1)
        .take("d", 3)
        .take("e", 1)
        .take("f", 1)
        .exchange("e", step(5, 2))
        .exchange("f", end(6, 2))
        .exchange("e", end(5, 3))
        .statistics()
}

fn same_id_ended() -> Conversation {
    let about = "a fifth sequence has the ID of one that is queued and ended";
    conversation("backlog-same-id-ended", about, Setup::direct())
        .send_all("a", sequence(1, 2))
        .send_all("b", sequence(2, 2))
        .send_all("c", sequence(3, 2))
        .send_all("d", sequence(4, 2))
        .send_all("e", [start(2, 1000), end(2, 2000)])
        .take("a", 2)
        .take("b", 2)
        .take("c", 2)
        .take("d", 2)
        .take("e", 2)
        .statistics()
}

fn same_id_not_ended() -> Conversation {
    let about = "in the backlog an ID is used again without END";
    conversation("backlog-same-id-not-ended", about, Setup::direct())
        .send_all("a", sequence(1, 2))
        .send_all("b", sequence(2, 2))
        .send_all("c", sequence(3, 2))
        .send_all("d", sequence(4, 2))
        .send_all("e", [start(5, 1), start(5, 1000), end(5, 2000)])
        .take("a", 2)
        .take("b", 2)
        .take("c", 2)
        .take("d", 2)
        .take("e", 3)
        .statistics()
}

/// As [`side_by_side`], without executions: under Oldest each step is handed over when the one before is done, and how many
/// of them go together depends on how fast that is.
fn sums(name: &str, about: &'static str, setup: Setup, lengths: &[usize]) -> Conversation {
    let mut it = side_by_side(name, about, setup, lengths);
    it.actions.pop();
    it.counts()
}

/// The first steps of four sequences, which wait together and so go together; then their ENDs, one by one.
fn together(name: &str, about: &'static str, setup: Setup) -> Conversation {
    let four = || LINKS.into_iter().zip(1_i64..=4);
    let begun = conversation(name, about, setup);
    let sent = four().fold(begun, |it, (link, id)| it.send(link, start(id, 10)));
    let taken = four().fold(sent, |it, (link, _)| it.take(link, 1)).statistics();
    four().fold(taken, |it, (link, id)| it.exchange(link, end(id, 20))).statistics()
}

/// With four requests in Oldest's dynamic batcher before anything runs: four sequences of two steps and more, because an END
/// that is dispatched gives its slot on, and who gets it waits until the END is done.
pub(crate) fn four() -> Vec<Conversation> {
    let oldest = Setup::oldest;
    vec![
        together("oldest-full", "four sequences, four candidates", oldest()),
        together("oldest-halves", "four candidates, batches of two", oldest().batch(2)),
        together("oldest-eight", "four candidates, batches of up to eight", oldest().batch(8)),
        sums("oldest-unequal", "sequences of 2, 3, 4 and 5 steps", oldest(), &[2, 3, 4, 5]),
        sums("oldest-backlog", "two more sequences than candidates", oldest(), &[2; 6]),
        sums("oldest-dyna", "four sequences whose IDs show", Setup::dyna(), &[3, 3, 3, 3]),
        together("implicit-full", "four sequences with state that the server keeps", Setup::implicit_oldest())
            .on_python(NO_STATE),
        together("implicit-halves", "the same in batches of two", Setup::implicit_oldest().batch(2))
            .on_python(NO_STATE),
        sums("implicit-unequal", "and of unequal lengths", Setup::implicit_oldest().state(State::Zero), &[2, 3, 4, 5])
            .on_python(NO_STATE),
        side_by_side("direct-full", "Direct: four sequences of one step", Setup::direct(), &[1, 1, 1, 1]),
        side_by_side("direct-two", "Direct: two sequences of two steps", Setup::direct(), &[2, 2]),
    ]
}
