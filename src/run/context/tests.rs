//! What a context does next, as its requests are sent and answered.

use std::num::{NonZeroU16, NonZeroU32};

use super::*;

const SECOND: Lane = Lane(1);

fn send(lane: Lane, sequence: u32, step: u32) -> Act {
    let value = (10 * sequence + step).into();
    Act::Send {
        lane,
        id: 0,
        sequence,
        step,
        of: 2,
        start: step == 0,
        end: step == 1,
        value,
        elements: NonZeroU16::MIN,
        special: None,
    }
}

fn context(window: Window, acts: Vec<Act>) -> StreamContext {
    let id = ContextId { worker: 3, context: 1 };
    let mut context = StreamContext::new(id, window, Transport::GrpcStream, Arithmetic::default());
    context.begin(Pattern::ValidValid, acts, 7, None);
    context
}

fn two_sequences(window: Window) -> StreamContext {
    context(window, vec![send(Lane::FIRST, 0, 0), send(Lane::FIRST, 0, 1), send(Lane::FIRST, 1, 0)])
}

fn send_all(context: &mut StreamContext, now: Nanos) -> Vec<Step> {
    let mut sent = Vec::new();
    while let Next::Send(lane, step) = context.next(now) {
        context.on_sent(lane, &step, now);
        sent.push(step);
    }
    sent
}

#[test]
fn steps_go_out_back_to_back_with_their_names() {
    let mut context = two_sequences(Window::All);
    let seen: Vec<_> =
        send_all(&mut context, 0).iter().map(|s| (s.request.to_string(), s.start, s.end, s.value.value())).collect();
    let expected = [("3-1-7-0", true, false, 0), ("3-1-7-1", false, true, 1), ("3-1-8-0", true, false, 10)];
    assert_eq!(seen, expected.map(|(id, start, end, value)| (id.to_owned(), start, end, value)));
    assert_eq!(context.next(0), Next::Wait(None));
}

#[test]
fn what_needs_a_queue_has_it_whatever_the_window() {
    let mut context = two_sequences(Window::Steps(NonZeroU32::MIN));
    context.pattern = Pattern::CancelQueued;
    assert_eq!(send_all(&mut context, 0).len(), 3);
}

#[test]
fn a_window_holds_steps_back_until_answers_come() {
    let mut context = two_sequences(Window::Steps(NonZeroU32::new(2).expect("not zero")));
    let sent = send_all(&mut context, 0);
    assert_eq!((sent.len(), context.next(0)), (2, Next::Wait(None)));
    context.on_outcome(Lane::FIRST, sent[1].request);
    assert_eq!(send_all(&mut context, 1).len(), 1);
    assert!(!context.is_done());
}

#[test]
fn calls_are_made_one_by_one_whatever_the_window() {
    let acts = [
        send(Lane::FIRST, 0, 0),
        Act::Open { lane: SECOND, over: Connection::Own, by: Some(Transport::Http), within_us: None },
    ];
    let acts: Vec<_> = acts.into_iter().chain([send(SECOND, 0, 1), send(SECOND, 1, 0)]).collect();
    let mut context = context(Window::All, acts);
    context.pattern = Pattern::Burst;
    // The act in between ends the first of them.
    assert_eq!((send_all(&mut context, 0).len(), send_all(&mut context, 0).len()), (1, 1));
    assert_eq!(context.next(0), Next::Wait(None), "the lane of calls carries one");
}

#[test]
fn answers_are_awaited_and_pauses_kept() {
    let acts = vec![
        send(Lane::FIRST, 0, 0),
        send(Lane::FIRST, 0, 1),
        Act::Await { lane: Lane::FIRST, unanswered: 1 },
        Act::Pause { us: 5 },
        Act::Cancel { lane: Lane::FIRST },
    ];
    let mut context = context(Window::All, acts);
    let sent = send_all(&mut context, 0);
    assert_eq!(context.next(10), Next::Wait(None));
    context.on_outcome(Lane::FIRST, sent[0].request);
    assert_eq!(context.next(100), Next::Wait(Some(5100)));
    assert_eq!(context.next(5099), Next::Wait(Some(5100)));
    assert_eq!(context.next(5100), Next::End(Lane::FIRST, Cut::Cancelled));
    assert_eq!(context.next(5100), Next::Wait(None), "until the lane is forgotten");
    context.forget(Lane::FIRST);
    assert_eq!(context.next(5100), Next::Done);
}

#[test]
fn a_pause_before_a_step_begins_when_the_window_has_room_for_it() {
    let acts = vec![send(Lane::FIRST, 0, 0), Act::Pause { us: 5 }, send(Lane::FIRST, 0, 1)];
    let mut alone = context(Window::Steps(NonZeroU32::MIN), acts.clone());
    let sent = send_all(&mut alone, 0);
    assert_eq!(alone.next(100), Next::Wait(None));
    alone.on_outcome(Lane::FIRST, sent[0].request);
    assert_eq!(alone.next(20_000), Next::Wait(Some(25_000)));
    assert!(matches!(alone.next(25_000), Next::Send(..)));
    let mut pipelined = context(Window::All, acts);
    send_all(&mut pipelined, 0);
    assert_eq!(pipelined.next(100), Next::Wait(Some(5000)));
}

#[test]
fn steps_are_due_at_their_times_whether_or_not_those_before_them_have_answers() {
    let at = |us| Act::At { us };
    let acts = vec![send(Lane::FIRST, 0, 0), at(10), send(Lane::FIRST, 0, 1), at(20), send(Lane::FIRST, 1, 0)];
    let due = |at, waited| Some(Due { at, waited });
    let mut one_by_one = context(Window::Steps(NonZeroU32::MIN), Vec::new());
    one_by_one.begin(Pattern::Valid, acts.clone(), 0, due(500, true));
    let first = send_all(&mut one_by_one, 700);
    assert_eq!(one_by_one.next(700), Next::Wait(Some(10_500)), "after the time at which it was due");
    assert_eq!((one_by_one.next(10_600), one_by_one.due()), (Next::Wait(None), due(10_500, false)), "no room");
    one_by_one.on_outcome(Lane::FIRST, first[0].request);
    let second = send_all(&mut one_by_one, 30_000);
    one_by_one.on_outcome(Lane::FIRST, second[0].request);
    assert!(matches!(one_by_one.next(30_000), Next::Send(..)));
    assert_eq!(one_by_one.due(), due(20_500, false), "it could not be sent in time");
    // A pause before a step that is due begins when the step could be sent.
    let acts_with_pause = vec![send(Lane::FIRST, 0, 0), Act::Pause { us: 5 }, at(1), send(Lane::FIRST, 0, 1)];
    let mut thinking = context(Window::Steps(NonZeroU32::MIN), acts_with_pause);
    let first = send_all(&mut thinking, 0);
    assert_eq!(thinking.next(0), Next::Wait(None));
    thinking.on_outcome(Lane::FIRST, first[0].request);
    assert_eq!(thinking.next(80_000), Next::Wait(Some(85_000)));
    // A client that did nothing for too long is late by itself, and on time again when it waits again.
    let mut slow = context(Window::All, Vec::new());
    slow.begin(Pattern::Valid, acts.clone(), 0, due(0, true));
    send_all(&mut slow, 0);
    assert!(matches!(slow.next(15_000), Next::Send(..)));
    assert_eq!(slow.due(), due(10_000, true));
    let mut refused = context(Window::All, Vec::new());
    refused.begin(Pattern::Valid, acts.clone(), 0, due(0, false));
    send_all(&mut refused, 12_000);
    assert_eq!(refused.next(12_000), Next::Wait(Some(20_000)), "it caught up");
    refused.waits_for_server();
    assert!(matches!(refused.next(21_000), Next::Send(..)));
    assert_eq!(refused.due(), due(20_000, false), "its stream had no room");
    // Where nothing is due before, it is when it begins, and a pause is none of the server's.
    let mut alone = context(Window::All, acts);
    assert_eq!((send_all(&mut alone, 700).len(), alone.next(800)), (1, Next::Wait(Some(10_700))));
    let acts = vec![send(Lane::FIRST, 0, 0), Act::Pause { us: 5 }, at(10), send(Lane::FIRST, 0, 1)];
    let mut pausing = context(Window::All, acts);
    send_all(&mut pausing, 0);
    assert_eq!((pausing.next(0), pausing.next(5_000)), (Next::Wait(Some(5_000)), Next::Wait(Some(15_000))));
}

#[test]
fn an_id_that_shares_a_stream_waits_for_its_own_responses_alone() {
    let step = |lane, id, step| match send(lane, id, step) {
        Act::Send { lane, sequence, step, of, start, end, value, elements, special, .. } => {
            Act::Send { lane, id, sequence, step, of, start, end, value, elements, special }
        }
        other => other,
    };
    let acts = [step(SECOND, 0, 0), step(SECOND, 1, 0), step(Lane(2), 0, 1), step(Lane(2), 0, 2), step(SECOND, 1, 1)];
    let mut context = context(Window::Steps(NonZeroU32::MIN), acts.into());
    context.pattern = Pattern::SharedStream;
    let sent = send_all(&mut context, 0);
    let of = |step: &Step| (step.request.context, step.request.step);
    assert_eq!(sent.iter().map(of).collect::<Vec<_>>(), [(1, 0), (2, 0), (1, 1)], "START and the step behind it");
    context.on_outcome(Lane(2), sent[2].request);
    assert_eq!(context.next(0), Next::Wait(None), "the response to START is still to come");
    context.on_outcome(SECOND, sent[0].request);
    assert_eq!(send_all(&mut context, 0).iter().map(of).collect::<Vec<_>>(), [(1, 2), (2, 1)]);
}

#[test]
fn the_lane_that_waits_for_longest_is_known() {
    let acts = vec![
        send(SECOND, 0, 0),
        Act::Open { lane: SECOND, over: Connection::Fresh, by: None, within_us: None },
        send(Lane::FIRST, 0, 1),
        send(SECOND, 1, 0),
    ];
    let mut context = context(Window::All, acts);
    assert_eq!(context.waits_since(), None);
    let first = send_all(&mut context, 5);
    // The act in between was done with.
    send_all(&mut context, 8);
    assert_eq!((context.waits_since(), context.slowest()), (Some(5), SECOND));
    context.on_outcome(SECOND, first[0].request);
    assert_eq!((context.waits_since(), context.slowest()), (Some(8), Lane::FIRST));
}

#[test]
fn what_was_abandoned_is_neither_sent_nor_waited_for() {
    let mut context = two_sequences(Window::All);
    let Next::Send(lane, step) = context.next(0) else { panic!("a step") };
    context.on_sent(lane, &step, 0);
    context.abandon();
    assert_eq!(context.next(0), Next::Done);
}
