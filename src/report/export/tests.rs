use super::*;
use crate::failure::Accused;
use workload::{
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
        accused: Some(Accused { step: 1, value: 7.into(), due: Some(Due::Sum(12.into())) }),
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
    # Here it was seen.
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

/// A script's own ID: what each step has to be answered with, all of them sent on one stream at once.
fn due(steps: &[(bool, bool)]) -> Vec<Option<Due>> {
    let mut its = Expecting::new(Arithmetic::default());
    its.open(Lane::FIRST);
    steps.iter().map(|&(start, end)| its.send(Lane::FIRST, plain(start, end, 5))).collect()
}

fn plain(start: bool, end: bool, value: i64) -> Sent {
    Sent { start, end, value: Arithmetic::default().number(value), special: None }
}

fn sum(sum: i32) -> Due {
    Due::Sum(sum.into())
}

#[test]
fn what_has_to_come_follows_from_what_was_sent() {
    let refused = Some(Due::Refusal);
    assert_eq!(due(&[(true, false), (false, false), (false, true)]), [sum(5), sum(10), sum(15)].map(Some));
    assert_eq!(due(&[(false, false), (true, true), (false, false)]), [Due::Refusal, sum(5), Due::Refusal].map(Some));
    assert_eq!(due(&[(true, false), (true, false), (false, true)]), [sum(5), sum(5), sum(10)].map(Some));

    // A sum wraps. After a pause its sequence may be gone.
    let mut paused = Expecting::new(Arithmetic::default());
    paused.open(Lane::FIRST);
    assert_eq!(paused.send(Lane::FIRST, plain(true, false, i32::MAX.into())), Some(sum(i32::MAX)));
    assert_eq!(paused.send(Lane::FIRST, plain(false, false, 1)), Some(sum(i32::MIN)));
    paused.take(Lane::FIRST, 0);
    paused.pause();
    assert_eq!(paused.send(Lane::FIRST, plain(false, false, 1)), None);
    assert_eq!(paused.send(Lane::FIRST, plain(true, false, 2)), Some(sum(2)));

    // What is under way on another stream may come before or after.
    let mut two = Expecting::new(Arithmetic::default());
    two.open(Lane::FIRST);
    two.open(Lane(1));
    assert_eq!(two.send(Lane::FIRST, plain(true, false, 1)), Some(sum(1)));
    assert_eq!(two.send(Lane(1), plain(false, false, 2)), None);

    // What was cut may arrive later; where nothing was under way nothing does.
    let mut cut = Expecting::new(Arithmetic::default());
    cut.open(Lane::FIRST);
    cut.cut(Lane::FIRST);
    cut.open(Lane::FIRST);
    assert_eq!(cut.send(Lane::FIRST, plain(false, false, 1)), refused);
    cut.cut(Lane::FIRST);
    cut.open(Lane::FIRST);
    assert_eq!(cut.send(Lane::FIRST, plain(true, false, 1)), Some(sum(1)));
    assert_eq!(cut.send(Lane::FIRST, plain(false, false, 1)), None);

    // A step that waits for too long is refused with its whole sequence, and a flaw changes nothing.
    let mut special = Expecting::new(Arithmetic::default());
    special.open(Lane::FIRST);
    let flaw = Sent { special: Some(Special::Flaw(Flaw::IdZero)), ..plain(false, false, 9) };
    assert_eq!(special.send(Lane::FIRST, plain(true, false, 1)), Some(sum(1)));
    assert_eq!(special.send(Lane::FIRST, flaw), None);
    assert_eq!(special.send(Lane::FIRST, plain(false, false, 2)), Some(sum(3)));
    let limited = Sent { special: Some(Special::TimeoutUs(5)), ..plain(false, false, 4) };
    assert_eq!(special.send(Lane::FIRST, limited), None);
    assert_eq!(special.send(Lane::FIRST, plain(false, false, 2)), None);
}

/// The answer to END has the correlation ID in it, and the script chooses that when it runs.
#[test]
fn an_answer_with_the_correlation_id_is_not_known() {
    let arithmetic = Arithmetic { formula: Formula::RunningSumPlusCorrid, ..Arithmetic::default() };
    let mut its = Expecting::new(arithmetic);
    its.open(Lane::FIRST);
    assert_eq!(its.send(Lane::FIRST, plain(true, false, 5)), Some(sum(5)));
    assert_eq!(its.send(Lane::FIRST, plain(false, true, 5)), None);
    assert_eq!(its.send(Lane::FIRST, plain(false, true, 5)), Some(Due::Refusal));
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
