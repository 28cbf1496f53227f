use std::{num::NonZeroU64, path::Path};

use serde_json::{Value, json};

use super::*;
use workload::{
    controls::Seen,
    conversation::{Connection, Lane, Transport},
    event::Disturbance,
    model::{Model, SlotRange, Strategy},
    number::{Datatype, Number},
    scenario::{Overrides, Phase, Scenario, ServerAction, Source},
    sequence::{CorrelationId, Pattern},
};

const MS: Nanos = 1_000_000;

/// Lanes of a model with two slots and an idle limit of a second.
fn lanes() -> Lanes {
    Lanes { slots: Some(2), idle_limit: Some(1000 * MS), ..Lanes::default() }
}

fn place(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a place")).expect("it is small")
}

fn step(worker: u32, sequence: u32, step: u32, of: u32) -> Step {
    Step {
        request: RequestId { worker, context: 0, sequence, step },
        pattern: Pattern::Valid,
        start: step == 0,
        end: step + 1 == of,
        value: 5.into(),
        of,
        special: None,
    }
}

fn entry(at: Nanos, worker: u32, what: EventKind) -> Entry {
    let correlation_id = CorrelationId(NonZeroU64::new(u64::from(worker) + 1).expect("not zero"));
    Entry { at, context: ContextId { worker, context: 0 }, correlation_id, lane: Lane::default(), what }
}

impl Lanes {
    fn event(&mut self, at: Nanos, worker: u32, what: EventKind) {
        self.entry(&entry(at, worker, what), &Ruling::default());
    }

    fn sends(&mut self, at: Nanos, step: Step) {
        self.event(at, step.request.worker, EventKind::Sent(step));
    }

    /// A step that was sent at `sent` is executed, or what else became of it, and the slot that the model saw.
    fn answers(&mut self, [sent, at]: [Nanos; 2], step: Step, outcome: Outcome, slot: Option<u32>) {
        let seen = slot.map(|slot| Seen::new([None; 3], 0, Some(slot)));
        let entry = entry(at, step.request.worker, EventKind::Answered(step.request, 7.into(), seen));
        let settled = Settled { step, sent_at: sent, outcome, sum: Some(7.into()), doubt: None };
        self.entry(&entry, &Ruling { settled: Some(settled), ..Ruling::default() });
    }

    /// A whole sequence of two steps: START is sent, and each of them is answered 2 ms after it was sent.
    fn holds(&mut self, at: Nanos, worker: u32, number: u32, slot: Option<u32>) {
        for (index, sent) in [(0, at), (1, at + 10 * MS)] {
            let step = step(worker, number, index, 2);
            self.sends(sent, step);
            self.answers([sent, sent + 2 * MS], step, Outcome::Completed, slot);
        }
    }

    fn data(self, accused: &[Accused]) -> Value {
        serde_json::to_value(self.conclude(accused.iter().copied(), &[])).expect("JSON")
    }
}

#[test]
fn a_sequence_is_shown_from_the_response_to_start_until_the_one_to_end() {
    let mut lanes = lanes();
    lanes.event(0, 0, EventKind::Opened(Connection::Own, Transport::GrpcStream));
    lanes.holds(100 * MS, 0, 0, None);
    let data = lanes.data(&[]);
    let sequences = &data["sequences"];
    assert_eq!(sequences["begun"], json!([100_000]));
    assert_eq!((&sequences["held"], &sequences["over"]), (&json!([2_000]), &json!([12_000])));
    assert_eq!(data["ends"][place(&sequences["end"][0])], "ended");
    assert_eq!((&data["told"], &data["lanes"]), (&json!(false), &json!(2)));
    let steps = &data["steps"];
    assert_eq!((&steps["sent"], &steps["took"]), (&json!([0, 10_000]), &json!([2_000, 2_000])));
    assert_eq!((&steps["flags"], &steps["value"], &steps["answer"]), (&json!([1, 2]), &json!([5, 5]), &json!([7, 7])));
}

#[test]
fn sequences_that_have_slots_at_a_time_are_in_lanes_of_their_own() {
    let mut lanes = lanes();
    lanes.holds(0, 0, 0, None);
    lanes.holds(MS, 1, 0, None);
    lanes.holds(30 * MS, 2, 0, None);
    let data = lanes.data(&[]);
    assert_eq!((&data["sequences"]["lane"], &data["lanes"]), (&json!([0, 1, 0]), &json!(2)));
    // A slot is certainly taken until END is sent, and its sequence is shown until the response to it.
    let mut lanes = self::lanes();
    lanes.holds(0, 0, 0, None);
    lanes.holds(0, 1, 0, None);
    lanes.holds(9 * MS, 2, 0, None);
    let data = lanes.data(&[]);
    assert_eq!((&data["sequences"]["lane"], &data["lanes"]), (&json!([0, 1, 0]), &json!(2)));
    // A server that gives a slot twice shows as a lane more than there are slots.
    let mut lanes = self::lanes();
    (0..3).for_each(|worker| lanes.holds(u64::from(worker) * MS, worker, 0, None));
    assert_eq!(lanes.data(&[])["lanes"], 3);
}

#[test]
fn a_sequence_that_goes_on_behind_a_gap_is_drawn_from_there_on() {
    let mut lanes = lanes();
    for (index, sent) in [(0, 0), (1, 10 * MS)] {
        lanes.sends(sent, step(0, 0, index, 9));
        lanes.answers([sent, sent + 2 * MS], step(0, 0, index, 9), Outcome::Completed, Some(1));
    }
    lanes.gap(20 * MS, 500 * MS);
    // One that was there before, and one of which nothing is known before.
    for worker in [0, 1] {
        lanes.sends(600 * MS, step(worker, 0, 5, 9));
        lanes.answers([600 * MS, 602 * MS], step(worker, 0, 5, 9), Outcome::Completed, Some(worker));
    }
    let data = lanes.data(&[Accused { at: 602 * MS, request: Some(step(0, 0, 5, 9).request) }]);
    let sequences = &data["sequences"];
    assert_eq!((&sequences["worker"], &sequences["begun"]), (&json!([0, 0, 1]), &json!([0, 600_000, 0])));
    assert_eq!(
        (&sequences["held"], &sequences["over"]),
        (&json!([2_000, 2_000, 2_000]), &json!([20_000, 2_000, 2_000]))
    );
    assert_eq!((&sequences["violations"], &data["steps"]["number"]), (&json!([0, 1, 0]), &json!([0, 1, 5, 5])));
    assert_eq!(data["told"], true);
}

#[test]
fn the_steps_near_a_violation_are_kept_of_a_long_sequence() {
    let mut lanes = lanes();
    let all = u32::try_from(STEPS_OF_ONE).expect("few") * 3;
    for index in 0..all {
        let sent = u64::from(index) * 20 * MS;
        lanes.sends(sent, step(0, 0, index, all));
        if index == 100 {
            lanes.violations.insert((sent + MS) / SECOND);
        }
        lanes.answers([sent, sent + MS], step(0, 0, index, all), Outcome::Completed, None);
    }
    let data = lanes.data(&[]);
    let numbers: Vec<_> = data["steps"]["number"].as_array().expect("a column").iter().map(place).collect();
    // The violation is in second 2: all steps up to the end of second 12 are near, 50 in each second.
    assert!(numbers[..650].iter().copied().eq(0..650), "{:?}", &numbers[..650]);
    assert_eq!((numbers.len(), data["sequences"]["sent"][0].clone()), (650 + STEPS_OF_ONE, json!(all)));
}

/// Lanes of a model with two slots that the scenario loads with Oldest, and four slots then, and as it was again.
fn reloaded() -> Lanes {
    let source = Source::named(Path::new("strategy-switch")).expect("a built-in scenario");
    let mut scenario = Scenario::resolve(&source, Overrides::default()).expect("a scenario");
    let phase =
        |name: &str, server| Phase { name: name.to_owned(), pause_ms: None, server: Some(server), other_model: None };
    scenario.phases = vec![phase("oldest", ServerAction::ReloadOldest), phase("before", ServerAction::Reload)];
    let range = SlotRange { fewest: 2, most: 4 };
    let model =
        Model { strategy: Some(Strategy::Direct), slots: Some(2), slots_in_phases: Some(range), ..Model::default() };
    Lanes { exchanges: Exchanges::of(&scenario, &model), ..lanes() }
}

#[test]
fn an_exchange_is_one_mark_however_often_contexts_notice_it() {
    let mut lanes = reloaded();
    let notices = |lanes: &mut Lanes, at: Nanos, worker: u32, times: usize| {
        for _ in 0..times {
            lanes.event(at * MS, worker, EventKind::Disturbed(Disturbance::Begins));
            lanes.event(at * MS, worker, EventKind::Disturbed(Disturbance::IsOver));
        }
        lanes.event(at * MS, worker, EventKind::Opened(Connection::Own, Transport::GrpcStream));
        lanes.event((at + 1) * MS, worker, EventKind::Closed);
    };
    lanes.event(10 * MS, 0, EventKind::Disturbed(Disturbance::Begins));
    lanes.event(20 * MS, 0, EventKind::Disturbed(Disturbance::IsOver));
    // Others are late, and clients that are made anew notice all of the run once more.
    notices(&mut lanes, 25, 1, 1);
    notices(&mut lanes, 30, 2, 1);
    notices(&mut lanes, 40, 2, 1);
    notices(&mut lanes, 90, 1, 2);
    notices(&mut lanes, 95, 2, 2);
    let data = lanes.data(&[]);
    let marks = &data["marks"];
    assert_eq!((&marks["kind"], &marks["at"]), (&json!(["reload", "reload"]), &json!([10_000, 90_000])));
    assert_eq!(marks["text"], json!(["the model was reloaded with Oldest", "the model was reloaded"]));
    let stretches = data["stretches"].as_array().expect("a list");
    let all: Vec<_> = stretches.iter().map(|it| (&it["from_us"], &it["until_us"], &it["slots"])).collect();
    let spans =
        [(0, 10_000, 2), (20_000, 90_000, 4), (90_000, 96_000, 2)].map(|it| (json!(it.0), json!(it.1), json!(it.2)));
    assert!(all.into_iter().eq(spans.iter().map(|(from, until, slots)| (from, until, slots))), "{stretches:?}");
}

#[test]
fn when_the_run_itself_exchanged_the_model_counts_more_than_when_contexts_noticed_it() {
    let mut lanes = reloaded();
    for at in [50, 60] {
        lanes.event(at * MS, 0, EventKind::Disturbed(Disturbance::Begins));
        lanes.event(at * MS, 0, EventKind::Disturbed(Disturbance::IsOver));
    }
    let phase = |name: &str, server_from_us: Option<u64>, began_us: u64| PhaseSpan {
        name: name.to_owned(),
        began_us,
        ended_us: began_us,
        server_from_us,
        server: Some("the model was reloaded".to_owned()),
        other_loads: None,
    };
    let known = [phase("oldest", Some(10_000), 20_000), phase("before", None, 59_000)];
    let data = serde_json::to_value(lanes.conclude([], &known)).expect("JSON");
    assert_eq!(data["marks"]["at"], json!([10_000, 60_000]));
    assert_eq!((&data["stretches"][1]["from_us"], &data["stretches"][1]["until_us"]), (&json!(20_000), &json!(60_000)));
}

#[test]
fn what_a_model_held_is_not_in_the_lanes_of_the_next_one() {
    let mut lanes = reloaded();
    // Two take both slots and do not end; a third waits until the model with four slots is there.
    for worker in 0..2 {
        let first = step(worker, 0, 0, 9);
        lanes.sends(MS, first);
        lanes.answers([MS, 2 * MS], first, Outcome::Completed, Some(worker));
    }
    lanes.sends(3 * MS, step(2, 0, 0, 9));
    lanes.event(10 * MS, 3, EventKind::Disturbed(Disturbance::Begins));
    lanes.event(20 * MS, 3, EventKind::Disturbed(Disturbance::IsOver));
    lanes.answers([3 * MS, 25 * MS], step(2, 0, 0, 9), Outcome::Completed, Some(1));
    (4..8).for_each(|worker| lanes.holds(30 * MS, worker, 0, None));
    let data = lanes.data(&[]);
    let sequences = &data["sequences"];
    // Which model answered the third one nobody knows, so it is in no lane.
    assert_eq!(sequences["lane"], json!([0, 1, -1, 0, 1, 2, 3]));
    assert_eq!(sequences["over"].as_array().expect("a column")[..2], [json!(9_000), json!(9_000)]);
    assert_eq!(data["ends"][place(&sequences["end"][0])], "disturbed");
    let stretches = data["stretches"].as_array().expect("a list");
    let all: Vec<_> = stretches.iter().map(|it| (it["lanes"].clone(), it["told"].clone())).collect();
    assert_eq!(all, [(json!(2), json!(true)), (json!(4), json!(false))]);
    assert_eq!(data["lanes"], 4);
}

#[test]
fn the_lane_is_the_slot_where_the_model_reports_it() {
    let mut lanes = lanes();
    lanes.holds(0, 0, 0, Some(1));
    lanes.holds(MS, 1, 0, Some(0));
    let data = lanes.data(&[]);
    assert_eq!((&data["told"], &data["sequences"]["lane"]), (&json!(true), &json!([1, 0])));
    assert_eq!(data["steps"]["slot"], json!([1, 1, 0, 0]));
}

#[test]
fn a_rejection_after_the_idle_limit_marks_a_reap_and_ends_the_sequence_there() {
    let mut lanes = lanes();
    let [first, second] = [step(0, 0, 0, 3), step(0, 0, 1, 3)];
    lanes.sends(0, first);
    lanes.answers([0, MS], first, Outcome::Completed, None);
    lanes.sends(1500 * MS, second);
    lanes.answers([1500 * MS, 1501 * MS], second, Outcome::Rejected, None);
    let data = lanes.data(&[]);
    assert_eq!((&data["marks"]["kind"], &data["marks"]["at"]), (&json!(["reap"]), &json!([1_501_000])));
    assert_eq!(data["sequences"]["over"], json!([1_000_000]), "it may have been without its slot from the limit on");
    // A rejection without such a pause is none.
    let mut lanes = self::lanes();
    lanes.sends(0, first);
    lanes.answers([0, MS], first, Outcome::Completed, None);
    lanes.sends(500 * MS, second);
    lanes.answers([500 * MS, 501 * MS], second, Outcome::Rejected, None);
    let data = lanes.data(&[]);
    assert_eq!((&data["marks"]["kind"], &data["sequences"]["over"]), (&json!([]), &json!([500_000])));
}

#[test]
fn a_cancel_an_exchange_and_the_next_start_end_what_has_the_id() {
    let over = |what: EventKind| {
        let mut lanes = lanes();
        let first = step(0, 0, 0, 9);
        lanes.sends(0, first);
        lanes.answers([0, MS], first, Outcome::Completed, None);
        lanes.event(20 * MS, 0, what);
        let data = lanes.data(&[]);
        let end = data["ends"][place(&data["sequences"]["end"][0])].clone();
        (data["sequences"]["over"][0].clone(), end, data["marks"]["kind"].clone())
    };
    assert_eq!(over(EventKind::Cut(Cut::Cancelled)), (json!(20_000), json!("cut"), json!(["cancel"])));
    assert_eq!(over(EventKind::Cut(Cut::Ended)), (json!(20_000), json!("cut"), json!(["cut"])));
    // What the scenario does not do is a restart by somebody else.
    assert_eq!(
        over(EventKind::Disturbed(Disturbance::Begins)),
        (json!(20_000), json!("disturbed"), json!(["restart"]))
    );
    let mut lanes = lanes();
    let first = step(0, 0, 0, 9);
    lanes.sends(0, first);
    lanes.answers([0, MS], first, Outcome::Completed, None);
    lanes.holds(20 * MS, 0, 1, None);
    assert_eq!(lanes.data(&[])["sequences"]["over"], json!([20_000, 12_000]));
}

#[test]
fn a_violation_marks_its_sequence() {
    let mut lanes = lanes();
    lanes.holds(0, 0, 0, None);
    lanes.holds(50 * MS, 1, 0, None);
    let of_request = Accused { at: 62 * MS, request: Some(step(1, 0, 1, 2).request) };
    let of_nobody = Accused { at: 70 * MS, request: None };
    let data = lanes.data(&[of_request, of_nobody]);
    assert_eq!(data["sequences"]["violations"], json!([0, 1]));
    assert_eq!((&data["marks"]["sequence"], &data["marks"]["violation"]), (&json!([1, -1]), &json!([0, 1])));
}

#[test]
fn what_is_above_the_bounds_goes_from_the_front_but_for_what_is_near_a_violation() {
    let mut lanes = lanes();
    let all = u32::try_from(SEQUENCES_MAX).expect("it is small") + 500;
    // A sequence each 20 ms, on two IDs in turn. The violation is at 20 s.
    lanes.violations.insert(20_000 * MS / SECOND);
    for number in 0..all {
        lanes.holds(u64::from(number) * 20 * MS, number % 2, number, None);
    }
    assert!(lanes.kept_steps <= STEPS_MAX);
    let data = lanes.data(&[]);
    let numbers: Vec<_> = data["sequences"]["number"]
        .as_array()
        .expect("a column")
        .iter()
        .map(|it| it.as_u64().expect("a number"))
        .collect();
    assert_eq!(numbers.len(), SEQUENCES_MAX);
    assert_eq!(data["left_out"], 500);
    // Those within ten seconds of the violation are 500 to 1500.
    assert!(numbers.contains(&501) && !numbers.contains(&498), "{:?}", &numbers[..3]);
}

#[test]
fn steps_have_a_bound_however_many_violations_there_are_and_however_long_sequences_are() {
    // A violation each second, and sequences of ten steps.
    let mut lanes = lanes();
    for number in 0..60_000 {
        let at = u64::from(number) * 20 * MS;
        lanes.violations.insert(at / SECOND);
        (0..10).for_each(|index| lanes.sends(at + u64::from(index), step(number % 2, number, index, 10)));
    }
    assert!(lanes.kept_steps <= STEPS_MAX && lanes.past_steps > NEAR_STEPS_MAX - 10, "{}", lanes.kept_steps);
    let kept: usize = lanes.last.iter().map(|sequence| sequence.steps.len()).sum();
    assert_eq!(kept, lanes.kept_steps);
    // Five hundred sequences that do not end.
    let mut lanes = self::lanes();
    for index in 0..3000 {
        (0..500).for_each(|worker| lanes.sends(u64::from(index) * MS, step(worker, 0, index, 1_000_000)));
    }
    assert!(lanes.kept_steps <= STEPS_MAX, "{}", lanes.kept_steps);
    let kept: usize = lanes.last.iter().map(|sequence| sequence.steps.len()).sum();
    assert_eq!((kept, lanes.last.iter().all(|sequence| sequence.sent == 3000)), (lanes.kept_steps, true));
}

#[test]
fn large_numbers_and_states_are_texts() {
    let shown = |number: Number| {
        let mut lanes = lanes();
        let step = Step { value: number, ..step(0, 0, 0, 1) };
        lanes.sends(0, step);
        lanes.data(&[])["steps"]["value"][0].clone()
    };
    assert_eq!(shown((-3).into()), json!(-3));
    assert_eq!(shown(Datatype::Int64.number(1 << 60)), json!((1_i64 << 60).to_string()));
    assert_eq!(shown(Datatype::Uint64.number(-1)), json!(u64::MAX.to_string()));
}
