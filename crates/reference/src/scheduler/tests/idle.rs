//! The reaper.

use super::*;

#[test]
fn a_sequence_is_reaped_when_the_idle_limit_has_passed_since_its_last_request_came() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S");
        world.run_to(600);
        world.send("1.a 2SE");
        world.run_to(600 + IDLE_MS - 1);
        world.saw(&["0 0[1S]", "600 0[1.a]"]);
        world.run_to(600 + IDLE_MS);
        world.saw(&["1600 0[2SE]"]);
        assert_eq!(world.rejection("1.b"), Some(Rejection::NoStart));
    }
}

#[test]
fn the_reaper_wakes_when_something_is_due() {
    let mut world = World::new(direct(1, 2));
    assert_eq!(world.scheduler.next_wake(), None);
    world.send("1S");
    world.run_to(300);
    world.send("2S");
    assert_eq!(world.scheduler.next_wake(), Some(ms(1000)));
    world.send("1E");
    assert_eq!(world.scheduler.next_wake(), Some(ms(1300)));
    world.offer("3S", within(50)).expect("accepted");
    world.run_to(400);
    world.offer("4S", within(50)).expect("accepted");
    world.send("5S");
    world.offer("6S", within(40)).expect("accepted");
    assert_eq!(world.scheduler.next_wake(), Some(ms(440)));
}

#[test]
fn a_slow_sequence_is_reaped_and_what_it_has_queued_is_still_executed() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.execution = ms(700);
        world.send("1S 1.a 1.b 2SE");
        world.run_to(1050);
        assert_eq!(world.rejection("1.c"), Some(Rejection::NoStart));
        world.run_to(5000);
        world.saw(&["0 0[1S]", "700 0[1.a]", "1400 0[1.b]", "2100 0[2SE]"]);
    }
}

#[test]
fn the_id_of_a_reaped_sequence_can_start_again_while_its_steps_are_queued() {
    let mut world = World::new(direct(1, 2));
    world.execution = ms(700);
    world.send("1S 1.a 1.b");
    world.run_to(1050);
    world.send("1.xS 1.xE");
    world.run_to(5000);
    world.saw(&["0 0[1S]", "700 0[1.a]", "1400 0[1.b 1.xS]", "2100 0[- 1.xE]"]);
    world.send("2S");
    world.run_to(5500);
    world.saw(&["5000 0[2S]"]);
}

#[test]
fn a_waiting_sequence_is_not_reaped_and_soon_is_when_it_has_its_slot() {
    for settings in [direct(1, 1), oldest(1, 1, 1)] {
        let mut world = World::new(settings);
        world.send("1S 2S 3SE");
        for at in [500, 1400, 2300] {
            world.run_to(at);
            world.send("1.a");
        }
        // 2 waits since 0 and is idle since then, and still there.
        world.run_to(2500);
        world.send("1E");
        world.run_to(2505);
        world.log.clear();
        world.run_to(2600);
        // It has its slot when 1 has ended, is reaped within 50 ms, and 3 gets the slot.
        let seated = world.log.iter().position(|line| line.ends_with("[2S]")).expect("2 is executed");
        assert_eq!(world.log.len(), 2, "{:?}", world.log);
        assert!(world.log[seated + 1].ends_with("[3SE]"), "{:?}", world.log);
        let at: u64 = world.log[seated + 1].split(' ').next().expect("a time").parse().expect("a number");
        assert!((2511..=2561).contains(&at), "{:?}", world.log);
        assert_eq!(world.rejection("2.a"), Some(Rejection::NoStart));
    }
}

#[test]
fn one_sequences_idleness_is_not_its_neighbours() {
    for settings in [direct(1, 2), oldest(1, 2, 2)] {
        let mut world = World::new(settings);
        world.send("1S 2S 3S");
        for at in [800, 1600, 2400] {
            world.run_to(at);
            world.send("2.a");
        }
        // 1 is reaped at 1000, 3 is then in its slot, past its own limit, and is reaped; 2 lives.
        world.run_to(2500);
        assert_eq!(world.rejection("1.b"), Some(Rejection::NoStart));
        assert_eq!(world.rejection("3.b"), Some(Rejection::NoStart));
        world.send("2E");
        assert_eq!(world.log.iter().filter(|line| line.contains("3S")).count(), 1, "{:?}", world.log);
    }
}

#[test]
fn a_start_of_the_id_renews_its_time() {
    let mut world = World::new(direct(1, 1));
    world.send("1S");
    world.run_to(900);
    world.send("1.xS");
    world.run_to(1800);
    world.send("1.y");
    world.run_to(1900);
    world.saw(&["0 0[1S]", "900 0[1.xS]", "1800 0[1.y]"]);
}
