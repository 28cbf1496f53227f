//! Which requests are accepted, and where they go.

use super::*;

#[test]
fn a_sequence_runs_from_start_to_end_one_step_at_a_time() {
    for settings in [direct(1, 4), oldest(1, 4, 4)] {
        let mut world = World::new(settings);
        world.send("1S 1.a 1E");
        world.run_to(100);
        world.saw(&["0 0[1S]", "10 0[1.a]", "20 0[1E]"]);
    }
}

#[test]
fn a_sequence_may_be_one_step_long() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1SE");
        assert_eq!(world.rejection("1.a"), Some(Rejection::NoStart));
        world.send("1.bSE 1.cSE");
        world.run_to(100);
        world.saw(&["0 0[1SE]", "10 0[1.bSE]", "20 0[1.cSE]"]);
    }
}

#[test]
fn what_is_wrong_with_a_request_is_looked_for_in_order() {
    let mut world = World::new(direct(1, 2));
    world.scheduler.stop();
    let two = |request: &mut Request<String>| request.batch_size = 2;
    assert_eq!(world.offer("0S", two), Err(Rejection::BatchSize));
    assert_eq!(world.rejection("0S"), Some(Rejection::NoCorrelationId));
    assert_eq!(world.rejection("1S"), Some(Rejection::Stopping));
    assert_eq!(world.rejection("1"), Some(Rejection::NoStart));
    assert_eq!(world.offer(".aS", |request| request.id = SequenceId::Text("".into())), Err(Rejection::NoCorrelationId));
    let zero = |request: &mut Request<String>| request.batch_size = 0;
    assert_eq!(world.offer("1", zero), Err(Rejection::NoStart));
    world.run_to(100);
    world.saw(&[]);
}

#[test]
fn a_step_needs_a_live_sequence() {
    for settings in [direct(1, 2), oldest(1, 2, 2)] {
        let mut world = World::new(settings);
        assert_eq!(world.rejection("7.a"), Some(Rejection::NoStart));
        assert_eq!(world.rejection("7E"), Some(Rejection::NoStart));
        world.send("1S 1E");
        assert_eq!(world.rejection("1.b"), Some(Rejection::NoStart), "END is forgotten when it is accepted");
        assert_eq!(world.rejection("2.b"), Some(Rejection::NoStart));
        world.run_to(100);
        world.saw(&["0 0[1S]", "10 0[1E]"]);
        assert_eq!(world.scheduler.live(), 0);
    }
}

#[test]
fn a_number_and_the_same_digits_as_text_are_two_ids() {
    let mut world = World::new(direct(1, 2));
    world.send("1S");
    assert_eq!(world.offer("1.b", |request| request.id = SequenceId::Text("1".into())), Err(Rejection::NoStart));
    world.send("abcS abc.1");
    assert_eq!(world.rejection("abd.1"), Some(Rejection::NoStart));
}

#[test]
fn a_start_on_an_id_in_use_stays_in_its_slot_behind_what_is_queued() {
    for settings in [direct(1, 2), oldest(1, 2, 2)] {
        let mut world = World::new(settings);
        world.send("1S 1.a 1.bS 1.c 1E");
        world.run_to(100);
        world.saw(&["0 0[1S]", "10 0[1.a]", "20 0[1.bS]", "30 0[1.c]", "40 0[1E]"]);
    }
}

#[test]
fn a_start_behind_a_queued_end_is_a_second_sequence_in_another_slot() {
    let mut world = World::new(direct(1, 2));
    world.send("1S 1.a 1E 1.xS 1.xE");
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[1.a 1.xS]", "20 0[1E 1.xE]"]);
    let mut world = World::new(oldest(1, 2, 2));
    world.send("1S 1.a 1E 1.xS 1.xE");
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[1.xS 1.a]", "20 0[1.xE 1E]"]);
}

#[test]
fn the_lowest_free_slot_is_taken_across_the_instances() {
    let mut world = World::new(direct(2, 2));
    world.send("1S 2S 3S 4S");
    world.run_to(100);
    world.saw(&["0 1[1S]", "0 0[2S]", "10 0[- 4S]", "10 1[- 3S]"]);
    // Of the two with the lowest number, the one that is free for longer.
    world.send("2E 1E");
    world.run_to(200);
    world.send("5S 6S");
    world.run_to(300);
    world.saw(&["100 0[2E]", "100 1[1E]", "200 0[5S]", "200 1[6S]"]);
}

#[test]
fn instances_execute_side_by_side() {
    for settings in [direct(2, 1), oldest(2, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 1E 2S 2E");
        world.run_to(100);
        world.saw(&["0 1[1S]", "0 0[2S]", "10 0[2E]", "10 1[1E]"]);
    }
}

#[test]
fn after_a_stop_what_lives_goes_on_and_nothing_starts() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S");
        world.scheduler.stop();
        assert_eq!(world.rejection("3S"), Some(Rejection::Stopping));
        assert_eq!(world.rejection("1.bS"), Some(Rejection::Stopping), "a START on an ID in use is one too");
        assert!(!world.scheduler.is_idle(), "2 waits");
        world.send("1E 2E");
        world.run_to(100);
        world.saw(&["0 0[1S]", "10 0[1E]", "20 0[2S]", "30 0[2E]"]);
        assert!(world.scheduler.is_idle());
    }
}

#[test]
fn a_sequence_is_live_from_its_start_to_its_end_in_a_slot_and_in_the_backlog() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        assert_eq!(world.scheduler.live(), 0);
        world.send("1S 2S 2.a 3S");
        assert_eq!(world.scheduler.live(), 3);
        world.send("1E 3E");
        assert_eq!(world.scheduler.live(), 1);
        world.run_to(100);
        assert_eq!(world.scheduler.live(), 1, "2 is in its slot");
    }
}

#[test]
fn a_queued_step_is_seen_as_work() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S");
        assert!(world.scheduler.is_idle(), "what is executed is the caller's");
        world.send("1.a");
        assert!(!world.scheduler.is_idle());
        world.run_to(15);
        assert!(world.scheduler.is_idle());
    }
}

#[test]
fn nothing_is_kept_of_sequences_that_are_over() {
    for settings in [direct(1, 2), oldest(1, 2, 2)] {
        let mut world = World::new(settings);
        world.execution = Duration::ZERO;
        for id in 1..=20_000_u64 {
            // Some end, some are left to the reaper.
            let name = if id % 10 == 0 { format!("{id}S") } else { format!("{id}SE") };
            world.send(&name);
            world.run_to(id * 200);
            world.log.clear();
            world.cancels.clear();
            assert!(world.scheduler.live() <= 2, "{}", world.scheduler.live());
        }
        world.run_to(20_000 * 200 + IDLE_MS);
        assert_eq!((world.scheduler.live(), world.scheduler.next_wake()), (0, None));
        assert!(world.scheduler.is_idle());
    }
}

#[test]
fn executions_begin_when_enough_is_queued() {
    let mut world = World::new(Settings { hold_until: HoldUntil { queued: 4, backlog: 0 }, ..direct(1, 2) });
    world.send("1S 1.a 2S");
    world.run_to(500);
    world.saw(&[]);
    world.send("2.a");
    world.saw(&["500 0[1S 2S]"]);
    world.send("1E");
    world.run_to(600);
    world.saw(&["510 0[1.a 2.a]", "520 0[1E]"]);
}

#[test]
fn executions_begin_when_enough_is_in_the_backlog_too() {
    let mut world = World::new(Settings { hold_until: HoldUntil { queued: 2, backlog: 2 }, ..direct(1, 1) });
    world.send("1S 1E 2S");
    world.run_to(500);
    world.saw(&[]);
    world.send("2E");
    world.run_to(600);
    world.saw(&["500 0[1S]", "510 0[1E]", "520 0[2S]", "530 0[2E]"]);
}

#[test]
fn with_oldest_executions_begin_when_enough_sequences_have_a_request() {
    let mut world = World::new(Settings { hold_until: HoldUntil { queued: 2, backlog: 9 }, ..oldest(1, 2, 2) });
    world.send("1S 1.a 1E");
    world.run_to(500);
    world.saw(&[]);
    world.send("2S 3SE");
    world.run_to(600);
    world.saw(&["500 0[1S 2S]", "510 0[1.a]", "520 0[1E]", "530 0[3SE]"]);
}

#[test]
fn an_instance_that_is_added_gets_new_sequences_and_the_backlog_waits_on() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S");
        assert_eq!(world.scheduler.resize(2), 2);
        world.run_to(100);
        world.send("3S 1.a");
        world.run_to(200);
        world.saw(&["0 0[1S]", "100 1[3S]", "100 0[1.a]"]);
        world.send("3E");
        world.run_to(300);
        world.saw(&["200 1[3E]", "210 1[2S]"]);
    }
}

#[test]
fn an_instance_that_is_removed_works_off_its_sequences_and_gets_no_new_ones() {
    for settings in [direct(2, 1), oldest(2, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S");
        assert_eq!(world.scheduler.resize(1), 2);
        world.run_to(100);
        world.send("3S 1.a 1E");
        world.run_to(200);
        world.saw(&["0 1[1S]", "0 0[2S]", "100 1[1.a]", "110 1[1E]"]);
        world.send("2E");
        world.run_to(300);
        world.saw(&["200 0[2E]", "210 0[3S]"]);
        // It is used again when there are to be more.
        assert_eq!(world.scheduler.resize(2), 2);
        world.send("4S 5S");
        world.run_to(400);
        world.saw(&["300 1[4S]"]);
    }
}

#[test]
fn a_free_instance_that_is_removed_is_not_used() {
    let mut world = World::new(direct(3, 1));
    assert_eq!(world.scheduler.resize(1), 3);
    world.send("1S 2S");
    world.run_to(100);
    world.saw(&["0 0[1S]"]);
    assert_eq!(world.scheduler.resize(1), 3);
    assert_eq!(world.scheduler.resize(4), 4);
    world.send("3S 4S 5S 6S");
    world.run_to(200);
    world.saw(&["100 1[3S]", "100 2[4S]", "100 3[5S]"]);
}
