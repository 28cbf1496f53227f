//! Conversations with a model that says what it saw.

use super::*;
use workload::controls::{Controls, Difference, Flag, Seen, Told};

fn conversation() -> Conversation {
    let mut c = Conversation::new();
    let told = Told { start: true, end: true, ready: true, corrid_bits: Some(u64::BITS) };
    c.oracle.rules.controls = Some(Controls { output: "SEEN".into(), shape: vec![1, 5], told, slots: Some(4) });
    c
}

fn output(seen: Seen) -> Tensor {
    Tensor { name: "SEEN".into(), datatype: "INT64".into(), shape: vec![1, 5], data: TensorData::Raw(seen.to_bytes()) }
}

impl Conversation {
    /// The answer of a model that saw the step as it was sent, in this slot.
    fn answer_in(&mut self, slot: Option<u32>, id: &str, sum: i32) -> &mut Self {
        self.answer_with(id, sum, |seen| *seen = Seen::new([seen.start, seen.end, seen.ready], seen.corrid, slot))
    }

    fn answer_with(&mut self, id: &str, sum: i32, mistake: impl FnOnce(&mut Seen)) -> &mut Self {
        let step = self.sent.iter().find(|step| step.request.to_string() == id).expect("it was sent");
        let mut seen = Seen::new([Some(step.start), Some(step.end), Some(true)], 5, None);
        mistake(&mut seen);
        let mut response = response(sum);
        response.outputs.push(output(seen));
        self.receive(id, Ok(response))
    }
}

#[test]
fn a_wrong_control_is_one_violation_and_its_sum_none() {
    type Mistake = fn(&mut Seen);
    let flag = |control, told, said| Difference::Flag { control, told, said };
    let mistakes: [(Difference, Mistake); 5] = [
        (flag(Flag::Start, Some(true), false), |seen| seen.start = Some(true)),
        (flag(Flag::End, Some(true), false), |seen| seen.end = Some(true)),
        (flag(Flag::Ready, Some(false), true), |seen| seen.ready = Some(false)),
        (Difference::Corrid { told: 6, said: 5 }, |seen| seen.corrid = 6),
        (flag(Flag::Start, None, false), |seen| seen.start = None),
    ];
    for (difference, mistake) in mistakes {
        for sum in [3, 2] {
            let mut c = conversation();
            c.send(true, false, &[1, 2]).answer_in(None, "0-0-0-0", 1).answer_with("0-0-0-1", sum, mistake);
            c.assert(&[ViolationKind::WrongControl]);
            let evidence = Evidence::Controls { differences: vec![difference], answer: Some(sum.into()) };
            assert_eq!(c.first().evidence, evidence);
            // Which of the two the server holds is not known.
            c.send(false, true, &[10]).answer_in(None, "0-0-1-0", sum + 10).assert(&[ViolationKind::WrongControl]);
            c.send(true, true, &[4]).answer_in(None, "0-0-2-0", 5);
            c.assert(&[ViolationKind::WrongControl, ViolationKind::WrongSum]);
        }
    }
}

#[test]
fn what_a_model_saw_has_to_be_there_and_readable_and_a_rejection_comes_first() {
    let mut c = conversation();
    c.send(true, false, &[1]).answer("0-0-0-0", 1).assert(&[ViolationKind::WrongOutputName]);
    let mut c = conversation();
    let mut unreadable = response(1);
    unreadable.outputs.push(Tensor { data: TensorData::Raw(vec![0; 8]), ..output(Seen::new([None; 3], 0, None)) });
    c.send(true, false, &[1]).receive("0-0-0-0", Ok(unreadable)).assert(&[ViolationKind::WrongControl]);
    let mut c = conversation();
    c.send(true, true, &[1]).answer_in(None, "0-0-0-0", 1);
    c.send(false, false, &[2]).answer_with("0-0-1-0", 2, |seen| seen.start = Some(true));
    c.assert(&[ViolationKind::MissingStartError]);
    let mut c = conversation();
    let mut without_sum = response(1);
    without_sum.outputs = vec![output(Seen::new([Some(true), Some(false), Some(false)], 5, None))];
    c.send(true, false, &[1]).receive("0-0-0-0", Ok(without_sum)).assert(&[ViolationKind::WrongControl]);
}

#[test]
fn all_steps_of_a_sequence_are_in_one_slot_that_there_is() {
    let mut c = conversation();
    c.send(true, true, &[1, 2, 3]).answer_in(Some(2), "0-0-0-0", 1).answer_in(Some(2), "0-0-0-1", 3);
    c.answer_in(Some(3), "0-0-0-2", 6).assert(&[ViolationKind::WrongSlot]);
    let mut c = conversation();
    c.send(true, true, &[1]).answer_in(Some(4), "0-0-0-0", 1).assert(&[ViolationKind::WrongSlot]);
    let mut c = conversation();
    c.send(true, true, &[1, 2]).answer_in(Some(1), "0-0-0-0", 1).answer_in(None, "0-0-0-1", 3).assert(&[]);
}

#[test]
fn the_next_sequence_may_be_in_another_slot_also_while_the_one_before_it_is_under_way() {
    let mut c = conversation();
    c.send(true, true, &[1, 2]).send(true, false, &[3, 4]).send(true, true, &[5]);
    c.answer_in(Some(1), "0-0-0-0", 1).answer_in(Some(1), "0-0-0-1", 3);
    c.answer_in(Some(2), "0-0-1-0", 3).answer_in(Some(2), "0-0-1-1", 7).answer_in(Some(0), "0-0-2-0", 5).assert(&[]);
}

#[test]
fn where_a_start_of_another_stream_may_come_between_slots_tell_nothing() {
    let mut c = conversation();
    c.send(true, false, &[1]).answer_in(Some(1), "0-0-0-0", 1);
    c.send(false, false, &[2]).on(1).send(true, false, &[10]).answer_in(Some(3), "0-0-2-0", 10);
    c.on(0).answer_in(Some(3), "0-0-1-0", 12).assert(&[]);
    // Then it is certain again.
    c.on(1).send(false, false, &[20]).answer_in(Some(3), "0-0-3-0", 32).assert(&[]);
    c.on(0).send(false, true, &[1]).answer_in(Some(1), "0-0-4-0", 33).assert(&[ViolationKind::WrongSlot]);
}

#[test]
fn a_start_of_a_stream_that_is_gone_may_come_until_its_time_limit() {
    let mut c = conversation();
    c.send(true, false, &[1])
        .tell(EventKind::Cut(Cut::Cancelled))
        .tell(EventKind::Opened(Connection::Own, Transport::GrpcStream));
    c.send(true, false, &[2, 3]).answer_in(Some(1), "0-0-1-0", 2).answer_in(Some(2), "0-0-1-1", 5).assert(&[]);
    c.wait(3001).send(true, false, &[2, 3]).answer_in(Some(1), "0-0-2-0", 2).answer_in(Some(2), "0-0-2-1", 5);
    c.assert(&[ViolationKind::WrongSlot]);
}
