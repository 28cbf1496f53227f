//! Models with two versions on disk: each version that is served has slots and sequences of its own.

use crate::{
    conversation::{By, Conversation, OnPython, Query, conversation},
    setup::{BY_SLOT, Policy, Setup},
    step::{end, only, start, step},
};

const NOT_WRITTEN: OnPython = OnPython::Not("the repository with two versions has native models only");

pub(crate) fn conversations() -> Vec<Conversation> {
    let kinds = super::both().into_iter().flat_map(|(kind, setup)| of_each(kind, setup));
    let slots = super::both_with_one_slot().into_iter().map(|(kind, setup)| slots_of_each(kind, setup));
    let others = [the_metadata(), one_after_the_other()];
    let policies = [
        ("latest", Policy::Latest(1)),
        ("latest-two", Policy::Latest(2)),
        ("specific", Policy::Specific(&[1])),
        ("missing", Policy::Specific(&[2, 7])),
        ("none", Policy::Specific(&[7])),
    ];
    let policies = policies.into_iter().map(|(name, policy)| of_policy(name, policy));
    let all = kinds.chain(slots).chain(others).chain(policies);
    all.map(|conversation| conversation.on_python(NOT_WRITTEN)).collect()
}

fn of_each(kind: &str, setup: fn() -> Setup) -> Vec<Conversation> {
    let about = "the same correlation ID in both versions at a time; a version that nobody named is the newest";
    let it = conversation(format!("both-{kind}"), about, setup().policy(Policy::All))
        .exchange("a", start(5, 1).version("1"))
        .exchange("b", start(5, 100).version("2"))
        .exchange("a", step(5, 2).version("1"))
        .exchange("b", step(5, 200))
        .exchange("a", end(5, 3).version("1"))
        .exchange("a", step(5, 4).version("1"))
        .exchange("b", end(5, 300).version("2"))
        .exchange("b", step(5, 400).version("2"))
        .exchange("b", only(5, 7).version("3"))
        .statistics();
    let about = "a sequence that goes on in the other version, where it never began";
    let elsewhere = conversation(format!("elsewhere-{kind}"), about, setup().policy(Policy::All))
        .exchange("a", start(5, 1).version("1"))
        .exchange("a", step(5, 2).version("2"))
        .exchange("a", end(5, 3))
        .exchange("a", end(5, 4).version("1"))
        .statistics();
    let by_calls = [By::Unary, By::Http].into_iter().filter_map(|by| it.clone().over(by)).collect();
    [vec![it, elsewhere], by_calls].concat()
}

fn slots_of_each(kind: &str, setup: fn() -> Setup) -> Conversation {
    let about = "the one slot of a version is taken; the other version has one of its own";
    conversation(format!("slots-{kind}"), about, setup().policy(Policy::All))
        .exchange("a", start(5, 1).version("1"))
        .send("b", start(6, 10).version("1"))
        .exchange("c", start(6, 100).version("2"))
        .quiet(200)
        .exchange("a", end(5, 2).version("1"))
        .take("b", 1)
        .exchange("c", end(6, 200).version("2"))
        .exchange("b", end(6, 20).version("1"))
        .statistics()
}

fn the_metadata() -> Conversation {
    let about = "what is told of a model with two versions";
    let mut asked = conversation("metadata", about, Setup::direct().policy(Policy::All));
    for version in ["", "1", "2", "3"] {
        asked = asked.ask(Query::ModelReady { model: BY_SLOT, version });
        asked = asked.ask(Query::ModelMetadata { model: BY_SLOT, version });
    }
    asked.ask(Query::Index { ready: true }).ask(Query::Index { ready: false })
}

fn one_after_the_other() -> Conversation {
    let about = "a version is unloaded by a new policy; the other's sequence goes on, and the version comes back without its own";
    let with = |policy| Query::Load(Box::new(Setup::direct().policy(policy)));
    conversation("one-after-the-other", about, Setup::direct().policy(Policy::All))
        .exchange("a", start(5, 1).version("1"))
        .exchange("b", start(5, 100).version("2"))
        .ask(with(Policy::Specific(&[2])))
        .exchange("a", step(5, 2).version("1"))
        .exchange("b", step(5, 200).version("2"))
        .ask(with(Policy::All))
        .exchange("a", step(5, 3).version("1"))
        .exchange("b", step(5, 300).version("2"))
        .exchange("a", only(6, 3).version("1"))
        .exchange("b", only(6, 4))
}

fn of_policy(name: &str, policy: Policy) -> Conversation {
    let about = "which of two versions a policy serves";
    // The server says otherwise of a version that was loaded before.
    conversation(format!("policy-{name}"), about, Setup::direct().policy(policy))
        .alone()
        .exchange("a", only(5, 1))
        .exchange("a", only(5, 2).version("1"))
        .exchange("a", only(5, 3).version("2"))
        .exchange("a", only(5, 4).version("7"))
        .ask(Query::ModelMetadata { model: BY_SLOT, version: "" })
        .ask(Query::Index { ready: false })
        .statistics()
}
