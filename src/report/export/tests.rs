use super::*;
use crate::{
    arithmetic::{Arithmetic, Formula},
    conversation::parse_acts,
    number::Datatype,
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
    sequence::Pattern,
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
        conversations,
    }
}

/// What the workers of the script do, without what every script has.
fn calls(failure: &Failure) -> String {
    let mut text = Vec::new();
    write_python(failure, &mut text).expect("a text");
    let text = String::from_utf8(text).expect("UTF-8");
    text[text.find("def worker_0").expect("a worker")..].to_owned()
}

#[test]
fn a_sequence_is_a_few_plain_calls_with_what_has_to_come() {
    let one = conversation(0, &["send 0 START 5", "await 0", "send 0 7", "send 0 END -1 in 3 elements"]);
    let seen = calls(&failure(vec![one]));
    let expected = "\
def worker_0():
    at(0)
    stream_0_0 = Stream(ID + 0, \"worker 0 context 0\")
    stream_0_0.send(5, start=True, expect=5)
    stream_0_0.wait()
    # Here it was seen: expected 12; saw \"8\"
    stream_0_0.send(7, expect=12)
    stream_0_0.send(-1, end=True, expect=11, size=3)
    stream_0_0.wait()
    stream_0_0.close()


run(worker_0)
";
    assert_eq!(seen, expected);
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
        "stream_0_0.cancel()",
        "stream_0_1 = Stream(ID + 0, \"worker 0 fresh 1\")",
        // What was cut may still arrive, and then it is added.
        "stream_0_1.send(3)",
        "stream_0_1.reset()",
        "stream_0_1 = Stream(ID + 0, \"worker 1 context 0\")",
        "stream_0_1.send(4, start=True, end=True, expect=4)",
        "stream_0_1.half_close()",
        "stream_0_1.close()",
        "run(worker_0, worker_1)",
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
        let mut text = Vec::new();
        write_python(&its, &mut text).expect("a text");
        String::from_utf8(text).expect("UTF-8")
    };
    for (by, parts) in [
        (
            None,
            [
                "TRANSPORTS = [\"grpc-stream\", \"http\"]",
                "'tritonclient[grpc,http]'",
                "[HOST:PORT [MODEL [HTTP_HOST:PORT]]]",
                "stream_0_0 = Stream(ID + 0, \"worker 0 context 0\")",
                "stream_0_1 = Calls(ID + 0, \"worker 0 context 0\", \"http\")",
            ],
        ),
        (
            Some(Transport::GrpcUnary),
            [
                "TRANSPORTS = [\"grpc-unary\", \"http\"]",
                "'tritonclient[grpc,http]'",
                "[HOST:PORT [MODEL [HTTP_HOST:PORT]]]",
                "stream_0_0 = Calls(ID + 0, \"worker 0 context 0\", \"grpc-unary\")",
                "stream_0_1 = Calls(ID + 0, \"worker 0 context 0\", \"http\")",
            ],
        ),
        (
            Some(Transport::HttpBinary),
            [
                "TRANSPORTS = [\"http-binary\", \"http\"]",
                "'tritonclient[http]'",
                "[HOST:PORT [MODEL]]",
                "stream_0_0 = Calls(ID + 0, \"worker 0 context 0\", \"http-binary\")",
                "stream_0_1 = Calls(ID + 0, \"worker 0 context 0\", \"http\")",
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
fn what_is_not_determined_is_not_expected() {
    let expected = |steps: &[(bool, bool, bool)]| {
        let mut its = Expecting::new(Arithmetic::default());
        steps.iter().map(|&(start, end, elsewhere)| its.send(start, end, 5, elsewhere)).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    let (start, step, end) = ((true, false, false), (false, false, false), (false, true, false));
    assert_eq!(expected(&[step, start, step, end, step]), ["REFUSED", "5", "10", "15", "REFUSED"].map(some));
    assert_eq!(expected(&[start, (false, false, true), step, start]), [some("5"), None, None, some("5")]);
    let mut paused = Expecting::new(Arithmetic::default());
    assert_eq!(paused.send(true, false, i32::MAX.into(), false), some("2147483647"));
    assert_eq!(paused.send(false, false, 1, false), some("-2147483648"));
    paused.pause();
    assert_eq!(paused.send(false, false, 1, false), None);
    let mut cut = Expecting::new(Arithmetic::default());
    cut.cut(0);
    assert_eq!(cut.send(false, false, 1, false), some("REFUSED"));
    cut.cut(1);
    assert_eq!((cut.send(true, false, 1, false), cut.send(false, false, 1, false)), (some("1"), None));
}

#[test]
fn texts_cannot_end_what_they_stand_in() {
    let mut its = failure(vec![conversation(0, &["send 0 START 1"])]);
    its.found = "\"\"\" \\".to_owned();
    its.scenario.target.model = "a\"b".to_owned();
    let mut text = Vec::new();
    write_python(&its, &mut text).expect("a text");
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.contains("\n''' \\\\\n") && text.contains("FOUND_IN = \"a\\\"b\"\n"), "{text}");
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
    let unsigned =
        ["18446744073709551615, start=True, expect=18446744073709551615)", "2, expect=1)", "3, end=True, expect=4)"];
    assert_eq!(called(of(Datatype::Uint64)), unsigned);
    let initial = Arithmetic { initial_state: 10, formula: Formula::RunningSumPlusCorrid, ..of(Datatype::Fp32) };
    assert_eq!(
        called(initial),
        ["-1, start=True, expect=9)", "2, expect=11)", "3, end=True)"],
        "the script draws its IDs"
    );
    let stateless = Arithmetic { formula: Formula::Stateless, ..of(Datatype::Bytes) };
    assert_eq!(called(stateless), ["-1, start=True, expect=0)", "2, expect=2)", "3, end=True, expect=3)"]);
}
