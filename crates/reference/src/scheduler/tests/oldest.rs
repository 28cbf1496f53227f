//! The Oldest strategy.

use super::*;

fn preferring(preferred: &[u32], queue_delay_ms: u64) -> Settings {
    let strategy = Strategy::Oldest { candidates: 8, preferred: preferred.to_vec(), queue_delay: ms(queue_delay_ms) };
    Settings { strategy, ..oldest(1, 8, 4) }
}

#[test]
fn each_sequence_has_one_request_in_a_batch() {
    let mut world = World::new(oldest(1, 4, 4));
    world.send("1S 1.a 1.b 2S 2.a 3SE");
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[2S 3SE 1.a]", "20 0[2.a 1.b]"]);
}

#[test]
fn there_may_be_more_candidates_than_a_batch_holds() {
    let mut world = World::new(oldest(1, 6, 2));
    world.send("1S 2S 3S 4S 5S 6S 7SE 1E");
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[2S 3S]", "20 0[4S 5S]", "30 0[6S 1E]", "40 0[7SE]"]);
}

#[test]
fn without_candidates_there_are_as_many_slots_as_a_batch_holds() {
    assert_eq!(oldest(1, 0, 3).slots(), 3);
    assert_eq!((oldest(1, 5, 3).slots(), direct(1, 3).slots()), (5, 3));
    assert_eq!(Settings { batch: 0, ..direct(1, 1) }.slots(), 1);
}

#[test]
fn the_queue_is_in_order_of_arrival_whatever_the_slot() {
    let mut world = World::new(oldest(1, 4, 4));
    world.send("1S 2S 3S");
    world.run_to(100);
    world.log.clear();
    world.send("3.x");
    world.run_to(105);
    world.send("3.a 2.a 1.a");
    world.run_to(200);
    world.saw(&["100 0[3.x]", "110 0[2.a 1.a 3.a]"]);
}

#[test]
fn a_preferred_size_goes_at_once_and_the_rest_waits_for_the_delay() {
    let mut world = World::new(preferring(&[2, 4], 300));
    world.send("1S");
    world.run_to(100);
    world.saw(&[]);
    world.send("2S");
    world.saw(&["100 0[1S 2S]"]);
    world.send("3S 4S 5S");
    world.run_to(109);
    world.saw(&[]);
    world.run_to(110);
    world.saw(&["110 0[3S 4S]"]);
    world.run_to(399);
    world.saw(&[]);
    world.run_to(400);
    world.saw(&["400 0[5S]"]);
}

#[test]
fn no_batch_is_larger_than_the_largest_preferred_one() {
    let mut world = World::new(preferring(&[3], 300));
    world.send("1S 2S");
    world.run_to(100);
    world.send("3S");
    world.send("4S 5S 6S 7S");
    world.run_to(450);
    world.saw(&["100 0[1S 2S 3S]", "110 0[4S 5S 6S]", "400 0[7S]"]);
}

#[test]
fn with_a_delay_and_no_preference_a_full_batch_goes_at_once() {
    let mut world = World::new(preferring(&[], 300));
    world.send("1S 2S 3S");
    world.run_to(100);
    world.saw(&[]);
    world.send("4S");
    world.saw(&["100 0[1S 2S 3S 4S]"]);
    assert_eq!(world.scheduler.next_wake(), Some(ms(IDLE_MS)), "no batch waits");
}

#[test]
fn without_a_delay_a_preference_holds_nothing_back() {
    let mut world = World::new(preferring(&[4], 0));
    world.send("1S");
    world.saw(&["0 0[1S]"]);
}

#[test]
fn a_change_of_shape_ends_a_batch_which_then_goes_at_once() {
    let mut world = World::new(preferring(&[4], 300));
    world.send("1S 2S");
    world.offer("3S", shaped(2)).expect("accepted");
    world.offer("4S", shaped(2)).expect("accepted");
    world.run_to(400);
    world.saw(&["0 0[1S 2S]", "300 0[3S 4S]"]);
    let mut world = World::new(Settings { ragged: true, ..oldest(1, 4, 4) });
    world.send("1S");
    for (name, size) in [("2S", 2), ("3S", 1)] {
        world.offer(name, shaped(size)).expect("accepted");
    }
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[2S 3S]"]);
}

#[test]
fn a_reaped_sequences_slot_waits_for_its_step_in_flight() {
    let mut world = World::new(oldest(1, 1, 1));
    world.execution = ms(1500);
    world.send("1S 2SE");
    world.run_to(3100);
    world.saw(&["0 0[1S]", "1500 0[2SE]"]);
}
