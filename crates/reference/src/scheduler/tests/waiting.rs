//! The backlog, and what is cancelled.

use super::*;

#[test]
fn the_backlog_is_served_in_order_when_slots_are_freed() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S 3S 2.a 2E 3E 4SE 1E");
        assert_eq!(world.scheduler.live(), 0);
        world.run_to(200);
        world.saw(&["0 0[1S]", "10 0[1E]", "20 0[2S]", "30 0[2.a]", "40 0[2E]", "50 0[3S]", "60 0[3E]", "70 0[4SE]"]);
    }
}

#[test]
fn a_waiting_sequence_gets_its_slot_before_its_end_is_there() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S 2.a 1E");
        world.run_to(100);
        world.send("2.b 2E");
        world.run_to(200);
        world.saw(&["0 0[1S]", "10 0[1E]", "20 0[2S]", "30 0[2.a]", "100 0[2.b]", "110 0[2E]"]);
        world.send("3S");
        world.saw(&["200 0[3S]"]);
    }
}

#[test]
fn with_direct_a_slot_goes_to_the_backlog_when_the_end_is_dispatched() {
    let mut world = World::new(direct(1, 2));
    world.send("1S 2S 3S 3E 1E 2.a 2E");
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[1E 2S]", "20 0[3S 2.a]", "30 0[3E 2E]"]);
}

#[test]
fn an_id_that_waits_and_has_ended_waits_again_behind_the_others() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S 2E 3SE 2.xS 2.xE 1E");
        world.run_to(200);
        world.saw(&["0 0[1S]", "10 0[1E]", "20 0[2S]", "30 0[2E]", "40 0[3SE]", "50 0[2.xS]", "60 0[2.xE]"]);
    }
}

#[test]
fn an_id_that_waits_and_has_not_ended_starts_again_in_its_own_queue() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S 3SE 2.xS 2.xE 1E");
        world.run_to(200);
        world.saw(&["0 0[1S]", "10 0[1E]", "20 0[2S]", "30 0[2.xS]", "40 0[2.xE]", "50 0[3SE]"]);
    }
}

#[test]
fn a_time_limit_in_the_backlog_rejects_the_whole_sequence() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S");
        world.offer("2.a", within(300)).expect("accepted");
        world.offer("2.b", within(100)).expect("accepted");
        world.offer("2.c", within(500)).expect("accepted");
        world.offer("3S", within(400)).expect("accepted");
        world.send("4S");
        world.run_to(399);
        world.saw(&["0 0[1S]", "100 2S Expired", "100 2.a Expired", "100 2.b Expired", "100 2.c Expired"]);
        assert_eq!(world.rejection("2.d"), Some(Rejection::NoStart));
        // 3 gets the slot in time, and 4 has no time limit.
        world.send("1E 3E 4E");
        world.run_to(500);
        world.saw(&["399 0[1E]", "409 0[3S]", "419 0[3E]", "429 0[4S]", "439 0[4E]"]);
    }
}

#[test]
fn a_time_limit_ends_with_the_backlog() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.offer("1S", within(5)).expect("accepted");
        world.offer("1.a", within(5)).expect("accepted");
        world.offer("2S", within(50)).expect("accepted");
        world.send("1E 2.a 2E");
        world.run_to(200);
        world.saw(&["0 0[1S]", "10 0[1.a]", "20 0[1E]", "30 0[2S]", "40 0[2.a]", "50 0[2E]"]);
    }
}

#[test]
fn with_oldest_a_slot_goes_to_the_backlog_when_the_end_is_dispatched_and_its_step_waits_for_the_end() {
    let mut world = World::new(oldest(1, 2, 1));
    world.execution = ms(1000);
    world.send("1S 2SE");
    // 2 is not executed yet, and its slot is 3's; nobody gives one to 4.
    world.offer("3SE", within(300)).expect("accepted");
    world.offer("4SE", within(300)).expect("accepted");
    world.run_to(900);
    world.saw(&["0 0[1S]", "300 4SE Expired"]);
    world.run_to(2500);
    world.saw(&["1000 0[2SE]", "2000 0[3SE]"]);
}

#[test]
fn an_expired_sequence_that_has_ended_leaves_the_ids_new_one_alone() {
    let mut world = World::new(direct(1, 1));
    world.send("1S");
    world.offer("2S", within(100)).expect("accepted");
    world.send("2E 2.xS");
    world.run_to(150);
    world.saw(&["0 0[1S]", "100 2S Expired", "100 2E Expired"]);
    world.send("2.xE 1E");
    world.run_to(300);
    world.saw(&["150 0[1E]", "160 0[2.xS]", "170 0[2.xE]"]);
}

#[test]
fn a_cancelled_request_in_the_backlog_cancels_its_sequence() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S 2.a 2.b 3S");
        world.cancel("2.a");
        // It shows when a slot is released, and until then the ID lives.
        world.send("2.c 3E");
        world.run_to(50);
        world.saw(&["0 0[1S]"]);
        world.send("1E");
        world.run_to(100);
        let cancelled = |step| format!("50 2{step} Cancelled");
        for step in ["S", ".a", ".b", ".c"] {
            assert!(world.log.contains(&cancelled(step)), "{:?}", world.log);
        }
        world.log.retain(|line| !line.contains("Cancelled"));
        world.saw(&["50 0[1E]", "60 0[3S]", "70 0[3E]"]);
        assert_eq!(world.rejection("2.d"), Some(Rejection::NoStart));
    }
}

#[test]
fn a_cancelled_request_in_the_backlog_shows_when_a_sequence_is_reaped_too() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S 2E");
        world.run_to(500);
        world.cancel("2E");
        world.run_to(IDLE_MS);
        world.saw(&["0 0[1S]", "1000 2S Cancelled", "1000 2E Cancelled"]);
    }
}

#[test]
fn a_cancelled_request_at_the_front_of_a_slot_cancels_the_rest_and_frees_the_slot() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 1.a 1.b 1.c 2SE");
        world.cancel("1S 1.a");
        world.run_to(100);
        // What is executed is finished.
        world.saw(&["0 0[1S]", "10 1.a Cancelled", "10 1.b Cancelled", "10 1.c Cancelled", "10 0[2SE]"]);
        assert_eq!(world.rejection("1.d"), Some(Rejection::NoStart));
    }
}

#[test]
fn only_the_front_of_a_slot_is_looked_at() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 1.a 1.b 1.c");
        world.cancel("1.b");
        world.run_to(100);
        world.saw(&["0 0[1S]", "10 0[1.a]", "20 1.b Cancelled", "20 1.c Cancelled"]);
    }
}

#[test]
fn cancelling_other_slots_leaves_a_sequence_alone() {
    for settings in [direct(1, 2), oldest(1, 2, 2)] {
        let mut world = World::new(settings);
        world.send("1S 1.a 2S 2.a 2E");
        world.cancel("1.a");
        world.run_to(100);
        assert!(!world.log.iter().any(|line| line.contains("2.a Cancelled")), "{:?}", world.log);
        world.log.clear();
        world.send("3S 4S 5SE");
        world.run_to(200);
        assert_eq!(world.log.len(), 2, "two slots are free: {:?}", world.log);
    }
}

#[test]
fn with_oldest_what_waits_for_its_batch_is_executed_though_cancelled() {
    let mut world = World::new(oldest(1, 2, 1));
    world.send("1S 2S 2.a 2E 3SE");
    world.cancel("2S 2.a 2E");
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[2S]", "20 2.a Cancelled", "20 2E Cancelled", "20 0[3SE]"]);
}

#[test]
fn a_cancelled_sequence_that_had_ended_leaves_the_ids_new_one_alone() {
    for settings in [direct(1, 2), oldest(1, 2, 2)] {
        let mut world = World::new(settings);
        world.send("1S 1.a 1E 1.xS");
        world.cancel("1.a 1E");
        world.run_to(100);
        world.log.clear();
        world.send("1.x 1.xE");
        world.run_to(200);
        let seen = std::mem::take(&mut world.log);
        assert!(seen.len() == 2 && seen[0].contains("1.x]") && seen[1].contains("1.xE]"), "{seen:?}");
    }
}

#[test]
fn clients_that_go_change_nothing() {
    let mut world = World::new(direct(1, 1));
    world.send("1S 2SE");
    world.scheduler.disconnected(&SequenceId::Number(1));
    world.scheduler.disconnected(&SequenceId::Number(9));
    world.run_to(IDLE_MS - 1);
    world.send("1.a");
    world.run_to(3 * IDLE_MS);
    world.saw(&["0 0[1S]", "999 0[1.a]", "1999 0[2SE]"]);
}
