//! Failures that are had again, and made small.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::tool::{run, text, tool, words};
use reference::{Fault, ModelOptions, Options, Planted, Server, ServerSetup};
use sequence_stress::failure::Failure;
use tempfile::TempDir;
use workload::{
    conversation::{Act, Conversation, parse_acts},
    sequence::Pattern,
};

/// A failure that a fault in the embedded server leads to, written by a run.
fn failure(folder: &TempDir, fault: &str) -> PathBuf {
    let scenario = folder.path().join("scenario.toml");
    let quick = "patterns = { common = { valid = 7, valid-valid = 1, no-start = 1 }, rare = { valid = 1 } }\nload.workers = 4\nload.iterations = 20\nlimits.step_ms = 1\nlimits.quiet_ms = 20\nlimits.settle_ms = 300";
    fs::write(&scenario, quick).expect("a file");
    let path = folder.path().join("failure.toml");
    // No sequence is to go idle, however busy the machine is.
    let server = ["--embedded", "--execution-time", "1ms", "--idle-limit", "3s", "--fault", fault];
    let run_of = ["--scenario", words(&scenario), "-r", "7", "-q", "--fail-fast", "--failure", words(&path)];
    let output = run(&[&server[..], &run_of].concat());
    assert_eq!(output.status.code(), Some(1), "{fault}: {}", text(&output));
    path
}

#[test]
fn failures_shrink_to_the_few_messages_that_they_need() {
    for (fault, most) in [
        ("execute-twice", 1),
        ("off-by-one", 1),
        ("reset-state", 2),
        ("reject-mid-sequence", 2),
        ("keep-state", 3),
        // How many it takes for two to meet in a batch is up to the server.
        ("swap-states", 20),
        ("accept-no-start", 3),
    ] {
        let folder = TempDir::new().expect("a folder");
        let path = failure(&folder, fault);
        let whole = Failure::read(&path).expect("a failure");
        let output = run(&["replay", words(&path), "--shrink"]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{fault}: {said}");
        // Whether two sequences meet in a batch is up to the server: what is left may fail seldom.
        let is_seldom = fault == "swap-states" && said.contains("it fails seldom, too");
        assert!(is_seldom || said.contains("each is needed"), "{fault}: {said}");
        let small = folder.path().join("failure.small.toml");
        let left = Failure::read(&small).expect("a failure");
        assert!(left.messages() <= most && left.messages() < whole.messages(), "{fault}: {said}");
        assert!(said.contains("-> is sent by the client") && said.contains("✗ expected"), "a chart: {said}");
        assert!(said.contains("3 runs") && said.contains("a seed fixes what is sent"), "a rate: {said}");
        assert_eq!(left.kind, whole.kind, "{fault}");
        let again = run(&["replay", words(&small), "-n", "20"]);
        assert_eq!(again.status.code(), Some(1), "{fault}: {}", text(&again));
        assert!(text(&again).contains("run 20 of 20"), "{fault}: {}", text(&again));
    }
}

/// The conversations of a failure, each time without another one of its messages.
fn without_one_message(failure: &Failure) -> Vec<Vec<Conversation>> {
    let sends = |its: &Conversation| {
        let is_send = |act: &Act| matches!(act, Act::Send { .. });
        its.acts.iter().enumerate().filter(|(_, act)| is_send(act)).map(|(place, _)| place).collect::<Vec<_>>()
    };
    let without = |index: usize, place: usize| {
        let mut conversations = failure.conversations.clone();
        let its = conversations.remove(index);
        let left = its.acts.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, act)| *act);
        conversations.extend(its.with_acts(left));
        conversations
    };
    let places = |index: usize| sends(&failure.conversations[index]).into_iter().map(move |place| (index, place));
    (0..failure.conversations.len()).flat_map(places).map(|(index, place)| without(index, place)).collect()
}

#[test]
fn without_any_one_message_of_what_is_left_it_does_not_fail() {
    for fault in ["reset-state", "accept-no-start", "keep-state"] {
        let folder = TempDir::new().expect("a folder");
        let small = folder.path().join("small.toml");
        let output = run(&["replay", words(&failure(&folder, fault)), "--shrink", "-q", "-o", words(&small)]);
        assert_eq!(output.status.code(), Some(1), "{fault}: {}", text(&output));
        let left = Failure::read(&small).expect("a failure");
        let smaller = without_one_message(&left);
        assert_eq!(smaller.len(), left.messages(), "{fault}");
        for conversations in smaller.into_iter().filter(|conversations| !conversations.is_empty()) {
            let smaller = Failure { conversations, ..left.clone() };
            fs::write(&small, smaller.to_text()).expect("a file");
            let output = run(&["replay", words(&small), "-n", "3"]);
            assert_eq!(output.status.code(), Some(0), "{fault}: {}\n{}", smaller.to_text(), text(&output));
            assert!(text(&output).contains("did not fail in 3 runs; more runs may show it (-n)"), "{}", text(&output));
        }
    }
}

/// A server, as failure files have it.
fn setup(server: &str) -> ServerSetup {
    toml::from_str(server).expect("a server")
}

/// A failure that has to be written by hand, because a run has it only now and then.
fn by_hand(folder: &TempDir, acts: &[&str], more: &[(u64, &[&str])], server: &str) -> PathBuf {
    let template = Failure::read(&failure(folder, "off-by-one")).expect("a failure");
    let conversation = |worker, at_us, acts: &[&str]| {
        let acts = parse_acts(&acts.iter().map(|act| (*act).to_owned()).collect::<Vec<_>>()).expect("acts");
        Conversation { worker, context: 0, pattern: Pattern::Valid, at_us, accused: false, acts }
    };
    let mut conversations = vec![conversation(0, 0, acts)];
    conversations.extend((1..).zip(more).map(|(worker, (at_us, acts))| conversation(worker, *at_us, acts)));
    let path = folder.path().join("by-hand.toml");
    let failure = Failure { conversations, embedded: Some(setup(server)), ..template };
    fs::write(&path, failure.to_text()).expect("a file");
    path
}

#[test]
fn pauses_and_beginnings_are_kept_and_at_once_they_are_not() {
    let folder = TempDir::new().expect("a folder");
    let late: (u64, &[&str]) = (400_000, &["send 0 START END 1"]);
    let path = by_hand(&folder, &["pause 300000 us", "send 0 START END 1"], &[late], "idle-limit = '1s'");
    let began = Instant::now();
    let output = run(&["replay", words(&path)]);
    assert!(began.elapsed() >= Duration::from_millis(400), "{}", text(&output));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let at_once = Failure::read(&path).expect("a failure").at_once();
    assert!(at_once.conversations.iter().all(|its| its.at_us == 0 && its.acts.len() == 1), "{at_once:?}");
}

#[test]
fn nothing_is_waited_for_once_it_has_failed() {
    let folder = TempDir::new().expect("a folder");
    let hour = 3_600_000_000;
    let pauses: (u64, &[&str]) = (0, &["send 0 START 1", "await 0", "pause 3600000000 us", "send 0 END 2"]);
    let late: (u64, &[&str]) = (hour, &["send 0 START END 1"]);
    let path =
        by_hand(&folder, &["pause 200000 us", "send 0 START END 1"], &[pauses, late], "fault = ['off-by-one:once@2']");
    // It would take an hour.
    let output = run(&["replay", words(&path)]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("failed in 1 of 1 run"), "{}", text(&output));
}

#[test]
fn who_waits_for_nothing_after_a_cut_does_not_find_that_the_server_hangs() {
    let folder = TempDir::new().expect("a folder");
    // The pause is longer than the limit of an answer, which follows from the idle limit; and that is longer than a busy machine pauses.
    let acts = ["send 0 START 1", "cancel 0", "pause 4000000 us", "send 0 START END 2"];
    let path = by_hand(&folder, &acts, &[], "execution-time = '1ms'\nidle-limit = '500ms'");
    let quick = fs::read_to_string(&path).expect("a file").replace("lost_after_ms = 5000", "lost_after_ms = 1");
    assert!(quick.contains("lost_after_ms = 1\n"), "{quick}");
    fs::write(&path, quick).expect("a file");
    let output = run(&["replay", words(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_stream_that_is_half_closed_ends_before_another_takes_its_place() {
    let folder = TempDir::new().expect("a folder");
    for (server, code) in [("execution-time = '1ms'", 0), ("execution-time = '1ms'\nfault = ['never-close']", 1)] {
        let path = by_hand(&folder, &["send 0 START END 1", "half-close 0", "await 0"], &[], server);
        let mut twice = Failure::read(&path).expect("a failure");
        let again = twice.conversations[0].clone();
        twice.conversations.push(Conversation { at_us: 1, ..again });
        fs::write(&path, twice.to_text()).expect("a file");
        let output = run(&["replay", words(&path)]);
        assert_eq!(output.status.code(), Some(code), "{server}: {}", text(&output));
        assert_eq!(text(&output).contains("stream-not-closed"), code == 1, "{}", text(&output));
    }
}

#[test]
fn who_waits_for_a_slot_behind_many_short_pauses_is_not_lost() {
    let folder = TempDir::new().expect("a folder");
    let acts =
        [&["send 0 START 1"][..], &["await 0", "pause 150000 us", "send 0 1"].repeat(12), &["send 0 END 2"]].concat();
    let waits: (u64, &[&str]) = (50_000, &["send 0 START END 1"]);
    let server = "instances = 1\nmax-batch-size = 1\nexecution-time = '1ms'\nidle-limit = '400ms'";
    let path = by_hand(&folder, &acts, &[waits], server);
    let output = run(&["replay", words(&path)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_server_that_dies_too_early_does_not_end_the_shrinking() {
    let folder = TempDir::new().expect("a folder");
    let path = failure(&folder, "crash:once@300");
    let output = run(&["replay", words(&path), "--shrink", "-n", "1", "--trials", "20"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("left of") && said.contains("20 trials"), "{said}");
}

#[test]
fn what_is_seen_while_the_slots_are_counted_is_had_again() {
    let folder = TempDir::new().expect("a folder");
    let path = by_hand(&folder, &["send 0 START END 1"], &[], "execution-time = '1ms'\nfault = ['off-by-one:once@3']");
    let seen = Failure { at_the_slots: true, ..Failure::read(&path).expect("a failure") };
    fs::write(&path, seen.to_text()).expect("a file");
    let output = run(&["replay", words(&path)]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("failed in 1 of 1 run"), "{}", text(&output));
}

#[test]
fn a_fault_that_happens_once_is_made_to_happen_early_and_other_faults_go() {
    let folder = TempDir::new().expect("a folder");
    let one_after_the_other = ["send 0 START END 1", "await 0"].repeat(40);
    let faults = "execution-time = '1ms'\nfault = ['off-by-one:once@35', 'keep-state:0']";
    let path = by_hand(&folder, &one_after_the_other, &[], faults);
    let small = folder.path().join("small.toml");
    let output = run(&["replay", words(&path), "--shrink", "-o", words(&small)]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("off-by-one:once@35 needs as many chances"), "{said}");
    let left = Failure::read(&small).expect("a failure");
    assert_eq!((left.messages(), said.contains("each is needed")), (1, true), "{said}");
    let server = setup("execution-time = '1ms'\nfault = ['off-by-one:once@1']");
    assert_eq!(left.embedded, Some(server), "{said}");
}

#[test]
fn pauses_and_faults_of_the_client_that_are_not_needed_go_and_those_that_are_stay() {
    let folder = TempDir::new().expect("a folder");
    let path = by_hand(
        &folder,
        &[
            "send 0 START 1",
            "await 0",
            "pause 200000 us",
            "open 1 over fresh",
            "send 1 2",
            "await 1",
            "pause 100000 us",
            "reset 1",
            "open 2 over neighbour",
            "send 2 END 3",
            "await 2",
            "cancel 2",
        ],
        &[(100_000, &["send 0 START END 1"])],
        "execution-time = '1ms'\nidle-limit = '500ms'\nfault = ['off-by-one']",
    );
    let small = folder.path().join("small.toml");
    let output = run(&["replay", words(&path), "--shrink", "-o", words(&small)]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let left = Failure::read(&small).expect("a failure");
    let acts: Vec<_> = left.conversations.iter().flat_map(|its| &its.acts).map(ToString::to_string).collect();
    assert_eq!((left.conversations.len(), acts.len()), (1, 1), "{said}");
    assert!(left.conversations[0].accused, "{said}");

    // A sequence that is reaped too early: without the pause it goes on; its END is not needed.
    let acts =
        ["send 0 START 1", "await 0", "pause 400000 us", "open 1 over fresh", "send 1 END 3", "await 1", "close 1"];
    let path = by_hand(&folder, &acts, &[], "execution-time = '1ms'\nidle-limit = '800ms'\nfault = ['reap-early']");
    let early = fs::read_to_string(&path).expect("a file").replace("wrong-sum", "spurious-start-error");
    fs::write(&path, early).expect("a file");
    let output = run(&["replay", words(&path), "--shrink", "-o", words(&small)]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let left = Failure::read(&small).expect("a failure");
    let acts: Vec<_> = left.conversations[0].acts.iter().map(ToString::to_string).collect();
    let [first, .., last] = acts.as_slice() else { panic!("{said}") };
    assert_eq!((left.messages(), first.as_str(), last.as_str()), (2, "send 0 START 1", "send 0 3"), "{said}");
    let pauses = left.conversations[0].acts.iter().filter_map(|act| match act {
        Act::Pause { us } => Some(*us),
        _ => None,
    });
    assert!(matches!(pauses.collect::<Vec<_>>().as_slice(), [10_000..=200_000]), "{said}");
}

#[test]
fn a_history_gives_the_failure_that_its_run_gave() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (live, history, again) = (path("live.toml"), path("run.jsonl"), path("again.toml"));
    let server = ["--embedded", "--execution-time", "1ms", "--idle-limit", "100ms", "--fault", "swap-states"];
    let asked = [
        "-t",
        "4",
        "-i",
        "10",
        "-r",
        "7",
        "-q",
        "--fail-fast",
        "--history",
        words(&history),
        "--failure",
        words(&live),
    ];
    let output = run(&[&server[..], &asked].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let output = run(&["check", words(&history), "-q", "--failure", words(&again)]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let failures = [live, again.clone()].map(|path| Failure::read(&path).expect("a failure"));
    assert_eq!(failures[0], failures[1]);
    let accused = failures[0].conversations.iter().filter(|its| its.accused).count();
    assert_eq!(accused, 1);
    assert!(failures[0].conversations.iter().any(|its| its.at_us > 0), "they did not all begin at once");
    let output = run(&["check", words(&history), words(&history), "--failure", words(&again)]);
    assert_eq!((output.status.code(), text(&output).lines().count()), (Some(2), 1), "{}", text(&output));
}

#[test]
fn a_chart_is_shown_of_what_is_small_or_asked_for() {
    let folder = TempDir::new().expect("a folder");
    let path = failure(&folder, "reset-state");
    assert!(Failure::read(&path).expect("a failure").messages() > 40);
    let chart = "-> is sent by the client";
    for (flags, is_shown) in [(&[][..], false), (&["--chart"], true), (&["--chart", "-q", "--at-once"], true)] {
        let said = text(&run(&[&["replay", words(&path)], flags].concat()));
        assert_eq!(said.contains(chart), is_shown, "{said}");
        let chart = said.lines().skip_while(|line| !line.contains(chart));
        assert!(chart.take_while(|line| !line.contains("failed in")).all(|line| line.chars().count() <= 100), "{said}");
    }
    let path = by_hand(&folder, &["send 0 START END 1"], &[], "fault = ['off-by-one']");
    for (flags, is_shown) in [(&[][..], true), (&["-q"], false)] {
        let said = text(&run(&[&["replay", words(&path)], flags].concat()));
        assert_eq!(said.contains(chart), is_shown, "{said}");
    }
    let path = by_hand(&folder, &["send 0 START END 1"], &[], "execution-time = '1ms'");
    let said = text(&run(&["replay", words(&path), "--chart"]));
    assert!(said.contains("no chart: there is one of a run that failed, and none did"), "{said}");
}

#[test]
fn a_replay_that_is_interrupted_says_what_it_knows() {
    let folder = TempDir::new().expect("a folder");
    let path = by_hand(&folder, &["send 0 START END 1"], &[], "execution-time = '1ms'");
    let mut child =
        tool().args(["replay", words(&path), "-n", "100000"]).stdout(Stdio::piped()).spawn().expect("the command runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("UTF-8");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let rest: Vec<_> = lines.map(|line| line.expect("UTF-8")).collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(3), "{rest:?}");
    assert!(first.starts_with("run 1 of 100000: no violation"), "{first}");
    assert!(rest.iter().any(|line| line.contains(": did not fail in ")), "{rest:?}");
}

#[test]
fn a_failure_does_not_show_on_a_correct_server() {
    let folder = TempDir::new().expect("a folder");
    let path = failure(&folder, "reset-state");
    let mended = fs::read_to_string(&path).expect("a file").replace("\"reset-state\"", "\"reset-state:0\"");
    fs::write(&path, mended).expect("a file");
    let output = run(&["replay", words(&path), "-n", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(
        text(&output).contains("wrong-sum: did not fail in 2 runs; more runs may show it (-n)"),
        "{}",
        text(&output)
    );
    assert!(!text(&output).contains("-u"), "it ran where it was found: {}", text(&output));
    let output = run(&["replay", words(&path), "--shrink", "-q"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("nothing to shrink; more runs may show it"), "{}", text(&output));
}

#[test]
fn what_cannot_be_replayed_is_told_in_a_line() {
    let folder = TempDir::new().expect("a folder");
    let path = failure(&folder, "reset-state");
    let good = fs::read_to_string(&path).expect("a file");
    for (from, to, problem) in [
        ("\"reset-state\"", "\"nothing\"", "its embedded server: there is no fault 'nothing'"),
        ("send 0 START", "send 0 STRAT", "is no act"),
        ("version = 1", "version = 9", "its version is 9"),
    ] {
        let broken = folder.path().join("broken.toml");
        fs::write(&broken, good.replace(from, to)).expect("a file");
        let output = run(&["replay", words(&broken)]);
        let said = text(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(problem), "{said}");
    }
    let written = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a file");
        path
    };
    for (path, problem) in [
        (
            written("run.jsonl", b"{\"format\":\"sequence-stress-history\",\"version\":1}\n"),
            "it is a history; `sequence-stress check ",
        ),
        (written("run.jsonl.zst", &[0x28, 0xb5, 0x2f, 0xfd, 0]), "--failure OUT` makes a failure file of it"),
        (written("binary", &[0, 0xff, 1]), "it is no text; --failure of a run, or of `sequence-stress check`, writes"),
        (written("notes.txt", b"nothing of the kind"), "it is no failure file; --failure of a run"),
        (written("scenario.toml", b"load.workers = 1"), "it is no failure file; --failure of a run"),
        (folder.path().to_owned(), "it is a directory; --failure of a run"),
    ] {
        let output = run(&["replay", words(&path)]);
        let said = text(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(problem), "{said}");
    }
    for arguments in [
        &["replay", "no/such/file"][..],
        &["replay", words(&path), "--shrink", "-o", "/no/such/folder/x"],
        &["replay", words(&path), "--shrink", "--at-least", "4"],
    ] {
        let output = run(arguments);
        assert_eq!((output.status.code(), text(&output).lines().count()), (Some(2), 1), "{}", text(&output));
    }
    let nobody = run(&["replay", words(&path), "-u", "127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(4), "{}", text(&nobody));
    let other = folder.path().join("other.toml");
    fs::write(&other, good.replace("custom_sequence_int32", "some_model")).expect("a file");
    for flags in [&[][..], &["--shrink"]] {
        let output = run(&[&["replay", words(&other)], flags].concat());
        let said = text(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(4), 1), "{said}");
        assert!(said.contains("the server has no model 'some_model'; it has "), "{said}");
    }
}

#[test]
fn a_model_that_is_loaded_anew_has_not_kept_what_a_run_broke() {
    let folder = TempDir::new().expect("a folder");
    let path = by_hand(&folder, &["send 0 START END 1"], &[], "");
    let leak = fs::read_to_string(&path).expect("a file").replace("wrong-sum", "slot-leak");
    fs::write(&path, leak).expect("a file");
    for (flags, seen) in
        [(&[][..], "slot-leak: failed in 3 of 3 runs"), (&["--reload"], "slot-leak: failed in 1 of 3 runs")]
    {
        let models = ModelOptions { idle_limit: Duration::from_millis(300), ..ModelOptions::default() };
        let faults = vec![Planted::once(Fault::LeakSlotAtEnd, 1)];
        let server = Server::start(Options { models, faults, ..Options::default() }).expect("a free port");
        let url = server.address.to_string();
        let output = run(&[&["replay", words(&path), "-n", "3", "-u", &url], flags].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains(seen), "{flags:?}: {}", text(&output));
    }
}
