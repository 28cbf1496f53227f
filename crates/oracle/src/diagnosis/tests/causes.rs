//! Each cause, from a window that is written by hand.

mod answers;
mod at_once;
mod rejections;
mod sums;
mod supposed;

use super::{
    super::{
        Cause::{self, *},
        Clue, Explanation, ModelFacts,
    },
    windows::{MS, Tale, causes, keyed, known, output},
};
use crate::{CountBounds, Evidence, Sent, Violation, ViolationKind, diagnosis::explain};
use workload::{
    event::{Cut, EventKind, Received},
    model::Counted,
    sequence::{Flaw, IdForm},
    tensor::Tensor,
};

/// Values without a pattern, of some 31 bits.
const A: [i32; 5] = [1_203_884_101, -987_600_413, 431_999_017, 1_870_010_233, -1_555_123_987];
const B: [i32; 5] = [-1_700_400_911, 650_120_333, 99_123_457, -403_221_119, 1_313_131_007];

/// The running sums of values, from a state on.
fn sums_from(state: i32, values: &[i32]) -> Vec<i32> {
    let mut sum = state;
    let add = |value: &i32| {
        sum = sum.wrapping_add(*value);
        sum
    };
    values.iter().map(add).collect()
}

fn sums(values: &[i32]) -> Vec<i32> {
    sums_from(0, values)
}

#[test]
fn a_slot_for_more_sequences_than_there_are_slots() {
    let causes_where = |keyed_by_id| {
        let kind = ViolationKind::SlotReleasedTwice;
        let violation = Violation::of_the_run(kind, MS, Evidence::SlotsSurplus { slots: 2, within_ms: 1 });
        causes(&explain(&violation, &[], &ModelFacts { keyed_by_id, ..known() }))
    };
    assert_eq!(causes_where(false), [ExtraSlot, SharedState], "two sequences of one slot get wrong sums");
    assert_eq!(causes_where(true), [SharedState, ExtraSlot]);
}

#[test]
fn streams_that_broke_and_servers_that_died() {
    let broken = |reason: &str, others: u32| {
        let mut tale = Tale::default();
        tale.open(0).send(0, 0, &A).broken(0, reason);
        (1..=others).for_each(|other| _ = tale.broken(other, reason));
        causes(&tale.of_break(Cut::Broken(reason.to_owned())))
    };
    let mut ended = Tale::default();
    ended.open(0).send(0, 0, &A).ended(0);
    assert_eq!(causes(&ended.of_break(Cut::Ended)), [StreamClosedEarly]);
    assert_eq!(broken("connection reset", 3)[0], Restart);
    assert_eq!(broken("connection reset", 0)[0], Restart, "a connection is more than its stream");
    assert_eq!(broken("stream error received", 0)[0], StreamClosedEarly);
    let mut all_answered = Tale::default();
    all_answered.open(0).send(0, 0, &A).answer(0, 0, 0, &sums(&A)).broken(0, "stream error received");
    let evidence = Evidence::Broken { reason: "stream error received".to_owned() };
    let violation = Violation::of_the_run(ViolationKind::StreamBroken, all_answered.now, evidence);
    let explained = explain(&violation, &all_answered.entries, &known());
    assert_eq!(causes(&explained)[0], StreamEndedBadly);
    let mut half_closed = Tale::default();
    half_closed.open(0).send(0, 0, &A).tell(0, EventKind::HalfClosed).ended(0);
    assert_eq!(causes(&half_closed.of_break(Cut::Ended))[0], FinalResponsesLost);
    for (kind, expected) in [
        (ViolationKind::StreamNotClosed, StreamKeptOpen),
        (ViolationKind::ServerDied, Crash),
        (ViolationKind::Hang, ServerHang),
    ] {
        assert_eq!(causes(&Tale::default().other(kind, (0, 0, 0))), [expected]);
    }
}

#[test]
fn counts_that_differ() {
    let differ = |success_max, success| {
        let expected = CountBounds { success_min: 10, success_max, fail_max: 0 };
        let seen = Counted { success, inference: success, ..Counted::default() };
        let evidence = Evidence::Counts { requests: 10, expected, seen };
        causes(&explain(&Violation::of_the_run(ViolationKind::Statistics, MS, evidence), &[], &known()))
    };
    assert_eq!(differ(10, 11), [CountedTwice, ExecutedBesides]);
    assert_eq!(differ(12, 9), [NotCounted, AnsweredElsewhere]);
    let pending = |answered, seen, all_slots_free| {
        let evidence = Evidence::Pending { sent: Sent { requests: 2, answered }, seen, all_slots_free };
        causes(&explain(&Violation::of_the_run(ViolationKind::PendingLeft, MS, evidence), &[], &known()))
    };
    assert_eq!(pending(2, 1, false), [StillCounted], "nothing of the run waits");
    assert_eq!(pending(1, 2, true), [StillCounted], "one of the run may wait");
    assert_eq!(pending(1, 1, false), [SlotLeak, Starvation, StillCounted]);
    assert_eq!(pending(1, 1, true), [StillCounted, Starvation], "no slot is lost");
    // That is no match of values, so there are no odds.
    let sent = Sent { requests: 2, answered: 1 };
    let hang = Violation::of_the_run(ViolationKind::Hang, MS, Evidence::Silence { sent, seconds: 5 });
    assert_eq!(explain(&hang, &[], &known()), [Explanation::new(ServerHang, [Clue::Seen])]);
}

#[test]
fn a_window_that_does_not_have_the_step_explains_nothing() {
    assert_eq!(causes(&Tale::default().wrong_sum(&known(), (0, 0, 2), 5)), []);
}

#[test]
fn each_cause_has_its_own_name_and_a_class() {
    let names: std::collections::BTreeSet<_> = Cause::ALL.iter().map(|one| one.name()).collect();
    assert_eq!(names.len(), Cause::ALL.len());
    for one in Cause::ALL {
        assert!(!one.class().is_empty() && one.what().ends_with('.'), "{one}");
        assert_eq!(serde_json::to_value(one).expect("a name"), one.name());
    }
}
