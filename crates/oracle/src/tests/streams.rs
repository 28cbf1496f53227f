//! Conversations over several streams.

use super::*;

fn doubt(c: &Conversation) -> Option<Doubt> {
    c.rulings.last().and_then(|ruling| ruling.settled).expect("an answer").doubt
}

/// A sequence with two steps on each of two streams.
fn submitted_at_once() -> Conversation {
    let mut c = Conversation::new();
    c.send(true, false, &[1]).answer("0-0-0-0", 1);
    c.on(0).send(false, false, &[10]).on(1).send(false, false, &[100]);
    c.on(0).send(false, false, &[1000]).on(1).send(false, false, &[10_000]);
    c
}

#[test]
fn any_order_of_steps_that_are_submitted_at_once_is_right() {
    let mut c = submitted_at_once();
    c.on(1).answer("0-0-2-0", 101).answer("0-0-4-0", 11_111).on(0).answer("0-0-1-0", 111).answer("0-0-3-0", 1111);
    c.assert(&[]);
    assert!(c.judged());
    c.send(false, true, &[5]).answer("0-0-5-0", 11_116).assert(&[]);
}

#[test]
fn a_contradiction_among_steps_that_are_submitted_at_once_is_one_violation_and_told() {
    let mut c = submitted_at_once();
    c.on(1).answer("0-0-2-0", 101).on(0).answer("0-0-1-0", 11).answer("0-0-3-0", 1111);
    c.on(1).answer("0-0-4-0", 11_111);
    c.assert(&[ViolationKind::WrongSum]);
    let taken =
        |id: &str, sum: i32| Taken { request: id.parse().expect("an ID"), answer: Some(Answer::Sum(sum.into())) };
    let disorder = Disorder {
        before: State::Live(Some(1.into())),
        prefix: vec![taken("0-0-1-0", 11)],
        unexplained: vec![taken("0-0-2-0", 101)],
    };
    assert!(
        matches!(&c.first().evidence, Evidence::Sum { disorder: Some(its), .. } if *its == disorder),
        "{:?}",
        c.first()
    );
    // What was under way is not known, and the next START is.
    assert!(!c.judged());
    c.on(0).send(true, true, &[7, 8]).answer("0-0-5-0", 7).answer("0-0-5-1", 15);
    c.assert(&[ViolationKind::WrongSum]);
    assert!(c.judged());
}

#[test]
fn a_step_that_was_sent_after_an_answer_comes_after_it() {
    let mut c = submitted_at_once();
    c.on(0).answer("0-0-1-0", 11).send(false, false, &[100_000]).on(1).answer("0-0-2-0", 100_101);
    c.assert(&[ViolationKind::WrongSum]);
}

#[test]
fn an_answer_on_another_stream_is_misaddressed_and_told_whose_it_is() {
    let other = Sender::Context(ContextId { worker: 7, context: 3 });
    for (id, whose) in [("0-0-1-0", Sender::Stream(0)), ("7-3-1-0", other)] {
        let mut c = submitted_at_once();
        c.on(1).answer(id, 11).assert(&[ViolationKind::Misaddressed]);
        let told =
            matches!(&c.first().evidence, Evidence::NotAskedFor { sender: Some(sender), .. } if *sender == whose);
        assert!(told, "{:?}", c.first());
    }
    let mut c = submitted_at_once();
    c.on(0).answer("0-0-1-0", 11).answer("0-0-1-0", 11).assert(&[ViolationKind::Duplicate]);
}

#[test]
fn what_is_cancelled_with_another_stream_is_answered_without_outputs() {
    let mut c = submitted_at_once();
    c.on(1).tell(EventKind::Cut(Cut::Cancelled)).on(0).receive("0-0-1-0", Ok(nothing()));
    assert_eq!(doubt(&c), Some(Doubt::Cancelled));
    c.reject("0-0-3-0").assert(&[]);
    c.send(true, true, &[5]).answer("0-0-5-0", 5).assert(&[]);
    assert!(c.judged());
    // A call is answered with an error without a word.
    let mut c = submitted_at_once();
    c.on(1).tell(EventKind::Cut(Cut::Cancelled)).on(0).receive("0-0-1-0", Err(String::new()));
    assert_eq!(doubt(&c), Some(Doubt::Cancelled));
    let mut c = submitted_at_once();
    c.on(0).receive("0-0-1-0", Err(String::new())).assert(&[ViolationKind::UnexpectedError]);
    // Where nothing was cancelled it is wrong.
    let mut c = submitted_at_once();
    c.on(0).receive("0-0-1-0", Ok(nothing())).assert(&[ViolationKind::WrongOutputName]);
}

#[test]
fn a_sequence_may_be_restarted_over_another_stream() {
    // The START came between the two steps, before both, or after both.
    for answers in [[Some(1), Some(13)], [None, Some(13)], [Some(1), Some(3)]] {
        let mut c = Conversation::new();
        c.send(true, true, &[1, 2]).on(1).send(true, false, &[11]);
        let [first, second] = answers;
        if first.is_some() {
            c.on(0).answer("0-0-0-0", 1).answer("0-0-0-1", second.expect("a sum"));
            c.on(1).answer("0-0-1-0", 11).assert(&[]);
        }
    }
    let mut c = Conversation::new();
    c.send(true, true, &[1, 2]).on(1).send(true, true, &[11, 12]);
    c.on(0).answer("0-0-0-0", 1).answer("0-0-0-1", 13).on(1).answer("0-0-1-0", 11).reject("0-0-1-1").assert(&[]);
    assert!(c.judged());
}

#[test]
fn two_sequences_that_overlap_may_be_mixed_by_a_model_that_keeps_its_state_by_correlation_id() {
    for mixes in [true, false] {
        let mut c = Conversation::new();
        c.oracle.rules.mixes = mixes;
        c.send(true, true, &[1, 2]).send(true, true, &[1000, 4]);
        c.answer("0-0-0-0", 1).answer("0-0-0-1", 1002);
        if mixes {
            assert_eq!(doubt(&c), Some(Doubt::Overlap));
            c.answer("0-0-1-0", 1000).answer("0-0-1-1", 4).assert(&[]);
            // The one after them is determined again.
            c.send(true, true, &[5, 6]).answer("0-0-2-0", 5).answer("0-0-2-1", 11).assert(&[]);
            assert!(c.judged());
        } else {
            c.assert(&[ViolationKind::WrongSum]);
        }
    }
}

#[test]
fn in_an_overlap_a_starts_own_sum_and_rejections_are_determined() {
    let mut c = Conversation::new();
    c.oracle.rules.mixes = true;
    c.send(true, true, &[1]).send(true, true, &[1000]).send(false, false, &[7]);
    c.answer("0-0-0-0", 1).answer("0-0-1-0", 1001);
    c.assert(&[ViolationKind::WrongSum]);
    c.answer("0-0-2-0", 7).assert(&[ViolationKind::WrongSum, ViolationKind::MissingStartError]);
}
