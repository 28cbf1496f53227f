use super::*;

fn read(text: &str) -> Threshold {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_threshold_is_read_and_says_itself_again() {
    let all = "step.p99 > 50ms";
    for text in [
        all,
        "goodput < 500/s during 10s..1m",
        "wait_for_slot.max of pattern no-end >= 2s in any 10s abort",
        "sequence.p99.9 of population long ones > 1.5s during 5m..",
        "server_memory.growth > 50MB/h",
        "not_good > 0.1%",
        "in_flight.mean <= 40 abort",
    ] {
        let threshold = read(text);
        assert_eq!(threshold.to_string(), text);
        let json = serde_json::to_string(&threshold).expect("a text");
        assert_eq!(serde_json::from_str::<Threshold>(&json).expect("it was written"), threshold);
    }
    assert_eq!(read("  step.p99>50   ms"), read(all));
    let Threshold { measure, statistic, whose, window, aborts, .. } =
        read("wait_for_slot.max of pattern no-end >= 2s in any 10s abort");
    assert_eq!((measure, statistic, window, aborts), (Measure::WaitForSlot, Statistic::Max, Window::Each(10), true));
    assert_eq!(whose, Whose::Pattern(Pattern::named("no-end").expect("a pattern")));
    let population = read("sequence.p99.9 of population long ones > 1.5s during 5m..");
    assert_eq!(population.whose, Whose::Population("long ones".to_owned()));
    assert_eq!(population.window, Window::Span { from: 300, until: None });
}

#[test]
fn limits_have_the_units_of_what_is_measured() {
    for (text, missed, kept, shown) in [
        ("step.p99 > 50ms", 50_001.0, 50_000.0, "50.0 ms"),
        ("step.p99 >= 50ms", 50_000.0, 49_999.0, "50.0 ms"),
        ("sequence.max > 1.5s", 1_500_001.0, 1_500_000.0, "1500.0 ms"),
        ("goodput < 60/min", 0.99, 1.0, "1.0/s"),
        ("server_memory.growth > 1MB/min", 60_000_001.0, 60_000_000.0, "60.0 MB/h"),
        ("client_memory.max > 1MiB", 1_048_577.0, 1_048_576.0, "1.0 MB"),
        ("not_good <= 2%", 2.0, 2.1, "2.10 %"),
        ("mean_batch < 4", 3.9, 4.0, "4.0"),
    ] {
        let threshold = read(text);
        assert!(threshold.is_missed_by(missed) && !threshold.is_missed_by(kept), "{text}");
        assert_eq!(threshold.shown(kept), shown, "{text}");
    }
    assert!(read("good_step.p99 > 50ms").is_missed_by(f64::INFINITY));
    assert!(read("goodput < 5/s").worse_of(1.0, 2.0) < 1.5 && read("step.max > 5s").worse_of(1.0, 2.0) > 1.5);
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    for (text, problem) in [
        ("step.p99", "neither < nor >"),
        ("> 5ms", "does not say what is measured"),
        ("stepp.p99 > 5ms", "'stepp' is not measured; these are: step, good_step, sequence"),
        ("step > 5ms", "step has mean, max and percentiles such as p50 or p99.9"),
        ("step.p0 > 5ms", "step has mean, max and percentiles"),
        ("step.p1e1 > 5ms", "step has mean, max and percentiles"),
        ("step.growth > 5ms", "step has mean, max and percentiles"),
        ("good_step.mean > 5ms", "good_step has max and"),
        ("goodput.p99 < 5/s", "goodput is one value"),
        ("pending.growth > 5", "pending has mean, max, as in pending.max"),
        ("step.p99 > 50", "'50' is no limit for it, such as 50ms"),
        ("step.p99 > -5ms", "'-5ms' is no limit"),
        ("goodput < 5ms", "such as 500/s"),
        ("server_memory.growth > 5MB", "such as 50MB/h"),
        ("step.p99 >", "'' is no limit"),
        ("step.p99 of all > 5ms", "'of all' is neither"),
        ("step.p99 of pattern nothing > 5ms", "there is no pattern 'nothing'; these are: valid"),
        ("pending.max of pattern valid > 5", "pending is measured of the whole run alone"),
        ("step.p99 > 5ms of pattern valid", "'of …' stands before the operator"),
        ("step.p99 > 5ms during 5s", "'5s' is no part of a run"),
        ("step.p99 > 5ms during 5s..5s", "ends before it begins"),
        ("step.p99 > 5ms in any 0s", "a second or more"),
        ("step.p99 > 5ms in any 10ms", "'10ms' is not a time of whole seconds"),
        ("step.p99 > 5ms in 10s", "'in 10s' is neither"),
        ("step.p99 > 5ms abort abort", "'abort' is neither"),
        ("server_memory.growth > 5MB/h in any 10s", "growth shows in a minute or more"),
    ] {
        let error = text.parse::<Threshold>().expect_err(text);
        assert!(error.contains(problem) && !error.contains('\n'), "{text}: {error}");
    }
}
