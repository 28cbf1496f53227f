//! Iterations as acts.

use std::{collections::BTreeMap, num::NonZeroU64};

use super::*;
use crate::{
    conversation::{Transport, fresh_connections},
    scenario::{ConnectionOwner, Overrides, Scenario, Source, Window},
    sequence::CorrelationId,
};

fn iteration(pattern: Pattern, twist: Option<Twist>) -> Iteration {
    let flaws = || if pattern == Pattern::Malformed { [(1, Flaw::BatchOfTwo)].into() } else { BTreeMap::new() };
    let sequence = |first| Sequence {
        start: true,
        end: true,
        values: (first..first + 4).collect(),
        flaws: flaws(),
        ..Sequence::default()
    };
    Iteration {
        worker: 0,
        iteration: 0,
        context: 0,
        correlation_id: CorrelationId(NonZeroU64::MIN),
        pattern,
        sequences: vec![sequence(10), sequence(20)],
        think_ms: 0,
        due_us: Vec::new(),
        twist,
        over: vec![Transport::Http, Transport::GrpcStream, Transport::GrpcUnary, Transport::Http],
        deadline_ms: Some(7),
    }
}

/// What an iteration does, a letter for each act.
fn done(iteration: &Iteration, reuse: Reuse, stream: StreamLife) -> String {
    let sending = Sending {
        transport: None,
        reuse,
        stream,
        connection: ConnectionOwner::PerContext,
        window: Window::All,
        deadline_ms: None,
    };
    let manner =
        Manner { after_answers: false, idle_limit: Duration::from_millis(100), batches: true, one_step: false };
    short(&iteration.acts(&sending, manner))
}

/// One letter for each act, with its lane.
fn short(acts: &[Act]) -> String {
    let letter = |act: &Act| match act {
        Act::Open { lane, over, by, within_us } => {
            let by = by.map(|by| format!("/{by}")).unwrap_or_default();
            let within = within_us.map(|us| format!("<={us}")).unwrap_or_default();
            format!("o{}{over:?}{by}{within}", lane.0)
        }
        Act::Send { lane, value, special: None, .. } => format!("{}:{value}", lane.0),
        Act::Send { lane, value, special: Some(Special::Flaw(flaw)), .. } => format!("{}:{value}!{flaw}", lane.0),
        Act::Send { lane, value, special: Some(Special::TimeoutUs(us)), .. } => format!("{}:{value}<={us}", lane.0),
        Act::Await { lane, unanswered } => format!("a{}<={unanswered}", lane.0),
        Act::Pause { us } => format!("p{us}"),
        Act::At { us } => format!("@{us}"),
        Act::HalfClose { lane } => format!("h{}", lane.0),
        Act::Close { lane } => format!("c{}", lane.0),
        Act::Cancel { lane } => format!("x{}", lane.0),
        Act::Reset { lane } => format!("r{}", lane.0),
        Act::StopReading { us } => format!("n{us}"),
        Act::Kill { lane } => format!("k{}", lane.0),
    };
    acts.iter().map(letter).collect::<Vec<_>>().join(" ")
}

#[test]
fn sequences_go_out_as_bursts() {
    let iteration = iteration(Pattern::ValidValid, None);
    for (reuse, stream, expected) in [
        (Reuse::Pipelined, StreamLife::PerSequence, "0:10 0:11 0:12 0:13 0:20 0:21 0:22 0:23 a0<=0 c0"),
        (Reuse::Pipelined, StreamLife::PerContext, "0:10 0:11 0:12 0:13 0:20 0:21 0:22 0:23 a0<=0"),
        (Reuse::AfterResponse, StreamLife::PerSequence, "0:10 0:11 0:12 0:13 a0<=0 c0 0:20 0:21 0:22 0:23 a0<=0 c0"),
    ] {
        assert_eq!(done(&iteration, reuse, stream), expected);
    }
}

#[test]
fn steps_with_times_of_their_own_are_due_from_the_second_on() {
    let timed =
        |pattern, twist| Iteration { due_us: (0..8).map(|step| step * 10).collect(), ..iteration(pattern, twist) };
    let done = |iteration| done(&iteration, Reuse::Pipelined, StreamLife::PerSequence);
    assert_eq!(
        done(timed(Pattern::ValidValid, None)),
        "0:10 @10 0:11 @20 0:12 @30 0:13 @40 0:20 @50 0:21 @60 0:22 @70 0:23 a0<=0 c0"
    );
    let twist = Twist { after: 2, pause_percent: 50, lanes: 3 };
    assert_eq!(done(timed(Pattern::Pause, Some(twist))), "0:10 @10 0:11 a0<=0 p50000 @20 0:12 @30 0:13 a0<=0 c0");
}

#[test]
fn clients_faults_are_acts() {
    let twist = Twist { after: 2, pause_percent: 50, lanes: 3 };
    for (pattern, expected) in [
        (Pattern::Pause, "0:10 0:11 a0<=0 p50000 0:12 0:13 a0<=0 c0"),
        (Pattern::CancelQueued, "0:10 0:11 0:12 0:13 a0<=3 x0"),
        (Pattern::CancelExecuting, "0:10 a0<=0 0:11 a0<=0 0:12 p2000 x0"),
        (Pattern::CancelIdle, "0:10 0:11 a0<=0 x0"),
        (Pattern::CancelRestart, "0:10 0:11 0:12 0:13 a0<=3 x0 o1Neighbour 1:20 1:21 1:22 a1<=0 1:23 a1<=0 c1"),
        (Pattern::HalfClose, "0:10 0:11 0:12 0:13 h0 a0<=0 c0"),
        (Pattern::Reset, "o1Fresh 1:10 1:11 1:12 1:13 a1<=3 r1"),
        (Pattern::StopReading, "o1Narrow 1:10 1:11 1:12 1:13 a1<=3 n50000 a1<=0 c1"),
        (Pattern::KillClient, "o1Process 1:10 1:11 1:12 1:13 a1<=3 k1"),
        (Pattern::ContinueElsewhere, "0:10 0:11 a0<=0 o1Fresh 1:12 1:13 a1<=0 c1 c0"),
        (Pattern::ContinueByNeighbour, "0:10 0:11 a0<=0 o1Neighbour 1:12 1:13 a1<=0 c1 c0"),
        (Pattern::RestartElsewhere, "0:10 0:11 0:12 0:13 o1Neighbour 1:20 1:21 1:22 1:23 a0<=0 a1<=0 c1 c0"),
        (
            Pattern::Concurrent,
            "0:10 a0<=0 o1Neighbour o2Fresh a0<=3 0:11 a1<=3 1:12 a0<=0 a1<=0 a2<=0 0:13 a0<=0 c1 c2 c0",
        ),
        (
            Pattern::SharedId,
            "o1Neighbour a0<=3 0:10 a1<=3 1:20 a0<=3 0:11 a1<=3 1:21 a0<=3 0:12 a1<=3 1:22 a0<=3 0:13 a1<=3 1:23 \
             a0<=0 a1<=0 c1 c0",
        ),
        (Pattern::MixedTransports, "o1Own/http 1:10 a1<=0 0:11 a0<=0 o2Own/grpc-unary 2:12 a2<=0 1:13 a1<=0 c1 c2 c0"),
        (Pattern::Deadline, "0:10 a0<=0 o1Fresh<=7000 1:11 a1<=0 c1 0:12 0:13 a0<=0 c0"),
        (Pattern::Malformed, "0:10 0:11!batch-2 0:12 0:13 0:20 0:21!batch-2 0:22 0:23 a0<=0 c0"),
        (Pattern::Timeout, "0:10<=50000 0:11 0:12<=25000 0:13 0:20<=50000 0:21 0:22<=25000 0:23 a0<=0 c0"),
    ] {
        let done = done(&iteration(pattern, Some(twist)), Reuse::Pipelined, StreamLife::PerSequence);
        assert_eq!(done, expected, "{pattern}");
    }
}

#[test]
fn start_is_within_the_deadline_or_not_and_end_is_not() {
    for (after, expected) in [
        (1, "a0<=0 o1Fresh<=7000 1:10 1:11 a1<=0 c1 0:12 0:13 a0<=0 c0"),
        (3, "0:10 0:11 a0<=0 o1Fresh<=7000 1:12 a1<=0 c1 0:13 a0<=0 c0"),
        (9, "0:10 0:11 a0<=0 o1Fresh<=7000 1:12 a1<=0 c1 0:13 a0<=0 c0"),
    ] {
        let twist = Twist { after, pause_percent: 50, lanes: 3 };
        let done = done(&iteration(Pattern::Deadline, Some(twist)), Reuse::Pipelined, StreamLife::PerSequence);
        assert_eq!(done, expected, "{after}");
    }
}

#[test]
fn the_starts_of_several_ids_share_a_stream_and_the_next_start_of_an_id_comes_behind_the_others() {
    let twist = Twist { after: 2, pause_percent: 50, lanes: 3 };
    let mut iteration = iteration(Pattern::SharedStream, Some(twist));
    iteration.sequences = [(0, 10), (1, 20), (0, 30)]
        .map(|(id, first)| Sequence {
            id,
            start: true,
            end: true,
            values: (first..first + 3).collect(),
            ..Sequence::default()
        })
        .into();
    assert_eq!(
        done(&iteration, Reuse::Pipelined, StreamLife::PerSequence),
        "o1Own o2Own o3Own 1:10 1:20 p2000 2:11 3:21 2:12 1:30 p2000 2:31 3:22 2:32 a2<=0 c2 a3<=0 c3 a1<=0 c1"
    );
}

#[test]
fn calls_are_cut_while_one_is_executed() {
    let twist = Twist { after: 2, pause_percent: 50, lanes: 3 };
    for (pattern, expected) in [
        (Pattern::Reset, "o1Fresh 1:10 1:11 1:12 p2000 r1"),
        (Pattern::KillClient, "o1Process 1:10 1:11 1:12 p2000 k1"),
    ] {
        let unary = Source::from_text("test", "sending.transport = 'grpc-unary'");
        let scenario = Scenario::resolve(&unary, Overrides::default()).expect("a scenario");
        let manner =
            Manner { after_answers: false, idle_limit: Duration::from_millis(100), batches: true, one_step: false };
        let acts = iteration(pattern, Some(twist)).acts(&scenario.populations[0].sending, manner);
        assert_eq!(short(&acts), expected, "{pattern}");
    }
}

#[test]
fn no_pattern_makes_more_connections_than_are_counted() {
    for pattern in Pattern::ALL {
        let weights = format!("patterns.common = {{ {pattern} = 1 }}\npatterns.rare = {{ valid = 1 }}");
        let source = Source::from_text("test", &weights);
        let scenario = Scenario::resolve(&source, Overrides::default()).expect("a scenario");
        let counted = fresh_connections_of(&scenario.populations[0]);
        let twist = Twist { after: 2, pause_percent: 50, lanes: *LANES.end() };
        let manner =
            Manner { after_answers: false, idle_limit: Duration::from_millis(100), batches: true, one_step: false };
        let acts = iteration(pattern, Some(twist)).acts(&scenario.populations[0].sending, manner);
        assert_eq!(fresh_connections(&acts), counted, "{pattern}");
    }
}
