//! Each call of each C function fails once, and each reading of the clock panics once: whatever that does to the answers,
//! requests are answered once and released once, or left to the server untouched, and nothing is lost.

use std::collections::BTreeMap;

use super::{
    mock::{Account, Ask, TOLD_TO_FAIL, world},
    server::{Config, END, MID, START, Server, text_element},
};

/// Their failures are told in other words, or to nobody.
const MAY_BE_SILENT: [&str; 2] = ["TRITONBACKEND_RequestCorrelationId", "TRITONSERVER_LogMessage"];

struct Conversation {
    name: &'static str,
    config: Config,
    batches: fn(&Config) -> Vec<Vec<Ask>>,
}

fn two_sequences(config: &Config) -> Vec<Vec<Ask>> {
    vec![
        vec![config.ask(START, 7, &[1, 2]), config.ask(START, 8, &[3])],
        vec![config.ask(MID, 7, &[4]), config.ask(END, 8, &[5, 6, 7])],
        vec![config.ask(END, 7, &[8, 9])],
    ]
}

fn two_sequences_and_idle_slots(config: &Config) -> Vec<Vec<Ask>> {
    vec![
        vec![config.ask(START, 7, &[1, 2]), config.padding(), config.ask(START, 8, &[3])],
        vec![config.padding(), config.padding(), config.ask(END, 8, &[4, 5])],
        vec![config.ask(END, 7, &[])],
    ]
}

fn sequences_named_by_texts(config: &Config) -> Vec<Vec<Ask>> {
    let mut batches = two_sequences_and_idle_slots(config);
    for ask in batches.iter_mut().flatten().filter(|ask| !ask.is_padding) {
        ask.id = super::mock::Id::Text(c"red".into());
        ask.set("CORRID", text_element("red"));
    }
    batches
}

fn errors_and_panics(config: &Config) -> Vec<Vec<Ask>> {
    vec![
        vec![config.ask(START, 7, &[13]), config.ask(START, 8, &[14]), config.ask(START, 9, &[1])],
        vec![config.ask(MID, 9, &[2]).with("START", vec![9]), config.padding().with("READY", vec![1])],
    ]
}

#[rustfmt::skip]
fn conversations() -> Vec<Conversation> {
    let direct = Config::direct();
    let conversation = |name, config, batches| Conversation { name, config, batches };
    vec![
        conversation("direct", Config { seen: &[("SLOT", "TYPE_INT32")], ..direct.clone() }, two_sequences_and_idle_slots),
        conversation("oldest", Config::oldest(), two_sequences),
        conversation("texts", Config { corrid: Some("TYPE_STRING"), ..direct.clone() }, sequences_named_by_texts),
        conversation("state", Config { state: Some(true), ..direct.clone() }, two_sequences_and_idle_slots),
        conversation("state in one buffer", Config { state: Some(false), one_buffer: true, ..direct.clone() }, two_sequences),
        conversation("two states", Config::two_states(), two_sequences_and_idle_slots),
        conversation("texts in the server's state", Config { state: Some(true), datatype: "TYPE_STRING", ..direct.clone() }, two_sequences_and_idle_slots),
        conversation("stateless", with(vec![("sequence_stress_formula", "ready-times-input-plus-start")]), two_sequences_and_idle_slots),
        conversation("several answers", Config { decoupled: true, ..with(vec![("sequence_stress_responses", "3")]) }, two_sequences),
        conversation("decoupled", Config { decoupled: true, ..direct.clone() }, two_sequences_and_idle_slots),
        conversation("iterative", Config { iterative: true, ..direct.clone() }, two_sequences_and_idle_slots),
        conversation("iterative and decoupled", Config { iterative: true, decoupled: true, ..Config::oldest() }, two_sequences),
        conversation("late answers", with(vec![("fault", "late-response"), ("fault_hold_ms", "0.1")]), two_sequences),
        conversation(
            "late decoupled answers",
            Config { decoupled: true, ..with(vec![("fault", "late-response"), ("fault_hold_ms", "0.1")]) },
            two_sequences,
        ),
        conversation("errors", with(vec![("error_on_value", "13"), ("panic_on_value", "14")]), errors_and_panics),
        conversation(
            "errors, decoupled",
            Config { decoupled: true, ..with(vec![("error_on_value", "13"), ("panic_on_value", "14")]) },
            errors_and_panics,
        ),
    ]
}

fn with(parameters: Vec<(&'static str, &'static str)>) -> Config {
    Config { parameters, ..Config::direct() }
}

/// What was seen in a conversation.
struct Seen {
    wrongs: Vec<String>,
    calls: BTreeMap<&'static str, usize>,
    /// Everything that anybody was told: by answers, returned errors, and the log.
    told: Vec<String>,
    accounts: Vec<Account>,
}

impl Conversation {
    /// Goes on as far as the failure lets it.
    fn hold(&self, prepare: impl FnOnce()) -> Seen {
        let mut server = Server::new(&self.config.json());
        prepare();
        let outcomes = [Server::initialize(), server.load(), server.make_instance()];
        let accounts = server.converse((self.batches)(&self.config));
        let returned = outcomes.into_iter().filter_map(Result::err).chain(server.finalize());
        let mut told: Vec<_> = returned.map(|(_, text)| text).collect();
        told.extend(world().returned.iter().cloned());
        told.extend(world().log.iter().cloned());
        for account in world().accounts.values() {
            told.extend(
                account.answers.iter().filter_map(|answer| answer.error.as_ref()).map(|(_, text)| text.clone()),
            );
        }
        let calls = world().calls.clone();
        Seen { wrongs: server.end_with_wrongs(), calls, told, accounts }
    }
}

#[test]
fn each_call_of_each_function_may_fail() {
    let (mut seen_wrong, mut count) = (Vec::new(), 0);
    for conversation in conversations() {
        let right = conversation.hold(|| {});
        assert!(right.wrongs.is_empty(), "{}: {:#?}", conversation.name, right.wrongs);
        for (function, calls) in right.calls {
            for nth in 1..=calls {
                count += 1;
                let seen = conversation.hold(|| world().to_fail = Some((function, nth)));
                let mut wrongs = seen.wrongs;
                let is_told = seen.told.iter().any(|text| text.contains(TOLD_TO_FAIL));
                if !is_told && !MAY_BE_SILENT.contains(&function) {
                    wrongs.push("nobody was told that a call failed".to_owned());
                }
                if !wrongs.is_empty() {
                    seen_wrong.push(format!("{}, {function}, call {nth}: {wrongs:?}", conversation.name));
                }
            }
        }
    }
    assert!(seen_wrong.is_empty(), "{} of {count} failures:\n{}", seen_wrong.len(), seen_wrong.join("\n"));
    assert!(count > 1000, "only {count} calls were seen");
}

#[test]
fn each_reading_of_the_clock_may_panic() {
    for conversation in conversations() {
        let readings = 4 * (conversation.hold(|| {}).accounts.len() + 4);
        for reading in 1..=readings {
            let seen = conversation.hold(|| world().clock_panics_at = Some(reading));
            assert!(seen.wrongs.is_empty(), "{}, reading {reading}: {:#?}", conversation.name, seen.wrongs);
        }
    }
}
