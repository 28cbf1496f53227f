//! The Direct strategy.

use super::*;

fn waiting_for(minimum_slot_utilization: f64, queue_delay_ms: u64) -> Settings {
    Settings {
        strategy: Strategy::Direct { minimum_slot_utilization, queue_delay: ms(queue_delay_ms) },
        ..direct(1, 4)
    }
}

#[test]
fn a_slot_is_a_row_and_idle_slots_below_the_highest_ready_one_are_padding() {
    let mut world = World::new(direct(1, 4));
    world.send("1S 2S 3S 4S");
    world.run_to(100);
    world.send("4.a");
    world.run_to(200);
    world.send("2.a");
    world.run_to(300);
    world.send("1.a");
    world.run_to(400);
    world.saw(&["0 0[1S]", "10 0[- 2S 3S 4S]", "100 0[- - - 4.a]", "200 0[- 2.a]", "300 0[1.a]"]);
}

#[test]
fn padding_is_told_by_its_slot_and_requests_by_when_they_arrived() {
    let mut scheduler = Scheduler::new(direct(1, 2), Arc::default());
    let mut events = Vec::new();
    scheduler.enqueue(request("1S"), ms(5)).expect("accepted");
    scheduler.enqueue(request("2S"), ms(6)).expect("accepted");
    scheduler.advance(ms(7), &mut events);
    scheduler.finished(0);
    scheduler.enqueue(request("2.a"), ms(20)).expect("accepted");
    scheduler.advance(ms(20), &mut events);
    let rows: Vec<_> = events
        .iter()
        .flat_map(|event| match event {
            Event::Execute { batch, .. } => batch,
            Event::Reject(..) => panic!("nothing is rejected"),
        })
        .map(|row| (row.slot, row.request.as_ref().map(|request| request.arrived)))
        .collect();
    assert_eq!(rows, [(0, Some(ms(5))), (1, Some(ms(6))), (0, None), (1, Some(ms(20)))]);
}

#[test]
fn one_batch_is_executed_at_a_time_and_the_next_takes_what_came_meanwhile() {
    let mut world = World::new(direct(1, 4));
    world.send("1SE");
    world.run_to(5);
    world.send("2SE 3SE");
    world.run_to(9);
    world.send("4SE 5SE");
    world.run_to(100);
    world.saw(&["0 0[1SE]", "10 0[2SE 3SE 4SE 5SE]"]);
}

#[test]
fn requests_of_unequal_shapes_are_not_in_one_batch() {
    let mut world = World::new(direct(1, 4));
    world.send("1S");
    for (name, size) in [("2S", 2), ("3S", 1), ("4S", 2)] {
        world.offer(name, shaped(size)).expect("accepted");
    }
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[- 2S - 4S]", "20 0[- - 3S]"]);
}

#[test]
fn ragged_requests_are() {
    let mut world = World::new(Settings { ragged: true, ..direct(1, 4) });
    world.send("1S");
    for (name, size) in [("2S", 2), ("3S", 1), ("4S", 2)] {
        world.offer(name, shaped(size)).expect("accepted");
    }
    world.run_to(100);
    world.saw(&["0 0[1S]", "10 0[- 2S 3S 4S]"]);
}

#[test]
fn a_batch_waits_for_the_delay_unless_enough_slots_are_ready() {
    let mut world = World::new(waiting_for(0.5, 300));
    world.send("1S");
    world.run_to(100);
    world.send("2S");
    world.saw(&["100 0[1S 2S]"]);
    world.run_to(200);
    world.send("2.a");
    world.run_to(499);
    world.saw(&[]);
    world.run_to(500);
    world.saw(&["500 0[- 2.a]"]);
}

#[test]
fn the_oldest_request_decides_when_a_batch_goes() {
    let mut world = World::new(waiting_for(1.0, 300));
    world.send("1S");
    world.run_to(200);
    world.send("2S 3S");
    world.run_to(400);
    world.saw(&["300 0[1S 2S 3S]"]);
    world.send("1.a 2.a 3.a 4S");
    world.saw(&["400 0[1.a 2.a 3.a 4S]"]);
}

#[test]
fn a_request_whose_shape_does_not_fit_is_ready_all_the_same() {
    let mut world = World::new(waiting_for(1.0, 300));
    world.send("1S");
    world.run_to(100);
    world.offer("2S", shaped(2)).expect("accepted");
    world.send("3S");
    world.saw(&[]);
    world.offer("4S", shaped(2)).expect("accepted");
    // All four slots are busy. Two of the requests are left, and they alone are too few.
    world.saw(&["100 0[1S - 3S -]"]);
    world.run_to(700);
    world.saw(&["400 0[- 2S - 4S]"]);
}

#[test]
fn a_batch_goes_when_a_request_has_waited_that_does_not_fit_into_it() {
    let mut world = World::new(waiting_for(1.0, 300));
    world.send("1S 2S");
    world.run_to(400);
    world.offer("2.a", shaped(2)).expect("accepted");
    world.run_to(500);
    world.send("1.a");
    world.run_to(900);
    world.saw(&["300 0[1S 2S]", "700 0[1.a -]", "710 0[- 2.a]"]);
}

#[test]
fn without_a_minimum_nothing_waits_for_the_delay() {
    let mut world = World::new(waiting_for(0.0, 300));
    world.send("1S");
    world.saw(&["0 0[1S]"]);
}

#[test]
fn a_batch_that_waits_does_not_outlive_its_requests() {
    let mut world = World::new(waiting_for(1.0, 300));
    world.send("1S");
    world.run_to(100);
    world.cancel("1S");
    world.saw(&["100 1S Cancelled"]);
    assert_eq!(world.scheduler.next_wake(), None);
}
