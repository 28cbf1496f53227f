use std::num::NonZeroU64;

use super::*;
use oracle::{
    Evidence, Sent, ViolationKind,
    diagnosis::{Cause, Clue, Explanation, SequenceId},
};
use workload::{conversation::Transport, sequence::Pattern};

const MS: Nanos = 1_000_000;

/// Entries of worker `n`, whose ID is n + 1.
struct Scribe(Vec<Entry>);

impl Scribe {
    fn tell(&mut self, ms: u64, (worker, lane): (u32, u8), what: EventKind) -> &mut Self {
        let correlation_id = CorrelationId(NonZeroU64::MIN.saturating_add(worker.into()));
        let context = ContextId { worker, context: 0 };
        self.0.push(Entry { at: 7 * MS + ms * MS, context, correlation_id, lane: Lane(lane), what });
        self
    }

    fn sent(&mut self, ms: u64, place: (u32, u8), step: u32, flags: &str, value: i32) -> &mut Self {
        let (start, end) = (flags.contains("START"), flags.contains("END"));
        let (of, value) = (step + u32::from(end), value.into());
        let step =
            Step { request: request(place.0, step), pattern: Pattern::Valid, start, end, value, of, special: None };
        self.tell(ms, place, EventKind::Sent(step))
    }

    fn answered(&mut self, ms: u64, place: (u32, u8), step: u32, sum: i32) -> &mut Self {
        self.tell(ms, place, EventKind::Answered(request(place.0, step), sum.into(), None))
    }
}

fn request(worker: u32, step: u32) -> RequestId {
    RequestId { worker, context: 0, sequence: 0, step }
}

fn violation(kind: ViolationKind, ms: u64, worker: u32, step: u32) -> Violation {
    let id = CorrelationId(NonZeroU64::MIN.saturating_add(worker.into()));
    let request = request(worker, step);
    let (pattern, value) = (Pattern::Valid, 7.into());
    let step = Step { request, pattern, start: false, end: true, value, of: 2, special: None };
    let place = Place::new(ContextId { worker, context: 0 }, id, Some(step));
    let evidence = Evidence::Sum { expected: vec![12.into()], seen: 107.into(), disorder: None };
    let sequence = SequenceId { worker: 1, context: 0, sequence: 0 };
    let clue = Clue::StateOf { state: 100.into(), step: 1, sequence, id };
    let explanations = vec![Explanation::new(Cause::SwappedStates, [clue])];
    Violation { explanations, ..Violation::at(place, kind, 7 * MS + ms * MS, evidence) }
}

fn chart(scribe: Scribe, violation: &Violation) -> String {
    let mut out = Vec::new();
    let scene = Scene { entries: scribe.0, before: Vec::new() };
    write_chart(&scene, violation, &mut anstream::StripStream::new(&mut out)).expect("memory has room");
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn two_streams_are_two_columns() {
    let mut scribe = Scribe(Vec::new());
    scribe.tell(0, (0, 0), EventKind::Opened(Connection::Own, Transport::GrpcStream)).sent(1, (0, 0), 0, "START", 5);
    scribe.tell(2, (1, 0), EventKind::Opened(Connection::Own, Transport::GrpcStream)).sent(2, (1, 0), 0, "START", 100);
    scribe.answered(4, (0, 0), 0, 5).answered(4, (1, 0), 0, 100);
    scribe.sent(154, (0, 0), 1, "END", 7).answered(156, (0, 0), 1, 107).tell(157, (0, 0), EventKind::Closed);
    assert_eq!(
        chart(scribe, &violation(ViolationKind::WrongSum, 156, 0, 1)),
        "\
-> is sent by the client, <- by the server; #2 is the second request of its ID
       ms │ ID 1, worker 0                             │ ID 2, worker 1
      0.0 │ opens the stream                           │
      1.0 │ #1 START 5 ->                              │
      2.0 │                                            │ opens the stream
      2.0 │                                            │ #1 START 100 ->
      4.0 │ <- #1: 5                                   │
      4.0 │                                            │ <- #1: 100
        ⋮ 150 ms pass
    154.0 │ #2 END 7 ->                                │
    156.0 │ <- #2: 107                                 │
          │ ✗ expected 12                              │
    157.0 │ the stream is closed                       │
✗ wrong-sum, cause swapped-states
  A response is not the running sum of its sequence.
  where          at 0.163 s, worker 0, context 0, correlation ID 1, request
                 0-0-0-1
  sent           valid step 2/2 END value 7
  expected       12
  seen           107 (off by 95)
  cause          swapped-states: Two sequences were given each other's states.
                 Evidence: the step went on from 100, the state of sequence
                 1-0-0 (worker 1, context 0, correlation ID 1) after step 1
  read on        docs/VIOLATIONS.md#wrong-sum
                 sequence-stress explain wrong-sum"
    );
}

#[test]
fn everything_that_can_happen_has_words() {
    let error = |text: &str| {
        EventKind::Received(Box::new(Received {
            id: "0-0-0-0".into(),
            result: Err(text.into()),
            code: None,
            outputs: 0,
        }))
    };
    let rejection = "inference request for sequence 1 to model 'm' must specify the START flag on the first request of the sequence";
    let mut scribe = Scribe(Vec::new());
    scribe.tell(0, (0, 1), EventKind::Opened(Connection::Fresh, Transport::GrpcStream)).sent(
        1,
        (0, 1),
        0,
        "START END",
        i32::MIN,
    );
    scribe.tell(2, (0, 1), error(rejection)).tell(3, (0, 1), error("")).tell(4, (0, 1), error("the model is broken"));
    scribe.answered(5, (0, 1), 9, 1);
    scribe.tell(
        6,
        (0, 1),
        EventKind::Received(Box::new(Received { id: "x".into(), result: Err("no".into()), code: None, outputs: 0 })),
    );
    scribe.tell(7, (0, 1), EventKind::HalfClosed).tell(8, (0, 1), EventKind::Cut(Cut::Cancelled));
    scribe.tell(9, (0, 1), EventKind::Cut(Cut::Reset)).tell(10, (0, 1), EventKind::Cut(Cut::Broken("gone".into())));
    scribe.tell(11, (0, 1), EventKind::Cut(Cut::ByClient)).tell(12, (0, 1), EventKind::Cut(Cut::Interrupted));
    scribe.tell(13, (0, 1), EventKind::NotClosed).tell(
        14,
        (0, 1),
        EventKind::Opened(Connection::Neighbour, Transport::GrpcStream),
    );
    scribe.tell(15, (0, 1), EventKind::GaveUp);
    let mut lost = violation(ViolationKind::Lost, 15, 0, 0);
    lost.explanations.clear();
    assert_eq!(
        chart(scribe, &lost),
        "\
-> is sent by the client, <- by the server; #2 is the second request of its ID
       ms │ ID 1, stream 2
      0.0 │ opens the stream, new connection
      1.0 │ #1 START END -2147483648 ->
      2.0 │ <- #1 rejected: no START
      3.0 │ <- #1 cancelled
      4.0 │ <- #1 error: the model is broken
      5.0 │ <- request 0-0-0-9: 1
      6.0 │ <- request 'x' error: no
      7.0 │ half-closes the stream
      8.0 │ cancels the stream
      9.0 │ resets the connection
     10.0 │ <- the stream breaks: gone
     11.0 │ drops the stream, not to be trusted
     12.0 │ the run ends
     13.0 │ the stream stays open
     14.0 │ opens the stream, neighbour's connection
     15.0 │ gives up waiting
          │ ✗ expected 12
✗ lost
  A response, or one of several to a request, did not come within the longest
  lawful wait.
  where          at 0.022 s, worker 0, context 0, correlation ID 1, request
                 0-0-0-0
  sent           valid step 1/2 END value 7
  expected       12
  seen           107 (off by 95)
  read on        docs/VIOLATIONS.md#lost
                 sequence-stress explain lost"
    );
}

#[test]
fn many_streams_have_a_mark_each() {
    let mut scribe = Scribe(Vec::new());
    for worker in 0..6 {
        scribe.sent(worker.into(), (worker, 0), 0, "START", 5);
    }
    scribe.answered(9, (3, 0), 0, 107);
    assert_eq!(
        chart(scribe, &violation(ViolationKind::WrongSum, 9, 3, 0)).lines().skip(1).take(15).collect::<Vec<_>>(),
        [
            "          A: ID 1, worker 0",
            "          B: ID 2, worker 1",
            "          C: ID 3, worker 2",
            "          D: ID 4, worker 3",
            "          E: ID 5, worker 4",
            "          F: ID 6, worker 5",
            "       ms A B C D E F",
            "      0.0 ● · · · · · #1 START 5 ->",
            "      1.0 · ● · · · · #1 START 5 ->",
            "      2.0 · · ● · · · #1 START 5 ->",
            "      3.0 · · · ● · · #1 START 5 ->",
            "      4.0 · · · · ● · #1 START 5 ->",
            "      5.0 · · · · · ● #1 START 5 ->",
            "      9.0 · · · ● · · <- #1: 107",
            "          · · · ● · · ✗ expected 12",
        ]
    );
}

#[test]
fn of_much_there_is_what_matters_and_it_fits_a_screen() {
    let mut scribe = Scribe(Vec::new());
    scribe.sent(0, (70, 0), 0, "START", 5);
    for n in 0..5000 {
        scribe.sent(1 + u64::from(n), (n % 64, 0), n / 64, "", 1);
    }
    scribe.sent(6000, (70, 0), 1, "END", 7).answered(6001, (70, 0), 1, 107);
    for n in 5000..6000 {
        scribe.sent(2000 + u64::from(n), (n % 64, 0), n / 64, "", 1);
    }
    let text = chart(scribe, &violation(ViolationKind::WrongSum, 6001, 70, 1));
    assert!(text.lines().count() < COLUMNS + ROWS + 30, "{text}");
    for needed in ["#1 START 5 ->", "#2 END 7 ->", "<- #2: 107", "✗ expected 12", " … 4", "1000 ms pass", "… 9"] {
        assert!(text.contains(needed), "{needed} in\n{text}");
    }
}

#[test]
fn a_violation_of_the_whole_run_and_one_without_events_have_charts_too() {
    let mut scribe = Scribe(Vec::new());
    scribe.sent(0, (0, 0), 0, "START END", 5).answered(1, (0, 0), 0, 5);
    let evidence = Evidence::Pending { sent: Sent { requests: 1, answered: 1 }, seen: 2, all_slots_free: false };
    let statistics = Violation::of_the_run(ViolationKind::PendingLeft, 90 * MS, evidence);
    let text = chart(scribe, &statistics);
    assert!(text.contains("<- #1: 5\n✗ pending-left\n") && !text.contains("✗ expected"), "{text}");
    let text = chart(Scribe(Vec::new()), &statistics);
    assert!(text.starts_with("what was sent and answered is not known\n✗ pending-left\n"), "{text}");
}
