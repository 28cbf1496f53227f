//! Faults of the scheduler, each against what a correct one does.

use super::{super::super::fault::Fault, *};

fn faulty(settings: Settings, fault: Fault) -> World {
    World::with_faults(settings, &[Planted::always(fault)])
}

fn both() -> [Settings; 2] {
    [direct(1, 1), oldest(1, 1, 1)]
}

#[test]
fn slots_leak() {
    for settings in both() {
        let mut world = faulty(settings.clone(), Fault::LeakSlotAtEnd);
        world.send("1SE 2SE");
        world.run_to(5000);
        world.saw(&["0 0[1SE]"]);

        let mut world = faulty(settings.clone(), Fault::LeakSlotAtIdle);
        world.send("1S 2SE");
        world.run_to(5000);
        world.saw(&["0 0[1S]"]);
        assert_eq!(world.rejection("1.a"), Some(Rejection::NoStart), "the sequence itself is reaped");

        let mut world = faulty(settings.clone(), Fault::LeakSlotAtCancel);
        world.send("1S 1.a 2SE");
        world.cancel("1.a");
        world.run_to(5000);
        world.saw(&["0 0[1S]", "10 1.a Cancelled"]);

        for is_late in [true, false] {
            let mut world = faulty(settings.clone(), Fault::LeakSlotAtLateCancel);
            world.send("1S 1.a 2SE");
            world.cancel("1.a");
            if is_late {
                world.scheduler.cancelled_late();
            }
            world.run_to(5000);
            let seen = ["0 0[1S]", "10 1.a Cancelled", "10 0[2SE]"];
            world.saw(if is_late { &seen[..2] } else { &seen });
        }

        let mut world = faulty(settings.clone(), Fault::LeakSlotAtDisconnect);
        world.send("1S 2SE");
        world.scheduler.disconnected(&SequenceId::Number(1));
        world.run_to(5000);
        world.saw(&["0 0[1S]"]);

        let mut world = faulty(settings, Fault::LeakSlotAtDisconnect);
        world.send("1S 2SE");
        world.run_to(5000);
        world.saw(&["0 0[1S]", "1000 0[2SE]"]);
    }
}

#[test]
fn a_cancelled_sequence_takes_the_ids_new_one_with_it() {
    for settings in [direct(1, 2), oldest(1, 2, 2)] {
        let mut world = faulty(settings, Fault::OrphanAtCancel);
        world.send("1S 1.a 1E 1.xS");
        world.cancel("1.a 1E");
        world.run_to(5000);
        assert_eq!(world.rejection("1.y"), Some(Rejection::NoStart));
        world.log.clear();
        world.send("2S 3S");
        world.run_to(5500);
        world.saw(&["5000 0[2S]"]);
    }
}

#[test]
fn a_slot_is_released_twice() {
    let mut world = faulty(direct(1, 2), Fault::DoubleRelease);
    world.send("1SE");
    world.run_to(100);
    world.send("2S 3S");
    world.run_to(200);
    world.saw(&["0 0[1SE]", "100 0[2S]", "110 0[3S]"]);
}

#[test]
fn there_is_a_slot_too_many() {
    let mut world = World::with_faults(direct(1, 1), &[Planted::once(Fault::ExtraSlot, 2)]);
    world.send("1S 2S 3S");
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[- 3S]"]);
    let mut world = faulty(oldest(1, 1, 2), Fault::ExtraSlot);
    world.send("1S 2S 3S");
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[2S 3S]"]);
}

#[test]
fn the_reaper_is_early_late_or_stuck() {
    for settings in both() {
        let mut world = faulty(settings.clone(), Fault::ReapEarly);
        world.send("1S 2SE");
        world.run_to(500);
        world.saw(&["0 0[1S]", "100 0[2SE]"]);

        let mut world = faulty(settings.clone(), Fault::NeverReap);
        world.send("1S 2SE");
        world.run_to(5000);
        world.saw(&["0 0[1S]"]);
        world.send("1E");
        world.run_to(5100);
        world.saw(&["5000 0[1E]", "5010 0[2SE]"]);

        let mut world = faulty(settings, Fault::ReaperLivelock);
        world.send("1S 2S");
        world.run_to(500);
        world.send("1.a");
        world.run_to(5000);
        world.saw(&["0 0[1S]", "500 0[1.a]"]);
        assert_eq!(world.scheduler.next_wake(), None);
        world.send("1.b");
        world.saw(&[]);
    }
}

#[test]
fn start_errors_are_missing_or_spurious() {
    for settings in both() {
        let mut world = faulty(settings.clone(), Fault::RejectMidSequence);
        world.send("1S");
        assert_eq!(world.rejection("1.a"), Some(Rejection::NoStart));
        let mut world = faulty(settings.clone(), Fault::RejectStart);
        assert_eq!(world.rejection("1S"), Some(Rejection::NoStart));
        let mut world = faulty(settings, Fault::AcceptNoStart);
        world.send("1.a 1.b 1E");
        world.run_to(100);
        world.saw(&["0 0[1.a]", "10 0[1.b]", "20 0[1E]"]);
    }
}

#[test]
fn the_backlog_starves_or_is_not_in_order() {
    for settings in both() {
        let mut world = faulty(settings.clone(), Fault::StarveBacklog);
        world.send("1S 2SE 1E");
        world.run_to(100);
        world.send("3SE");
        world.run_to(5000);
        world.saw(&["0 0[1S]", "10 0[1E]", "100 0[3SE]"]);

        let mut world = faulty(settings.clone(), Fault::BacklogOrder);
        world.send("1S 2SE 3SE 4SE 1E");
        world.run_to(100);
        world.saw(&["0 0[1S]", "10 0[1E]", "20 0[4SE]", "30 0[3SE]", "40 0[2SE]"]);

        // One that waits alone is no chance to do it.
        let mut world = World::with_faults(settings, &[Planted::once(Fault::BacklogOrder, 1)]);
        world.send("1S 2SE 1E");
        world.run_to(100);
        world.send("3S 4SE 5SE 3E");
        world.run_to(200);
        world.saw(&["0 0[1S]", "10 0[1E]", "20 0[2SE]", "100 0[3S]", "110 0[3E]", "120 0[5SE]", "130 0[4SE]"]);
    }
}

#[test]
fn steps_change_places() {
    for settings in both() {
        let mut world = faulty(settings.clone(), Fault::OutOfOrder);
        world.send("1S 1.a 1.b 1E");
        world.run_to(100);
        world.saw(&["0 0[1S]", "10 0[1.b]", "20 0[1.a]", "30 0[1E]"]);

        let mut world = faulty(settings, Fault::EndBeforeLast);
        world.send("1S 1.a 1.b 1E");
        world.run_to(100);
        world.saw(&["0 0[1S]", "10 0[1.a]", "20 0[1E]", "30 0[1.b]"]);
    }
}

#[test]
fn an_instance_hangs() {
    for settings in [direct(2, 1), oldest(2, 1, 1)] {
        let mut world = World::with_faults(settings, &[Planted::once(Fault::HangInstance, 1)]);
        world.send("1S 2S 1.a 2.a");
        world.run_to(100);
        world.saw(&["0 0[2S]", "10 0[2.a]"]);
    }
}

#[test]
fn rejections_end_sequences_and_time_limits_pass_that_are_none() {
    for settings in both() {
        let two = |request: &mut Request<String>| request.batch_size = 2;
        let mut right = World::new(settings.clone());
        right.send("1S");
        assert_eq!(right.offer("1.a", two), Err(Rejection::BatchSize));
        right.send("1.b 1E");

        let mut world = faulty(settings.clone(), Fault::RejectionEndsSequence);
        world.send("1S");
        assert_eq!(world.offer("1.a", two), Err(Rejection::BatchSize));
        assert_eq!(world.rejection("1.b"), Some(Rejection::NoStart));

        let mut world = faulty(settings.clone(), Fault::AcceptBatch);
        assert_eq!(world.offer("1S", two), Ok(()));

        let mut world = faulty(settings.clone(), Fault::ExpireEarly);
        world.send("1S 2S");
        world.run_to(1);
        world.saw(&["0 0[1S]", "0 2S Expired"]);

        let mut world = faulty(settings, Fault::IgnoreTimeout);
        world.send("1S");
        world.offer("2S", within(5)).expect("accepted");
        world.run_to(50);
        world.send("1E");
        world.run_to(60);
        let log = std::mem::take(&mut world.log).concat();
        assert!(log.contains("2S") && !log.contains("Expired"), "{log}");
    }
}
