//! Correlation IDs: numbers and strings, and the types in which a model may want them.

use wire::proto::infer_parameter::ParameterChoice::{BoolParam, DoubleParam, Int64Param, StringParam, Uint64Param};

use super::NO_TEXTS;
use crate::{
    conversation::{Conversation, conversation},
    setup::{DYNA, Setup},
    step::{SequenceId, end, only, start, step},
};

pub(crate) fn conversations() -> Vec<Conversation> {
    let mut all: Vec<Conversation> =
        ["TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32"].into_iter().map(types).collect();
    all.extend([texts(), texts_at_end(), text_as_number("direct"), text_as_number("oldest")]);
    all.extend([without_control(), lengths(), wrong_parameters(), ignored_parameters()]);
    all
}

/// Numbers only; see [`text_as_number`] for texts.
fn types(data_type: &'static str) -> Conversation {
    let name = format!("corrid-{}", data_type.trim_start_matches("TYPE_").to_lowercase());
    let begun = conversation(name, "IDs in the type that the model wants", Setup::dyna().corrid(data_type));
    let ids = [7, (1 << 32) + 7, i64::MAX, -7];
    let asked = ids
        .into_iter()
        .fold(begun, |it, id| it.exchange("a", start(id, 1)).exchange("a", step(id, 2)).exchange("a", end(id, 3)));
    asked.statistics()
}

/// Texts only: to a model that is told texts the real server gives of a number what lies in memory, not its digits.
fn texts() -> Conversation {
    let about = "a model that is told texts, with state by them: two sequences in turn, and the longest ID";
    let long = || "y".repeat(128);
    conversation("corrid-string", about, Setup::oldest().corrid("TYPE_STRING"))
        .exchange("a", start("seven", 1))
        .exchange("b", start("seven ", 100))
        .exchange("a", step("seven", 2))
        .exchange("b", step("seven ", 200))
        .exchange("c", start(long().as_str(), 1000))
        .exchange("a", end("seven", 3))
        .exchange("a", step("seven", 4))
        .exchange("b", end("seven ", 300))
        .exchange("c", end(long().as_str(), 2000))
        .exchange("a", only("séquence", 5))
        .exchange("a", start("seven", 6))
        .exchange("a", end("seven", 7))
        .statistics()
        .on_python(NO_TEXTS)
}

fn texts_at_end() -> Conversation {
    let about = "the formula adds the number that the text is, or nothing where it is none";
    let begun = conversation("corrid-string-dyna", about, Setup::dyna().corrid("TYPE_STRING"));
    ["7", "1000", "4294967303", "18446744073709551615", "seven", "7 ", "-7"]
        .into_iter()
        .fold(begun, |it, id| it.exchange("a", start(id, 1)).exchange("a", end(id, 2)))
        .statistics()
        .on_python(NO_TEXTS)
}

/// Texts of four bytes: the real server copies a text, its length in front, over the number's eight bytes. A shorter one leaves
/// bytes as they were, which can be others at each step, and behind a longer one memory is lost, so that the server can die.
fn text_as_number(kind: &str) -> Conversation {
    let setup = if kind == "oldest" { Setup::dyna() } else { Setup::direct().model(DYNA).with_id("TYPE_UINT64") };
    let about = "a model that is told numbers is told of a text its length and its four bytes";
    let begun = conversation(format!("corrid-text-as-number-{kind}"), about, setup.unchecked());
    let asked = ["1000", "abcd", "abce"]
        .into_iter()
        .fold(begun, |it, id| it.exchange("a", start(id, 1)).exchange("a", step(id, 2)).exchange("a", end(id, 3)));
    asked.statistics()
}

fn without_control() -> Conversation {
    let about = "a model that is not told IDs takes both kinds, and keeps 7 and '7' apart";
    conversation("corrid-none", about, Setup::direct())
        .exchange("a", start(7, 1))
        .exchange("a", start("7", 100))
        .exchange("a", step(7, 2))
        .exchange("a", step("7", 200))
        .exchange("a", end(7, 3))
        .exchange("a", end("7", 300))
        .exchange("a", step(7, 4))
        .exchange("a", step("7", 400))
        .exchange("a", step(-7, 4))
        .exchange("a", step(i64::MIN, 4))
        .statistics()
}

fn lengths() -> Conversation {
    let about = "string IDs have at most 128 bytes";
    let id = |length: usize| SequenceId::Text("x".repeat(length));
    conversation("corrid-lengths", about, Setup::direct())
        .exchange("a", only(id(127), 1))
        .exchange("a", only(id(128), 2))
        .exchange("a", only(id(129), 3))
        .infer(only(id(129), 3))
        .exchange("a", only(SequenceId::Text("é".repeat(64)), 4))
        .exchange("a", only(SequenceId::Text("é".repeat(65)), 5))
        .exchange("a", step(id(128), 6))
        .statistics()
}

fn wrong_parameters() -> Conversation {
    let about = "the extension's parameters with values of the wrong type";
    let plain = || step(SequenceId::None, 1);
    let begun = conversation("parameters-wrong", about, Setup::direct());
    let asked = [
        plain().parameter("sequence_id", BoolParam(true)),
        plain().parameter("sequence_id", DoubleParam(1.5)),
        plain().parameter("sequence_id", Uint64Param(7)),
        step(7, 1).parameter("sequence_start", Int64Param(1)),
        step(7, 1).parameter("sequence_start", StringParam("true".into())),
        step(7, 1).parameter("sequence_end", Int64Param(1)),
        start(7, 1).parameter("timeout", StringParam("5".into())),
        start(7, 1).parameter("timeout", Uint64Param(5)),
        start(7, 1).parameter("priority", StringParam("5".into())),
        start(7, 1).parameter("priority", Int64Param(-1)),
        start(7, 1).parameter("triton_enable_empty_final_response", Int64Param(1)),
        start(7, 1).parameter("triton_", Int64Param(1)),
    ]
    .into_iter()
    .fold(begun, |it, step| it.exchange("a", step.clone()).infer(step));
    asked.statistics()
}

fn ignored_parameters() -> Conversation {
    let about = "parameters that change nothing";
    conversation("parameters-ignored", about, Setup::direct())
        .exchange("a", start(7, 1).parameter("sequence_end", BoolParam(false)))
        .exchange("a", step(7, 2).parameter("sequence_start", BoolParam(false)))
        .exchange("a", step(7, 3).parameter("priority", Uint64Param(3)))
        .exchange("a", step(7, 4).parameter("priority", Int64Param(3)))
        .exchange("a", step(7, 5).parameter("anything", StringParam("else".into())))
        .exchange("a", step(7, 6).parameter("triton_enable_empty_final_response", BoolParam(true)))
        .exchange("a", step(7, 7).request_id(""))
        .exchange("a", step(7, 8).request_id("a name of its own"))
        .infer(step(7, 9).request_id(""))
        .infer(end(7, 10).parameter("anything", DoubleParam(0.5)))
        .statistics()
}
