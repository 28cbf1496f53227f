mod expecting;
mod golden;

use super::*;
use crate::failure::{Accused, Due, Facts, Replayed, Tensors};
use oracle::golden::{Compare, Golden, Identity, Lineage, Output};
use workload::{
    answers::Answers,
    arithmetic::{Arithmetic, Formula},
    conversation::{Conversation, Lane, parse_acts},
    inputs::{ElementType, InputSet, InputTensor, Track},
    number::Datatype,
    scenario::{Overrides, Scenario, Source, Window},
    seed::Seed,
    sequence::{Flaw, Pattern, Special},
    tensor::TensorSpec,
};

fn conversation(worker: u32, acts: &[&str]) -> Conversation {
    let texts: Vec<_> = acts.iter().map(|act| (*act).to_owned()).collect();
    let acts = parse_acts(&texts).expect("acts");
    Conversation { worker, context: 0, pattern: Pattern::Valid, at_us: 0, accused: worker == 0, acts }
}

fn failure(conversations: Vec<Conversation>) -> Failure {
    let source = Source::from_text("test", "sending.connection = 'per-context'");
    Failure {
        found: "wrong-sum at 1.2 s, request 0-0-0-1: sent valid step 2/2 value 7; expected 12; saw \"8\"".to_owned(),
        kind: ViolationKind::WrongSum,
        scenario: Scenario::resolve(&source, Overrides::default()).expect("a scenario"),
        seed: Seed(42),
        embedded: None,
        at_the_slots: false,
        arithmetic: Arithmetic::default(),
        accused: Some(Accused { step: 1, value: 7.into(), due: Some(Due::Sum(12.into())) }),
        conversations,
        facts: Facts::default(),
    }
}

/// The same where the server was asked about the model.
fn known(failure: Failure) -> Failure {
    let tensors = Tensors { input: "INPUT".to_owned(), output: "OUTPUT".to_owned(), shape: vec![1, -1] };
    let server = Some("triton 2.44.0".to_owned());
    Failure { facts: Facts { server, tensors: Some(tensors), ..Facts::default() }, ..failure }
}

fn script(failure: &Failure) -> String {
    super::script(failure, None).expect("a script")
}

/// What the workers of the script do, without what every script has.
fn calls(failure: &Failure) -> String {
    let text = script(failure);
    let conversation = &text[text.find("def worker_0").expect("a worker")..];
    let end =
        ["\n\n\nclass ", "\n\n\ndef at(", "\n\n\ndef is_right("].iter().filter_map(|end| conversation.find(end)).min();
    conversation[..end.expect("a helper")].to_owned()
}

#[test]
fn a_sequence_is_a_few_plain_calls_with_what_has_to_come() {
    let one = conversation(0, &["send 0 START 5", "await 0", "send 0 7", "send 0 END -1"]);
    let expected = "\
def worker_0():
    stream_0_0 = Stream(ID + 0, \"worker 0 context 0\")
    stream_0_0.send(5, sequence_start=True, expect=5)
    stream_0_0.wait()
    stream_0_0.send(7, expect=12)  # the violation was seen here
    stream_0_0.send(-1, sequence_end=True, expect=11)
    stream_0_0.wait()
    stream_0_0.stop_stream()";
    assert_eq!(calls(&failure(vec![one])), expected);
}

#[test]
fn elements_are_listed_and_add_up_to_the_value() {
    let one = conversation(0, &["send 0 START 5", "send 0 END -1 in 3 elements"]);
    let seen = calls(&known(failure(vec![one])));
    assert!(seen.contains(".send([5], sequence_start=True, expect=5)"), "{seen}");
    let list = seen.split(".send([").nth(2).and_then(|rest| rest.split(']').next()).expect("a list");
    let elements: Vec<i32> = list.split(", ").map(|element| element.parse().expect("a number")).collect();
    assert_eq!((elements.len(), elements.into_iter().fold(0, i32::wrapping_add)), (3, -1), "{seen}");
}

#[test]
fn streams_connections_and_cuts_are_the_clients_own() {
    let acts = [
        "send 0 START 1",
        "pause 20000 us",
        "cancel 0",
        "open 1 over fresh",
        "send 1 START 2",
        "send 1 3",
        "reset 1",
        "open 1 over neighbour",
        "send 1 START END 4",
        "half-close 1",
        "await 1",
        "close 1",
    ];
    let seen = calls(&failure(vec![conversation(0, &acts), conversation(1, &["send 0 START 1", "await 0 <= 1"])]));
    let lines: Vec<_> = seen.lines().map(str::trim).collect();
    for expected in [
        "time.sleep(0.02)",
        "stream_0_0.stop_stream(cancel_requests=True)",
        "stream_0_1 = Stream(ID + 0, \"worker 0 fresh 1\")",
        // What was cut may still arrive, and then it is added.
        "stream_0_1.send(3)",
        "stream_0_1.stop_stream(cancel_requests=True)",
        "stream_0_1.close()  # the connection; tritonclient cannot reset it",
        "stream_0_1 = Stream(ID + 0, \"worker 1 context 0\")",
        "stream_0_1.send(4, sequence_start=True, sequence_end=True, expect=4)",
        "stream_0_1.half_close()",
        "stream_0_1.closing.join()",
    ] {
        assert!(lines.contains(&expected), "{expected}: {seen}");
    }
    assert!(!seen.contains("wait(1)"), "there is nothing to wait for: {seen}");
}

#[test]
fn steps_travel_as_those_of_the_failure_did() {
    let conversations =
        || vec![conversation(0, &["send 0 START 1", "await 0", "open 1 over own by http", "send 1 END 2"])];
    let of = |by: Option<Transport>| {
        let mut its = failure(conversations());
        its.scenario.populations[0].sending.transport = by;
        script(&its)
    };
    for (by, parts) in [
        (
            None,
            [
                "class Http(Calls):",
                "'tritonclient[grpc,http]'",
                "[HOST:PORT [MODEL [HTTP_HOST:PORT]]]",
                "stream_0_0 = Stream(ID + 0, \"worker 0 context 0\")",
                "stream_0_1 = Http(ID + 0, \"worker 0 context 0\")",
            ],
        ),
        (
            Some(Transport::GrpcUnary),
            [
                "GRPC_URL = sys.argv[1] if len(sys.argv) > 1 else \"localhost:8001\"",
                "'tritonclient[grpc,http]'",
                "[HOST:PORT [MODEL [HTTP_HOST:PORT]]]",
                "stream_0_0 = Unary(ID + 0, \"worker 0 context 0\")",
                "stream_0_1 = Http(ID + 0, \"worker 0 context 0\")",
            ],
        ),
        (
            Some(Transport::HttpBinary),
            [
                "URL = sys.argv[1] if len(sys.argv) > 1 else \"localhost:8000\"",
                "'tritonclient[http]'",
                "[HOST:PORT [MODEL]]",
                "stream_0_0 = HttpBinary(ID + 0, \"worker 0 context 0\")",
                "stream_0_1 = Http(ID + 0, \"worker 0 context 0\")",
            ],
        ),
    ] {
        let script = of(by);
        for part in parts {
            assert!(script.contains(part), "'{part}' is not in: {script}");
        }
    }
}

#[test]
fn a_window_is_waited_for() {
    let mut failure = failure(vec![conversation(0, &["send 0 START 1", "send 0 2", "send 0 3"])]);
    failure.scenario.populations[0].sending.window = Window::Steps(2.try_into().expect("not zero"));
    let seen = calls(&failure);
    assert!(seen.contains("expect=3)\n    stream_0_0.wait(1)\n    stream_0_0.send(3"), "{seen}");
}

#[test]
fn texts_cannot_end_what_they_stand_in() {
    let mut its = failure(vec![conversation(0, &["send 0 START 1"])]);
    its.found = "\"\"\" \\".to_owned();
    its.scenario.target.model = "a\"b".to_owned();
    let text = script(&its);
    assert!(text.contains("\n''' \\\\. Model a'b on ") && text.contains(" else \"a\\\"b\"\n"), "{text}");
}

#[test]
fn what_has_to_come_is_as_the_model_computes() {
    let one = conversation(0, &["send 0 START -1", "send 0 2", "send 0 END 3"]);
    let called = |arithmetic| {
        let calls = calls(&Failure { arithmetic, found: String::new(), ..failure(vec![one.clone()]) });
        calls
            .lines()
            .filter_map(|line| Some(line.trim().strip_prefix("stream_0_0.send(")?.to_owned()))
            .collect::<Vec<_>>()
    };
    let of = |datatype| Arithmetic { datatype, ..Arithmetic::default() };
    let unsigned = [
        "18446744073709551615, sequence_start=True, expect=18446744073709551615)",
        "2, expect=1)",
        "3, sequence_end=True, expect=4)",
    ];
    assert_eq!(called(of(Datatype::Uint64)), unsigned);
    let initial = Arithmetic { initial_state: 10, formula: Formula::RunningSumPlusCorrid, ..of(Datatype::Fp32) };
    assert_eq!(
        called(initial),
        ["-1, sequence_start=True, expect=9)", "2, expect=11)", "3, sequence_end=True)"],
        "the script draws its IDs"
    );
    let stateless = Arithmetic { formula: Formula::Stateless, ..of(Datatype::Bytes) };
    assert_eq!(
        called(stateless),
        [
            "b\"-1\", sequence_start=True, expect=b\"0\")",
            "b\"2\", expect=b\"2\")",
            "b\"3\", sequence_end=True, expect=b\"3\")"
        ]
    );
}

/// The lines that a script has for a failure of five messages like the one of the documents.
#[test]
fn the_script_of_five_messages_fits_a_screen_or_two() {
    let cancelled = conversation(1, &["send 0 START 100", "send 0 100", "pause 1171 us", "cancel 0"]);
    let accused = Conversation { at_us: 1_100_000, ..conversation(0, &["send 0 START 5", "send 0 7"]) };
    let other = Conversation { context: 1, at_us: 1_100_000, ..conversation(1, &["send 0 START 3"]) };
    let script = script(&known(failure(vec![cancelled, accused, other])));
    let lines = script.lines().count();
    assert!(lines < 80, "{lines} lines: {script}");
    let [conversation, helper] = ["def worker_0():", "class Stream"].map(|part| script.find(part).expect("a part"));
    assert!(conversation < helper, "{script}");
}

/// Failures that need each part of the helper, alone and with others.
fn of_all_kinds() -> Vec<Failure> {
    let mut all = Vec::new();
    let plain = ["send 0 START 5", "await 0", "send 0 7", "send 0 END 1"];
    let flaws: Vec<_> = Flaw::ALL.iter().map(|flaw| format!("send 0 1 with {flaw}")).collect();
    let flaws: Vec<_> = ["send 0 START 5 within 1000 us"].into_iter().chain(flaws.iter().map(String::as_str)).collect();
    let cuts = [
        "send 0 START 1",
        "await 0",
        "half-close 0",
        "close 0",
        "send 0 START 2",
        "send 0 3",
        "await 0 <= 1",
        "cancel 0",
        "send 0 4",
    ];
    let mixed = [
        "send 0 START 1",
        "open 1 over fresh by grpc-unary",
        "send 1 2",
        "cancel 1",
        "open 2 over own by http",
        "send 2 END 3",
    ];
    let large = ["send 0 START 5 in 4 elements", "send 0 7 with batch-2"];
    for acts in [&plain[..], &flaws, &cuts, &mixed, &large] {
        for by in Transport::ALL.into_iter().filter(|by| !by.ends_with_errors()) {
            for kind in [ViolationKind::WrongSum, ViolationKind::SlotLeak, ViolationKind::Duplicate] {
                let mut its = failure(vec![conversation(0, acts)]);
                its.kind = kind;
                its.scenario.populations[0].sending.transport = Some(by);
                all.push(its.clone());
                all.push(known(Failure { arithmetic: Arithmetic { initial_state: 3, ..its.arithmetic }, ..its }));
            }
        }
    }
    all
}

#[test]
fn a_script_has_nothing_that_it_does_not_use() {
    for failure in of_all_kinds() {
        has_what_it_uses(&script(&failure));
    }
}

fn has_what_it_uses(script: &str) {
    assert!(!script.contains("{{") && !script.contains("#?"), "{script}");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words: Vec<_> = script.split(|c| !is_word(c)).collect();
    for line in script.lines() {
        let trimmed = line.trim_start();
        let defined = ["def ", "class "].iter().find_map(|word| trimmed.strip_prefix(word));
        let fixed = line.split_once(" = ").map(|(name, _)| name).filter(|name| name.chars().all(is_word));
        let imported = trimmed.strip_prefix("import ").map(|name| name.rsplit(' ').next().unwrap_or(name));
        let named = defined.map(|rest| rest.split(|c| !is_word(c)).next().unwrap_or(rest));
        // Subclasses have it, and Python calls it.
        let Some(name) = named.or(fixed).or(imported).filter(|name| *name != "__init__") else { continue };
        let uses = words.iter().filter(|word| **word == name).count();
        assert!(uses > 1, "{name} is not used: {script}");
    }
}

#[test]
fn similar_texts_stay_similar_correlation_ids() {
    let mut its = failure(vec![conversation(0, &["send 0 START 1"]), conversation(1, &["send 0 START 2"])]);
    its.scenario.correlation_ids.form = workload::sequence::IdForm::Nul;
    its.scenario.correlation_ids.first = 2.try_into().expect("not zero");
    its.scenario.correlation_ids.block = 1.try_into().expect("not zero");
    let seen = calls(&its);
    for id in ["Stream(f\"{ID}-id-1\", ", "Stream(f\"{ID}-id-1\\x00\", "] {
        assert!(seen.contains(id), "{seen}");
    }
}

fn issue(failure: &Failure) -> String {
    ExportFormat::Issue.text(failure, None).expect("a text")
}

#[test]
fn a_bug_report_says_what_is_known() {
    let mut its = known(failure(vec![conversation(0, &["send 0 START 5", "send 0 7"])]));
    its.facts.configuration = Some("name: \"m\"\nbackend: \"sequence_stress\"".to_owned());
    its.facts.chart = Some("the chart".to_owned());
    let row = |server: &str, failed| Replayed { server: server.to_owned(), failed, runs: 10 };
    its.facts.replayed = vec![row("triton 2.51.0", 0), row("triton 2.44.0", 4)];
    let report = issue(&its);
    for part in [
        "# Sequence batcher: A response is not the running sum of its sequence (wrong-sum)\n",
        "- Server: triton 2.44.0 (release 24.03)\n",
        "```protobuf\nname: \"m\"\nbackend: \"sequence_stress\"\n```\n",
        "```text\nthe chart\n```\n",
        "| triton 2.44.0 (release 24.03) | 4 of 10 |\n| triton 2.51.0 (release 24.10) | 0 of 10 |\n",
    ] {
        assert!(report.contains(part), "'{part}' is not in: {report}");
    }
    assert!(report.contains(&format!("```python\n{}```\n", script(&its))), "{report}");
    assert!(!report.contains("unknown"), "{report}");
    its.facts = Facts {
        title: Some("A title".to_owned()),
        summary: Some("A text.".to_owned()),
        withheld: Some("Because.".to_owned()),
        ..its.facts
    };
    let report = issue(&its);
    assert!(report.starts_with("# A title\n\n## Description\n\nA text.\n"), "{report}");
    assert!(report.contains("This report has no script: Because.") && !report.contains("```python"), "{report}");
}

#[test]
fn a_bug_report_of_an_old_file_says_what_is_unknown() {
    let report = issue(&failure(vec![conversation(0, &["send 0 START 5", "send 0 7"])]));
    for part in [
        "- Server: unknown\n",
        "- Model configuration: unknown.",
        "No chart of a run is known; this is the plan:\n\n```text\nworker 0 context 0, from 0 ms on, where the violation was seen\n  send 0 START 5\n",
        "## How often it fails\n\nUnknown.",
    ] {
        assert!(report.contains(part), "'{part}' is not in: {report}");
    }
}

#[test]
fn a_worker_that_sends_what_the_client_cannot_does_nothing() {
    let its = failure(vec![conversation(0, &["send 0 1 with id-bool"]), conversation(1, &["send 0 START 1"])]);
    assert!(script(&its).contains("tritonclient cannot.\n    pass\n\n\ndef worker_1():\n"), "{}", script(&its));
}

#[test]
fn deadlines_are_the_clients_own_and_nothing_is_certain_behind_them() {
    let acts = [
        "send 0 START 5",
        "await 0",
        "open 1 over fresh within 5000 us",
        "send 1 6",
        "await 1",
        "close 1",
        "send 0 END 7",
    ];
    let one = || conversation(0, &acts);
    let stream = script(&failure(vec![one()]));
    for expected in [
        "stream_0_0.send(5, sequence_start=True, expect=5)",
        "stream_0_1 = Stream(ID + 0, \"worker 0 fresh 1\", within=0.005)",
        "stream_0_1.send(6)",
        "stream_0_0.send(7, sequence_end=True)",
        "def __init__(self, sequence, connection, within=None):",
        "stream_timeout=within)",
    ] {
        assert!(stream.contains(expected), "{expected}: {stream}");
    }
    let mut unary = failure(vec![one()]);
    unary.scenario.populations[0].sending.transport = Some(workload::conversation::Transport::GrpcUnary);
    let calls = script(&unary);
    assert!(calls.contains("stream_0_1.send(6, client_timeout=0.005)"), "{calls}");
    assert!(!calls.contains("within=") && !calls.contains("isinstance(self, Stream)"), "{calls}");
    unary.scenario.populations[0].sending.transport = Some(workload::conversation::Transport::Http);
    let http = script(&unary);
    assert!(http.contains("# Here the client had a deadline; tritonclient has none"), "{http}");
    assert!(!http.contains("client_timeout"), "{http}");
}

#[test]
fn no_script_is_written_for_streams_that_errors_end() {
    let mut its = failure(vec![conversation(0, &["send 0 START 1"])]);
    its.scenario.populations[0].sending.transport = Some(Transport::GrpcStatus);
    let why = super::script(&its, None).expect_err("it would not read the status");
    assert!(why.contains("grpc-status") && why.contains("sequence-stress replay"), "{why}");
}
