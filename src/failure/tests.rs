use super::*;
use oracle::{
    Place,
    history::{Begun, Entry, Scene},
};
use reference::{Fault, Planted};
use workload::{
    arithmetic::{Arithmetic, Formula},
    conversation::{Act, Connection, Lane, parse_acts},
    event::{ContextId, EventKind},
    number::Datatype,
    plan::{Manner, WorkerPlan},
    scenario::{ConnectionOwner, Overrides, Source},
    sequence::{CorrelationId, Flaw, Pattern, RequestId, Step},
};

fn words() -> String {
    "words".to_owned()
}

fn texts(acts: &[&str]) -> Vec<String> {
    acts.iter().map(|act| (*act).to_owned()).collect()
}

fn acts(list: &[&str]) -> Vec<Act> {
    parse_acts(&texts(list)).expect("acts")
}

pub(crate) fn conversation(worker: u32, context: u32, at_us: u64, list: &[&str]) -> Conversation {
    Conversation { worker, context, pattern: Pattern::Valid, at_us, accused: false, acts: acts(list) }
}

pub(crate) fn failure(conversations: Vec<Conversation>) -> Failure {
    Failure {
        found: "an answer is wrong".to_owned(),
        kind: ViolationKind::WrongSum,
        scenario: Scenario::resolve(&Source::default_scenario(), Overrides::default()).expect("the built-in scenario"),
        seed: Seed(42),
        embedded: Some(ServerSetup { fault: vec![Planted::always(Fault::OffByOne)], ..ServerSetup::default() }),
        at_the_slots: false,
        arithmetic: Arithmetic::default(),
        accused: Some(Accused { step: 1, value: 7.into(), due: Some(Due::Sum((-12).into())) }),
        conversations,
        facts: Facts::default(),
    }
}

/// Everything that an act can be.
const ALL: [&str; 12] = [
    "send 0 START 5",
    "await 0 <= 3",
    "open 1 over fresh",
    "send 1 -7",
    "pause 20000 us",
    "send 1 END 2147483647",
    "await 0",
    "half-close 0",
    "close 0",
    "reset 1",
    "send 0 START END 9",
    "cancel 0",
];

#[test]
fn steps_that_are_set_apart_are_read_as_they_are_written() {
    let mut all: Vec<_> = Flaw::ALL.iter().map(|flaw| format!("send 0 START 5 with {flaw}")).collect();
    all.push("send 1 END -7 within 20000 us".to_owned());
    all.extend(["send 0 5 in 16 elements", "send 0 START END 5 in 1024 elements with batch-2"].map(str::to_owned));
    all.extend(["send 0 5 for id 3", "send 0 END 5 in 2 elements for id 65535 with batch-2"].map(str::to_owned));
    let read = parse_acts(&all).expect("acts");
    assert_eq!(read.iter().map(ToString::to_string).collect::<Vec<_>>(), all);
    for wrong in [
        "send 0 1 with nothing",
        "send 0 1 within 5",
        "send 0 1 within -5 us",
        "send 0 1 in 0 elements",
        "send 0 1 in 1025 elements",
        "send 0 in 2 elements",
        "send 0 1 for id 65536",
        "send 0 for id 1",
    ] {
        let error = parse_acts(&texts(&[wrong])).expect_err(wrong);
        assert!(error.contains("[with FLAW | within N us]") && error.contains("batch-2, other-type"), "{error}");
    }
    // STARTs with a flaw begin what the next one begins.
    let list =
        ["send 0 START 1 with id-0", "send 0 START 1", "send 0 2 with batch-2", "send 0 END 3", "send 0 START 4"];
    let numbers = acts(&list).into_iter().map(|act| match act {
        Act::Send { sequence, step, of, .. } => (sequence, step, of),
        other => panic!("{other}"),
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [(0, 0, 4), (0, 1, 4), (0, 2, 4), (0, 3, 4), (1, 0, 1)]);
}

#[test]
fn sequences_are_counted_for_each_id() {
    let list =
        ["send 1 START 1", "send 1 START 2 for id 3", "send 2 3", "send 3 END 4 for id 3", "send 1 START 5 for id 3"];
    let numbers = acts(&list).into_iter().map(|act| match act {
        Act::Send { id, sequence, step, of, .. } => (id, sequence, step, of),
        other => panic!("{other}"),
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [(0, 0, 0, 2), (3, 1, 0, 2), (0, 0, 1, 2), (3, 1, 1, 2), (3, 2, 0, 1)]);
}

#[test]
fn the_ids_of_a_conversation_are_numbered_anew_with_its_contexts() {
    let several = conversation(4, 2, 0, &["send 1 START 1 for id 3", "send 1 START 2 for id 7"]);
    let renumbered = failure(vec![several, conversation(4, 6, 1, &["send 0 START 3"])]).renumbered();
    let of_one = |its: &Conversation| (its.context, its.others().into_iter().collect::<Vec<_>>());
    // The contexts 2, 5, 6 and 9 of the worker.
    assert_eq!(renumbered.conversations.iter().map(of_one).collect::<Vec<_>>(), [(0, vec![1, 3]), (2, vec![])]);
    assert_eq!(renumbered.size(), (1, 4));
}

#[test]
fn acts_are_read_as_they_are_written() {
    let acts = acts(&ALL);
    assert_eq!(acts.iter().map(ToString::to_string).collect::<Vec<_>>(), ALL);
    let numbers: Vec<_> = acts
        .iter()
        .filter_map(|act| match act {
            Act::Send { sequence, step, of, .. } => Some((*sequence, *step, *of)),
            _ => None,
        })
        .collect();
    assert_eq!(numbers, [(0, 0, 3), (0, 1, 3), (0, 2, 3), (1, 0, 1)]);
    let more = [
        "open 1 over process",
        "send 1 START 5",
        "kill 1",
        "open 1 over narrow by http-binary",
        "send 1 6",
        "stop-reading 20 us",
        "open 2 over fresh within 5000 us",
        "send 2 7",
        "open 3 over own by grpc-unary within 1 us",
        "send 3 8",
    ];
    assert_eq!(self::acts(&more).iter().map(ToString::to_string).collect::<Vec<_>>(), more);
}

#[test]
fn other_texts_are_no_acts_and_some_cannot_follow_others() {
    for wrong in [
        "",
        "send",
        "send 0",
        "send 8 5",
        "send 0 END START 5",
        "send 0 18446744073709551616",
        "open 1",
        "open 1 over own within 0 us",
        "open 1 over own within 5000 us by http",
        "pause -1 us",
        "sing 0",
    ] {
        let error = parse_acts(&texts(&[wrong])).expect_err(wrong);
        assert!(error.starts_with(&format!("'{wrong}' is no act: write open LANE")), "{error}");
    }
    for (list, problem) in [
        (&["send 0 START 1", "half-close 0", "send 0 2"][..], "'send 0 2': the stream is half-closed"),
        (&["open 1 over own", "reset 1"], "'reset 1': only a connection that was made for the stream"),
        (&["open 1 over fresh", "close 1", "send 1 2", "reset 1"], "'reset 1': only a connection that was made"),
        (&["open 1 over own", "send 1 2", "open 1 over fresh"], "'open 1 over fresh': the stream is open already"),
        (&["open 1 over fresh", "send 1 2", "kill 1"], "'kill 1': only a stream that goes through a process"),
        (&["open 1 over process", "send 1 2", "reset 1"], "'reset 1': only a connection that was made for the stream"),
        (&["send 0 START 1", "half-close 0", "open 0 over own"], "'open 0 over own': the stream is open already"),
    ] {
        let error = parse_acts(&texts(list)).expect_err(problem);
        assert!(error.starts_with(problem), "{error}");
    }
}

#[test]
fn a_failure_is_read_as_it_is_written() {
    let failure =
        failure(vec![conversation(0, 0, 0, &ALL), conversation(1, 2, 1500, &["send 0 START END 1"])]).renumbered();
    let text = failure.to_text();
    assert_eq!(Failure::from_text(&text), Ok(failure), "{text}");
    assert!(text.contains("\"send 0 START 5\","), "an act a line: {text}");
}

#[test]
fn numbers_that_toml_does_not_have_are_read_as_they_are_written() {
    let number = |value| Datatype::Uint64.number(value);
    for (value, sum) in [(-1, i64::MIN), (i64::MIN, -1), (i64::MAX, 7)] {
        let failure = Failure {
            seed: Seed(u64::MAX),
            arithmetic: Arithmetic { datatype: Datatype::Uint64, ..Arithmetic::default() },
            accused: Some(Accused { step: 0, value: number(value), due: Some(Due::Sum(number(sum))) }),
            ..failure(vec![conversation(0, 0, 0, &["send 0 START END 1"])])
        };
        let text = failure.to_text();
        assert_eq!(Failure::from_text(&text), Ok(failure), "{text}");
    }
}

#[test]
fn what_a_bug_report_says_is_read_as_it_was_written() {
    let tensors = Tensors { input: "I".to_owned(), output: "O".to_owned(), shape: vec![1, -1] };
    let facts = Facts {
        server: Some("triton 2.51.0".to_owned()),
        idle_limit_ms: Some(200),
        configuration: Some("name: \"m\"\nplatform: \"\"\"\n".to_owned()),
        chart: Some("1 │ a\n2 │ b\n".to_owned()),
        tensors: Some(tensors),
        replayed: vec![Replayed { server: "triton 2.51.0".to_owned(), failed: 4, runs: 10 }],
        ..Facts::default()
    };
    let plain = failure(vec![conversation(0, 0, 0, &["send 0 START END 1"])]);
    assert!(!plain.to_text().contains("report"), "a file without it is as before");
    let failure = Failure { facts, ..plain };
    assert_eq!(Failure::from_text(&failure.to_text()), Ok(failure));
}

#[test]
fn what_is_no_failure_file_is_rejected() {
    let good = failure(vec![conversation(0, 0, 0, &["send 0 START END 1"])]).to_text();
    for (from, to, problem) in [
        ("sequence-stress-failure", "something", "its format is 'something' and not 'sequence-stress-failure'"),
        ("version = 1", "version = 2", "its version is 2, and this program reads version 1"),
        ("send 0 START END 1", "sing", "conversation 1 (worker 0 context 0): 'sing' is no act"),
        ("kind = ", "kin = ", "there is no key 'kin'"),
        ("wrong-sum", "wrong", "and is `wrong`"),
        ("version = 1", "", "it lacks its version"),
        ("seed = 42", "seed = \"many\"", "line 7: 'many' is no whole number of 64 bits"),
        ("seed = 42", "seed = 1.5", "line 7: it has to be a whole number of 64 bits"),
        ("seed = 42", "seed = -1", "line 7: it has to be 0 or more"),
        ("seed = 42", "", "the key `seed` is missing"),
        ("seed = 42", "seed = ", "line "),
        ("format = \"sequence-stress-failure\"", "", "it is no failure file; --failure of a run"),
        ("workers = 8", "workers = 0", "its scenario"),
        ("workers = 8", "workers = 0", "it has to be a whole number from 1"),
        ("acts", "act", "there is no key 'act' here"),
    ] {
        assert!(good.contains(from), "{good}");
        let error = Failure::from_text(&good.replace(from, to)).expect_err(problem);
        assert!(error.contains(problem), "{error}");
    }
    for end in 0..good.len() {
        // Whatever is cut off, it is an error or a smaller failure, and no panic.
        let _ = Failure::from_text(&good[..end]);
    }
}

#[test]
fn workers_and_contexts_are_numbered_anew() {
    let list = ["send 0 START END 1"];
    let failure =
        failure(vec![conversation(7, 9, 500, &list), conversation(3, 4, 200, &list), conversation(7, 2, 900, &list)]);
    let places: Vec<_> =
        failure.renumbered().conversations.iter().map(|its| (its.worker, its.context, its.at_us)).collect();
    assert_eq!(places, [(0, 0, 0), (1, 1, 300), (1, 0, 700)]);
}

#[test]
fn a_conversation_with_acts_taken_away_can_still_be_held() {
    let whole = conversation(
        0,
        0,
        0,
        &["open 1 over fresh", "send 1 START 1", "send 0 2", "half-close 1", "await 1", "reset 1"],
    );
    let without = |index: usize| {
        let left = whole.acts.iter().enumerate().filter(|(its, _)| *its != index).map(|(_, act)| *act);
        whole.with_acts(left).map(|its| its.acts.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(without(1), Some(texts(&["send 0 2"])), "the other stream carries nothing");
    assert_eq!(
        without(0),
        Some(texts(&["send 1 START 1", "send 0 2", "half-close 1", "await 1"])),
        "the context's own connection is not reset"
    );
    assert_eq!(whole.with_acts([Act::Await { lane: Lane(0), unanswered: 0 }]), None);
}

#[test]
fn without_waiting_there_are_no_pauses_and_no_later_beginnings() {
    let failure = failure(vec![conversation(0, 0, 0, &ALL), conversation(1, 0, 1500, &["send 0 START END 1"])]);
    let at_once = failure.at_once();
    assert!(at_once.conversations.iter().all(|its| its.at_us == 0 && !its.acts.iter().any(is_pause)), "{at_once:?}");
    assert_eq!(at_once.conversations[0].acts.len(), ALL.len() - 1);
}

fn is_pause(act: &Act) -> bool {
    matches!(act, Act::Pause { .. })
}

/// What a run of the built-in scenario's plan sends first: of each worker so many sequences, one a second.
fn scene(scenario: &Scenario, seed: Seed, sequences: u32) -> Scene {
    let first_steps = (0..scenario.workers()).flat_map(|worker| {
        let mut plan = WorkerPlan::new(scenario, seed, worker);
        let iterations = std::iter::repeat_with(move || plan.next_iteration());
        let contexts =
            iterations.flat_map(|iteration| iteration.sequences.clone().into_iter().map(move |_| iteration.context));
        (0..sequences).zip(contexts).map(move |(sequence, context)| Begun {
            context: ContextId { worker, context },
            sequence,
            at: u64::from(sequence) * 1_000_000_000 + u64::from(worker) * 1000,
        })
    });
    Scene { entries: Vec::new(), before: first_steps.collect() }
}

fn violation(at_ns: u64, request: &str) -> Violation {
    let context = ContextId { worker: 0, context: 0 };
    let place = Place::new(context, CorrelationId(std::num::NonZeroU64::MIN), None);
    let place = place.of_request(request.parse().expect("an ID"));
    Violation::at(place, ViolationKind::WrongSum, at_ns, Evidence::Overtaken)
}

fn found(violation: &Violation, scene: &Scene) -> Option<Failure> {
    let scenario = Scenario::resolve(&Source::default_scenario(), Overrides::default()).expect("the built-in scenario");
    Failure::found(violation, words(), &run_of(&scenario, scene))
}

#[test]
fn a_failure_has_what_had_begun_by_then_at_its_time_and_knows_the_accused() {
    let scenario = Scenario::resolve(&Source::default_scenario(), Overrides::default()).expect("the built-in scenario");
    let scene = scene(&scenario, Seed(42), 20);
    let failure = found(&violation(9_500_000_000, "3-0-7-0"), &scene).expect("a failure");
    assert!(failure.conversations.is_sorted_by_key(|its| its.at_us) && failure.conversations[0].at_us == 0);
    assert!(failure.conversations.iter().all(|its| its.at_us <= 9_500_000));
    let accused: Vec<_> = failure.conversations.iter().filter(|its| its.accused).collect();
    let [accused] = accused.as_slice() else { panic!("{accused:?}") };
    assert_eq!(accused.worker, 3);
    // An iteration may have two sequences.
    assert!((6_000_000..=7_000_010).contains(&accused.at_us), "{accused:?}");
    let mut plan = WorkerPlan::new(&scenario, Seed(42), 3);
    let mut sequences = 0;
    let iteration = std::iter::repeat_with(|| plan.next_iteration()).find(|iteration| {
        sequences += iteration.sequences.len();
        sequences > 7
    });
    let values = |acts: &[Act]| acts.iter().filter(|act| matches!(act, Act::Send { .. })).count();
    let planned: usize = iteration.expect("they do not end").sequences.iter().map(|its| its.values.len()).sum();
    assert_eq!(values(&accused.acts), planned);
    assert_eq!(found(&violation(9, "3-0-7-0"), &Scene::default()), None);
}

/// A run of this scenario in which this was seen.
fn run_of<'r>(scenario: &'r Scenario, scene: &'r Scene) -> Run<'r> {
    let manner =
        Manner { after_answers: false, idle_limit: std::time::Duration::from_secs(1), batches: true, one_step: false };
    Run { scenario, seed: Seed(42), manner, arithmetic: Arithmetic::default(), scene, embedded: None, inputs: None }
}

#[test]
fn of_several_populations_a_failure_has_what_each_did() {
    let text = "
        [[population]]
        name = 'slow'
        load.workers = 2
        length.constant = 4
        sending.window = 2
        think = { step_ms.constant = 5, iteration_ms.constant = 9 }
        patterns = { common.valid = 1, rare.valid = 1 }
        [[population]]
        name = 'quick'
        load.workers = 1
        patterns = { common.valid = 1, rare.valid = 1 }
        sending.connection = 'per-worker'";
    let scenario = Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
    let scene = scene(&scenario, Seed(42), 5);
    let run = run_of(&scenario, &scene);
    let failure = Failure::found(&violation(u64::MAX, "2-0-3-0"), words(), &run).expect("a failure");
    let [population] = &failure.scenario.populations[..] else { panic!("{failure:?}") };
    assert_eq!((population.name.as_str(), population.sending.connection), ("", ConnectionOwner::PerWorker));
    let slow = failure.conversations.iter().find(|its| its.worker == 0).expect("one of the slow");
    let is_first = |act: &Act| matches!(act, Act::Await { unanswered: 1, .. });
    assert!(is_first(&slow.acts[0]) && matches!(slow.acts[1], Act::Send { start: true, .. }), "{:?}", slow.acts);
    let pauses = slow.acts.iter().filter(|act| matches!(act, Act::Pause { us: 5000 })).count();
    assert_eq!((slow.messages(), pauses), (4, 3), "{:?}", slow.acts);
    assert_eq!(Failure::from_text(&failure.to_text()).as_ref(), Ok(&failure));
    assert!(failure.fitted_scenario().is_ok());
}

#[test]
fn a_failure_of_a_run_in_phases_is_read_again() {
    let text = "
        patterns.common = { valid = 1 }
        [[phase]]
        name = 'warm up'
        [[phase]]
        name = 'stress'
        [[population]]
        name = 'warming'
        phase = 'warm up'
        [[population]]
        name = 'stressing'
        phase = 'stress'";
    let scenario = Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
    let scene = scene(&scenario, Seed(42), 5);
    let run = run_of(&scenario, &scene);
    let failure = Failure::found(&violation(u64::MAX, "9-0-3-0"), words(), &run).expect("a failure");
    assert_eq!(Failure::from_text(&failure.to_text()).as_ref(), Ok(&failure));
    assert!(failure.fitted_scenario().is_ok());
}

#[test]
fn a_failure_of_ids_that_are_negative_on_the_wire_is_written_and_read() {
    let text = "correlation_ids.first = 18446744073709540000";
    let scenario = Scenario::resolve(&Source::from_text("test", text), Overrides::default()).expect("a scenario");
    let scene = scene(&scenario, Seed(42), 5);
    let run = run_of(&scenario, &scene);
    let failure = Failure::found(&violation(u64::MAX, "5-0-3-0"), words(), &run).expect("a failure");
    assert_eq!(failure.scenario.correlation_ids.first.get(), 18_446_744_073_709_540_000);
    assert_eq!(Failure::from_text(&failure.to_text()).as_ref(), Ok(&failure));
}

#[test]
fn of_a_long_run_a_failure_has_what_is_nearest_in_time() {
    let scenario = Scenario::resolve(&Source::default_scenario(), Overrides::default()).expect("the built-in scenario");
    let whole = scene(&scenario, Seed(42), 400);
    let failure = found(&violation(u64::MAX, "5-0-399-0"), &whole).expect("a failure");
    let messages = failure.messages();
    assert!((9_800..=10_000).contains(&messages), "{messages}");
    assert!(failure.conversations.iter().any(|its| its.accused && its.worker == 5));
    // The sequences before what was kept are not made up.
    let late = Scene { before: whole.before.iter().copied().filter(|its| its.sequence >= 390).collect(), ..whole };
    let failure = found(&violation(u64::MAX, "5-0-399-0"), &late).expect("a failure");
    assert!((50..=80).contains(&failure.conversations.len()), "{}", failure.conversations.len());
    // An answer that is missed was due long before: what was sent around its request is kept, not what was sent last.
    let request = RequestId { worker: 5, context: 0, sequence: 3, step: 0 };
    let step =
        Step { request, pattern: Pattern::Valid, start: true, end: false, value: 1.into(), of: 2, special: None };
    let sent = Entry {
        at: 3_000_005_000,
        context: ContextId { worker: 5, context: 0 },
        correlation_id: CorrelationId(std::num::NonZeroU64::MIN),
        lane: Lane::FIRST,
        what: EventKind::Sent(step),
    };
    let lost = Scene { entries: vec![sent], before: scene(&scenario, Seed(42), 400).before };
    let failure = found(&violation(u64::MAX, "5-0-3-0"), &lost).expect("a failure");
    let latest = failure.conversations.iter().map(|its| its.at_us).max();
    assert!(failure.conversations[0].at_us == 0 && latest < Some(120_000_000), "{latest:?}");
}

#[test]
fn a_failure_is_as_it_was_seen_last() {
    let two = ["send 0 START END 1", "send 0 START END 2"];
    let mut failure =
        failure(vec![conversation(0, 0, 0, &two), conversation(1, 0, 0, &two), conversation(0, 1, 0, &two)]);
    failure.conversations[1].accused = true;
    let seen = failure.as_seen(&violation(5, "0-1-3-0"), words());
    assert_eq!(seen.conversations.iter().map(|its| its.accused).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!((seen.found, seen.accused), (words(), None), "that request's step is not known");
}

#[test]
fn conversations_stand_in_the_order_in_which_they_begin() {
    let one = ["send 0 START END 1"];
    let late = Conversation { at_us: 900, ..conversation(0, 0, 0, &one) };
    let early = Conversation { at_us: 300, ..conversation(0, 1, 0, &one) };
    let sorted = failure(vec![late, early]).renumbered();
    assert_eq!(sorted.conversations.iter().map(|its| (its.context, its.at_us)).collect::<Vec<_>>(), [(1, 0), (0, 600)]);
}

/// A server that fails when a START with value 13 and later, on another worker, a step with value 7 is sent.
fn fails(failure: &Failure) -> bool {
    let place = |wanted: i64, start_only: bool| {
        failure.conversations.iter().enumerate().find_map(|(index, its)| {
            let is = |act: &Act| matches!(act, Act::Send { value, start, .. } if *value == wanted && (*start || !start_only));
            its.acts.iter().any(is).then_some((index, its.worker))
        })
    };
    matches!((place(13, true), place(7, false)), (Some((first, one)), Some((second, other))) if first < second && one != other)
}

#[test]
fn a_failure_shrinks_to_the_messages_that_it_needs() {
    let filler = |worker, context| {
        let list: Vec<_> =
            (0..40).map(|n| format!("send 0{} {}", if n == 0 { " START" } else { "" }, 100 + n)).collect();
        Conversation {
            worker,
            context,
            pattern: Pattern::Valid,
            at_us: 10,
            accused: false,
            acts: parse_acts(&list).expect("acts"),
        }
    };
    let mut conversations: Vec<_> = (0..250).map(|number| filler(number % 16, number % 5)).collect();
    conversations[100].acts.insert(3, acts(&["send 0 START 13"])[0]);
    conversations[200].acts.insert(17, acts(&["send 0 7"])[0]);
    conversations[200].acts.insert(3, Act::Open { lane: Lane(1), over: Connection::Fresh, by: None, within_us: None });
    let whole = failure(conversations);
    assert!(whole.messages() > 10_000 && fails(&whole));
    let shrunk = shrink(whole, 10_000, &mut fails);
    assert!(shrunk.is_minimal);
    let left: Vec<_> =
        shrunk.failure.conversations.iter().map(|its| (its.worker, its.context, its.acts.clone())).collect();
    let [(0, 0, first), (1, 0, second)] = left.as_slice() else { panic!("{left:?}") };
    assert_eq!((first, second), (&acts(&["send 0 START 13"]), &acts(&["send 0 7"])));
    assert!(shrunk.trials < 200, "{} trials", shrunk.trials);
}

/// What is left of one conversation.
fn left_of(list: &[&str], fails: impl Fn(&[Act]) -> bool) -> Vec<String> {
    let whole = failure(vec![conversation(0, 0, 700, &["send 0 START END 1"]), conversation(1, 0, 5000, list)]);
    let any = |failure: &Failure| failure.conversations.iter().any(|its| fails(&its.acts));
    assert!(any(&whole));
    let shrunk = shrink(whole, 10_000, &mut |smaller| any(smaller));
    assert!(shrunk.is_minimal && shrunk.failure.conversations[0].at_us == 0, "{shrunk:?}");
    shrunk.failure.conversations.iter().flat_map(|its| &its.acts).map(ToString::to_string).collect()
}

#[test]
fn a_queue_becomes_shorter_where_one_has_to_be_left() {
    let list: Vec<_> =
        (0..30).map(|n| format!("send 0 {n}")).chain(["await 0 <= 29", "cancel 0"].map(str::to_owned)).collect();
    let list: Vec<_> = list.iter().map(String::as_str).collect();
    // That something is queued when the stream is cancelled, and not all.
    let fails = |acts: &[Act]| {
        let sent = acts.iter().filter(|act| matches!(act, Act::Send { .. })).count();
        acts.windows(2).any(|two| {
            matches!(two, [Act::Await { unanswered, .. }, Act::Cancel { .. }] if (1..sent).contains(&(*unanswered as usize)))
        })
    };
    assert_eq!(left_of(&list, fails), ["send 0 0", "send 0 29", "await 0 <= 1", "cancel 0"]);
}

#[test]
fn waits_connections_streams_and_cuts_become_simpler() {
    let waited = |acts: &[Act]| acts.iter().map(|act| if let Act::Pause { us } = act { *us } else { 0 }).sum::<u64>();
    let list = ["send 0 START 1", "await 0", "pause 100000 us", "send 0 END 2"];
    assert_eq!(left_of(&list, |acts| waited(acts) > 20_000), ["send 0 START 1", "pause 25000 us"]);

    let sends = |acts: &[Act]| acts.iter().filter(|act| matches!(act, Act::Send { .. })).count();
    let list = ["open 1 over fresh", "send 1 START 1", "open 2 over neighbour", "send 2 2", "reset 1", "cancel 2"];
    assert_eq!(left_of(&list, |acts| sends(acts) == 2), ["send 0 START 1", "send 0 2"]);

    let ends = |acts: &[Act]| acts.iter().any(|act| matches!(act, Act::Send { end: true, .. }));
    let list = ["send 0 START 1", "send 0 END 2"];
    assert_eq!(left_of(&list, |acts| sends(acts) == 2), ["send 0 START 1", "send 0 2"]);
    assert_eq!(left_of(&list, |acts| sends(acts) == 2 && ends(acts)), list);

    let list = ["open 1 over fresh", "send 1 START 1", "open 2 over neighbour", "send 2 2", "reset 1", "cancel 2"];
    let lanes = |acts: &[Act]| acts.iter().filter_map(Act::lane).collect::<std::collections::BTreeSet<_>>().len();
    let opens = |acts: &[Act]| acts.iter().any(|act| matches!(act, Act::Open { .. }));
    let left = left_of(&list, |acts| lanes(acts) == 2 && opens(acts));
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left.iter().any(|act| act.ends_with("over own")), "{left:?}");

    let ends =
        |acts: &[Act]| acts.iter().any(|act| matches!(act, Act::Reset { .. } | Act::Cancel { .. } | Act::Close { .. }));
    let left = left_of(&list, |acts| ends(acts));
    assert!(left.len() == 2 && left[1].starts_with("close"), "{left:?}");
    let left = left_of(&list, |acts| acts.iter().any(|act| matches!(act, Act::Reset { .. })));
    assert_eq!(left, ["open 1 over fresh", "send 1 START 1", "reset 1"]);
}

#[test]
fn nothing_is_tried_twice() {
    let filler: Vec<_> =
        (0..40).map(|n| conversation(n % 8, 0, u64::from(n), &["send 0 START 5", "send 0 END 7"])).collect();
    let mut whole = failure(filler);
    whole.conversations[3].acts = acts(&["send 0 START 13"]);
    let mut tried = std::collections::HashSet::new();
    let shrunk = shrink(whole, 10_000, &mut |smaller| {
        assert!(tried.insert(smaller.to_text()), "{}", smaller.to_text());
        fails(smaller)
    });
    assert_eq!((shrunk.failure.messages(), shrunk.is_minimal), (2, true));
}

#[test]
fn shrinking_ends_when_its_trials_are_used_up() {
    let list = ["send 0 START 13", "send 0 1", "send 0 2"];
    let mut asked = 0;
    let shrunk = shrink(failure(vec![conversation(0, 0, 0, &list)]), 2, &mut |_| {
        asked += 1;
        false
    });
    assert_eq!((shrunk.trials, asked, shrunk.is_minimal), (2, 2, false));
}

#[test]
fn what_the_model_computes_is_kept_where_it_is_not_the_usual() {
    let plain = failure(vec![conversation(0, 0, 0, &["send 0 START END 9223372036854775808"])]);
    assert!(!plain.to_text().contains("arithmetic"));
    let arithmetic = Arithmetic {
        datatype: Datatype::Fp32,
        formula: Formula::RunningSumPlusCorrid,
        initial_state: -3,
        answers: workload::answers::Answers::Several(2),
        value_bits: Some(16),
    };
    let accused = Some(Accused { step: 0, value: Datatype::Fp32.number(5), due: Some(Due::Rejection) });
    let other = Failure { arithmetic, accused, ..plain };
    let text = other.to_text();
    assert!(text.contains("datatype = \"FP32\"") && text.contains("START END -9223372036854775808"), "{text}");
    assert_eq!(Failure::from_text(&text).expect("the same"), other.renumbered());
}

#[test]
fn what_a_step_had_to_be_answered_with_is_known_where_the_violation_tells_it() {
    use workload::event::Code;
    let request = RequestId { worker: 3, context: 1, sequence: 7, step: 1 };
    let pattern = Pattern::NoStart;
    let step = Step { request, pattern, start: false, end: true, value: 7.into(), of: 2, special: None };
    let place =
        Place::new(ContextId { worker: 3, context: 1 }, CorrelationId(9.try_into().expect("not zero")), Some(step));
    let due = |evidence| {
        let violation = Violation {
            place: Some(place.clone()),
            ..Violation::of_the_run(ViolationKind::UnexpectedError, 0, evidence)
        };
        Accused::of(&violation).expect("a step").due
    };
    let failed = |has_to_be_rejected| Evidence::Failed { has_to_be_rejected, code: None, error: words() };
    assert_eq!(due(failed(true)), Some(Due::Rejection));
    assert_eq!(due(failed(false)), Some(Due::Answer));
    // Several reasons have a code, and which of them was due is not told.
    let other_code = Evidence::CodeOfRejection { expected: Code::Grpc(3), seen: Code::Grpc(13), error: words() };
    assert_eq!(due(other_code), None);
}
