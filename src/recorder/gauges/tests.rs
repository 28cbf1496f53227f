use super::*;
use crate::recorder::series::Count;
use workload::{
    model::Spent,
    scenario::{Overrides, Source},
};

const SECOND: Nanos = 1_000_000_000;

fn gauges(fail_if: &str) -> Gauges {
    let text = format!("fail_if = [{fail_if:?}]\n[[population]]\nname = 'a'\n[[population]]\nname = 'b'");
    Gauges::of(&Scenario::resolve(&Source::from_text("test", &text), Overrides::default()).expect("a scenario"))
}

/// What was counted in a second with good steps that took so many ms, and others.
fn interval(good_ms: &[u64], bad_ms: &[u64]) -> Interval {
    let mut count = Count::default();
    for (ms, is_good) in good_ms.iter().map(|ms| (ms, true)).chain(bad_ms.iter().map(|ms| (ms, false))) {
        count.counted.responses += 1;
        count.counted.good += u64::from(is_good);
        count.times.step.record(0, ms * 1_000_000);
        if !is_good {
            count.times.not_good.record(0, ms * 1_000_000);
        }
    }
    count.close()
}

fn second(number: u64, ms: &[u64]) -> Second {
    Second { number, interval: interval(ms, &[]), parts: Vec::new() }
}

/// What a threshold came to in a run of these seconds: its value, rounded, and whether it was missed.
fn judged(fail_if: &str, seconds: &[Second], elapsed_s: u64) -> (Option<f64>, bool) {
    let mut gauges = gauges(fail_if);
    for second in seconds {
        gauges.second(second);
    }
    let [found] = gauges.conclude(Duration::from_secs(elapsed_s)).try_into().expect("one threshold");
    (found.value.map(f64::round), found.missed)
}

#[test]
fn a_time_is_that_of_the_run_or_of_a_part() {
    let run = || [second(0, &[10; 99]), second(1, &[50]), second(2, &[10; 20]), second(12, &[70])];
    let ms = |fail_if: &str| {
        let (value, missed) = judged(fail_if, &run(), 20);
        (value.map(|us| (us / 1000.0).round()), missed)
    };
    assert_eq!(ms("step.max > 60ms"), (Some(70.0), true));
    assert_eq!(ms("step.max > 80ms"), (Some(70.0), false));
    assert_eq!(ms("step.p50 > 20ms"), (Some(10.0), false));
    assert_eq!(ms("step.p99 > 20ms"), (Some(50.0), true));
    assert_eq!(ms("step.mean > 11ms"), (Some(11.0), false));
    assert_eq!(ms("step.max > 60ms during 0s..12s"), (Some(50.0), false));
    assert_eq!(ms("step.max > 60ms during 12s.."), (Some(70.0), true));
    assert_eq!(ms("step.max > 60ms during 13s.."), (None, false), "nothing happened then");
    assert_eq!(ms("step.p50 > 60ms in any 10s"), (Some(70.0), true), "the second window has the one step");
    assert_eq!(ms("step.p50 > 60ms in any 15s"), (Some(10.0), false));
}

#[test]
fn a_rate_counts_the_time_in_which_nothing_happens() {
    let run = || [second(0, &[1; 100]), second(1, &[1; 100]), second(31, &[1; 100])];
    let rate = |fail_if: &str| judged(fail_if, &run(), 35);
    assert_eq!(rate("throughput < 5/s"), (Some(9.0), false));
    assert_eq!(rate("throughput < 10/s"), (Some(9.0), true));
    assert_eq!(rate("throughput < 90/s during 0s..2s"), (Some(100.0), false));
    assert_eq!(rate("throughput < 5/s during 31s..60s"), (Some(25.0), false), "it goes on to the run's end");
    assert_eq!(rate("throughput < 1/s in any 10s"), (Some(0.0), true));
    assert_eq!(rate("throughput > 15/s in any 10s"), (Some(20.0), true));
    // A window that the end cuts short is none for a rate.
    assert_eq!(rate("throughput < 1/s in any 32s"), (Some(9.0), false));
    assert_eq!(rate("throughput < 1/s in any 40s"), (None, false));
}

#[test]
fn the_worst_window_is_told_with_its_time() {
    let mut gauges = gauges("step.max > 1s in any 5s");
    for (number, ms) in [(2, 3), (7, 9), (11, 4)] {
        gauges.second(&second(number, &[ms]));
    }
    let [found] = gauges.conclude(Duration::from_secs(13)).try_into().expect("one threshold");
    assert_eq!((found.at_s, found.missed, found.measured), (Some(5), false, true));
}

#[test]
fn what_is_not_good_is_infinitely_slow() {
    let run = || {
        let mut bad = Second { number: 0, interval: interval(&[10; 95], &[1, 1]), parts: Vec::new() };
        bad.interval.counted.lost = 3;
        [bad]
    };
    assert!(!judged("good_step.p90 > 20ms", &run(), 1).1);
    assert_eq!(judged("good_step.p99 > 20ms", &run(), 1), (None, true), "infinite");
    assert_eq!(judged("not_good > 4.9%", &run(), 1), (Some(5.0), true));
    assert_eq!(judged("not_good > 5.1%", &run(), 1), (Some(5.0), false));
    assert_eq!(judged("goodput < 96/s", &run(), 1), (Some(95.0), true));
    assert_eq!(judged("throughput < 96/s", &run(), 1), (Some(97.0), false));
}

#[test]
fn a_population_is_judged_by_its_own_requests() {
    let parts = vec![interval(&[90], &[])];
    let run = [Second { number: 0, interval: interval(&[10, 90], &[]), parts }];
    assert!(judged("step.mean of population b > 80ms", &run, 1).1);
    assert!(!judged("step.mean > 80ms", &run, 1).1);
}

#[test]
fn it_ends_the_run_when_the_second_is_over_and_says_so() {
    let mut gauges = gauges("step.p50 > 20ms during 2s.. abort");
    gauges.second(&second(0, &[50]));
    assert!(!gauges.abort(1), "not in its part of the run");
    gauges.second(&second(2, &[10]));
    assert!(!gauges.abort(3));
    gauges.second(&second(3, &[50, 50]));
    assert!(gauges.abort(4));
    // What comes while the run ends takes nothing back.
    gauges.second(&second(4, &[10; 99]));
    assert!(gauges.abort(5));
    let [found] = gauges.conclude(Duration::from_secs(5)).try_into().expect("one threshold");
    assert!(found.missed && found.ended_the_run);
    let mut rate = super::tests::gauges("goodput < 5/s abort");
    rate.second(&second(0, &[1; 9]));
    assert!(!rate.abort(0) && !rate.abort(1) && rate.abort(2), "none in the second second");
    let mut windows = super::tests::gauges("throughput < 1/s in any 2s abort");
    windows.second(&second(0, &[1; 2]));
    assert!(!windows.abort(3) && windows.abort(4), "only a window that is over says something");
}

#[test]
fn what_some_threads_have_left_early_waits_for_the_others() {
    let mut gauges = gauges("throughput > 150/s abort");
    gauges.hold(second(0, &[1; 100]));
    // One thread has left its part of the next second, in which the others still are.
    gauges.hold(second(1, &[1; 60]));
    assert!(!gauges.abort(1), "100 in a second");
    gauges.hold(second(1, &[1; 40]));
    assert!(!gauges.abort(2), "200 in two seconds");
    gauges.hold(second(2, &[1; 300]));
    assert!(gauges.abort(3));
}

#[test]
fn little_of_anything_is_no_wonder_when_no_load_begins_any_more() {
    let judged = |fail_if: &str| {
        let text = format!("fail_if = [{fail_if:?}]\nload.duration_s = 10");
        let scenario = Scenario::resolve(&Source::from_text("test", &text), Overrides::default()).expect("a scenario");
        let mut gauges = Gauges::of(&scenario);
        (0..10).for_each(|number| gauges.second(&second(number, &[1; 100])));
        gauges.second(&second(12, &[90]));
        let [found] = gauges.conclude(Duration::from_secs(13)).try_into().expect("one threshold");
        (found.value.map(f64::round), found.missed)
    };
    assert_eq!(judged("throughput < 50/s in any 1s"), (Some(100.0), false));
    assert_eq!(judged("throughput < 150/s in any 5s"), (Some(100.0), true));
    // Much of something is one all the same, also in the seconds that the end cuts short.
    assert_eq!(judged("step.max > 50ms in any 5s"), (Some(90_047.0), true));
}

#[test]
fn a_run_that_is_said_to_be_endless_has_an_end() {
    for elapsed in [u64::MAX, 10_000_000_000_000] {
        assert_eq!(judged("throughput < 1/s in any 1s", &[second(3, &[1; 9])], elapsed), (Some(0.0), true));
    }
}

fn look(at_s: u64, memory: u64) -> Sample {
    Sample { at: at_s * SECOND, in_flight: at_s, server_memory: Some(memory), ..Sample::default() }
}

fn looked(fail_if: &str, looks: impl Iterator<Item = Sample>) -> Found {
    let mut gauges = gauges(fail_if);
    let mut last = 0;
    for look in looks {
        gauges.sample(&look);
        last = look.at;
    }
    gauges.conclude(Duration::from_nanos(last)).remove(0)
}

#[test]
fn memory_grows_by_the_line_through_its_values() {
    // 10 MB an hour on a large base, up and down by a megabyte.
    let looks = || (1..=600).map(|s| look(s, 40_000_000_000 + s * 10_000_000 / 3600 + s % 2 * 1_000_000));
    let found = looked("server_memory.growth > 9MB/h", looks());
    assert!(found.missed && found.value.is_some_and(|value| (9.5e6..10.5e6).contains(&value)), "{found:?}");
    assert!(!looked("server_memory.growth > 11MB/h", looks()).missed);
    assert!(!looked("server_memory.growth > 1MB/h", looks().take(50)).measured, "under a minute");
    assert!(looked("server_memory.growth > 1MB/h", looks().take(60)).measured);
    assert!(looked("server_memory.max > 40GB", looks()).missed);
    assert!(!looked("server_memory.max > 1GB", (1..9).map(|s| Sample { server_memory: None, ..look(s, 0) })).measured);
    assert_eq!(looked("in_flight.mean > 2", (1..=5).map(|s| look(s, 0))).value, Some(3.0));
}

#[test]
fn what_the_server_counts_is_what_rose() {
    let look = |at_s: u64, requests: u64, us_each: u64, executions: u64| {
        let counted = workload::model::Counted {
            success: requests,
            inference: requests,
            execution: executions,
            ..Default::default()
        };
        let spent =
            Spent { queue_ns: requests * us_each * 1000, compute_infer_ns: requests * 7000, ..Spent::default() };
        let statistics = Some(Statistics { counted, spent });
        Sample { statistics, client_cpu_us: at_s * 250_000, ..look(at_s, 0) }
    };
    // Before the run it had a thousand requests already, and it was started anew before the last look.
    let looks = || [look(1, 1000, 90, 1000), look(2, 1100, 90, 1050), look(3, 1200, 90, 1100), look(4, 10, 90, 10)];
    let value = |fail_if: &str| looked(fail_if, looks().into_iter()).value.map(f64::round);
    assert_eq!(value("server_queue > 1ms"), Some(90.0));
    assert_eq!(value("server_compute > 1ms"), Some(7.0));
    assert_eq!(value("mean_batch < 1"), Some(2.0));
    assert_eq!(value("client_cpu > 1%"), Some(25.0));
    assert!(!looked("server_cpu > 1%", looks().into_iter()).measured);
}

/// A run of two seconds in which a little of everything happened.
fn of_everything() -> (Vec<Second>, [Sample; 3]) {
    let counted = Counted { requests: 10, responses: 9, good: 8, lost: 1, sequences: 4, ..Counted::default() };
    let mut count = Count { counted, ..Count::default() };
    let times = &mut count.times;
    for times in [&mut times.step, &mut times.late, &mut times.sequence, &mut times.slot, &mut times.first_response] {
        times.record(0, 20_000_000);
    }
    let mut interval = count.close();
    interval.offered.live = Some(7);
    let seconds = vec![Second { number: 1, interval, parts: Vec::new() }];
    let samples = [1, 2, 62].map(|at_s: u64| {
        let (requests, us) = (at_s * 100, at_s * 1_000_000);
        let counted = workload::model::Counted {
            success: requests,
            inference: requests,
            execution: requests / 2,
            ..Default::default()
        };
        let spent =
            Spent { queue_ns: requests * 5_000_000, compute_infer_ns: requests * 3_000_000, ..Spent::default() };
        Sample {
            starts_waiting: 7,
            pending: Some(7),
            server_memory: Some(at_s * 1_000_000),
            client_memory: Some(at_s * 1_000_000),
            client_cpu_us: us / 2,
            server_cpu_us: Some(us / 2),
            statistics: Some(Statistics { counted, spent }),
            ..look(at_s, 0)
        }
    });
    (seconds, samples)
}

#[test]
fn each_measure_is_missed_by_what_is_beyond_its_limit_and_kept_by_what_is_not() {
    for measure in Measure::ALL {
        let (missed, kept) = match measure {
            Measure::Step
            | Measure::GoodStep
            | Measure::Sequence
            | Measure::WaitForSlot
            | Measure::FirstResponse
            | Measure::ClientLate => (".max > 10ms", ".max > 30ms"),
            Measure::Throughput | Measure::Goodput | Measure::Sequences => (" < 100/s", " < 1/min"),
            Measure::NotGood => (" > 10%", " > 30%"),
            Measure::InFlight | Measure::StartsWaiting | Measure::LiveSequences | Measure::Pending => {
                (".mean > 6", ".max > 70")
            }
            Measure::ServerMemory | Measure::ClientMemory => (".max > 50MB", ".growth > 4GB/h"),
            Measure::ServerCpu | Measure::ClientCpu => (" > 40%", " > 60%"),
            Measure::ServerQueue => (" > 4ms", " > 6ms"),
            Measure::ServerCompute => (" > 2ms", " > 4ms"),
            Measure::MeanBatch => (" < 3", " < 1.9"),
        };
        // One sequence in ten was lost, so that its steps are infinitely slow.
        let kept = if measure == Measure::GoodStep { ".p50 > 30ms" } else { kept };
        for (rest, is_missed) in [(missed, true), (kept, false)] {
            let text = format!("fail_if = ['{measure}{rest}']\nload = {{ workers = 1, rate = '5/s' }}");
            let scenario = Scenario::resolve(&Source::from_text("test", &text), Overrides::default());
            let mut gauges = Gauges::of(&scenario.unwrap_or_else(|error| panic!("{error}")));
            let (seconds, samples) = of_everything();
            for second in &seconds {
                gauges.second(second);
            }
            for sample in &samples {
                gauges.sample(sample);
            }
            let found = gauges.conclude(Duration::from_secs(2)).remove(0);
            assert!(found.measured && found.missed == is_missed, "{measure}{rest}: {found:?}");
        }
    }
}
