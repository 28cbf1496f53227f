//! Models of other data types than INT32.

use crate::{
    conversation::{By, Conversation, conversation},
    scripted::NO_STATE,
    setup::{Setup, State},
    step::{end, only, start, step},
};

/// A type, and the largest of its values, or one that shows how it is rounded.
const TYPES: [(&str, &str); 6] = [
    ("INT64", "9223372036854775807"),
    ("UINT32", "4294967295"),
    ("UINT64", "18446744073709551615"),
    ("FP32", "16777216"),
    ("FP64", "0.1"),
    ("BYTES", "2147483647"),
];

pub(crate) fn conversations() -> Vec<Conversation> {
    TYPES.into_iter().flat_map(|(datatype, largest)| of_type(datatype, largest)).collect()
}

fn of_type(datatype: &'static str, largest: &'static str) -> Vec<Conversation> {
    let begin = |kind: &str, setup: Setup| {
        let about = "sequences of a type, in turn, and beyond its largest value; then a request of another type";
        said(conversation(format!("{}-{kind}", datatype.to_lowercase()), about, setup.of_type(datatype)), largest)
    };
    let kinds = [
        ("direct", Setup::direct()),
        ("oldest", Setup::oldest()),
        ("implicit", Setup::implicit().state(State::Zero)),
        ("implicit-oldest", Setup::implicit_oldest().state(State::Zero)),
    ];
    let mut all: Vec<_> = kinds
        .into_iter()
        .map(|(kind, setup)| {
            let has_state = kind.starts_with("implicit");
            let it = begin(kind, setup);
            if has_state { it.on_python(NO_STATE) } else { it }
        })
        .collect();
    for by in [By::Unary, By::Http, By::HttpBinary] {
        all.extend(begin("direct", Setup::direct()).over(by));
    }
    all
}

fn said(it: Conversation, largest: &'static str) -> Conversation {
    it.exchange("a", start(5, 1))
        .exchange("b", start(6, 100))
        .exchange("a", step(5, 2))
        .exchange("b", end(6, 200))
        .exchange("a", end(5, 3))
        .exchange("a", start(7, 0).elements(&[largest]))
        .exchange("a", step(7, 1))
        .exchange("a", end(7, 5))
        .exchange("a", only(8, 9).datatype("INT32"))
        .exchange("a", step(7, 1))
        .statistics()
}
