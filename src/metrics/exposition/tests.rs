use super::*;
use crate::{
    metrics::{Metrics, Watching},
    recorder::{Measured, PatternCounts, Patterns},
    run::{Glance, Observer as _, Progress},
};
use oracle::diagnosis::{Cause, Clue};
use oracle::{Evidence, Sent, Violation, ViolationKind, diagnosis::Explanation};
use workload::{
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
    sequence::Pattern,
};

#[test]
fn a_client_gets_the_form_that_it_prefers() {
    for (accept, expected) in [
        ("", Form::Prometheus),
        ("*/*", Form::Prometheus),
        ("text/plain", Form::Prometheus),
        ("text/html, application/xhtml+xml, */*;q=0.8", Form::Prometheus),
        ("application/openmetrics-text", Form::OpenMetrics),
        ("application/openmetrics-text;version=1.0.0", Form::OpenMetrics),
        ("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", Form::OpenMetrics),
        ("application/openmetrics-text;version=0.0.1", Form::Prometheus),
        ("application/openmetrics-text;version=1.0.0;q=0", Form::Prometheus),
        ("application/openmetrics-text;q=nonsense", Form::Prometheus),
        // Values may be quoted.
        ("application/openmetrics-text;version=\"1.0.0\"", Form::OpenMetrics),
        ("application/openmetrics-text; Version = \"1.0.0\";Q=0.5,text/plain;q=0.2", Form::OpenMetrics),
        ("application/openmetrics-text;version=\"0.0.1\"", Form::Prometheus),
        ("text/plain;x=\"a,\\\";application/openmetrics-text,b\";q=0.5", Form::Prometheus),
        ("text/plain;x=\"\\\\\";q=0.5,application/openmetrics-text;x=\";q=0\"", Form::OpenMetrics),
        ("application/openmetrics-text;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.5", Form::Prometheus),
        // What Prometheus 2 and 3 send.
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            Form::OpenMetrics,
        ),
        (
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;\
             q=0.8,text/plain;version=0.0.4;q=0.5",
            Form::OpenMetrics,
        ),
    ] {
        assert_eq!(Form::asked_for(accept), expected, "{accept}");
    }
}

fn scenario() -> Scenario {
    let overrides = Overrides { model: Some("a \"model\"\\".to_owned()), ..Overrides::default() };
    Scenario::resolve(&Source::from_text("test", "claims = {}"), overrides).expect("a scenario")
}

fn glance(requests: u64) -> Glance {
    let mut patterns = vec![PatternCounts::default(); Pattern::ALL.len()];
    let counts = &mut patterns[Pattern::Valid.index()].counts;
    (counts.requests, counts.completed, counts.sequences) = (requests, requests - 1, 2);
    let mut measured = Measured::default();
    measured.good = requests - 1;
    Glance {
        patterns: Patterns(patterns),
        measured: Some(Box::new(measured)),
        server_memory: Some(4096),
        ..Glance::default()
    }
}

fn line<'p>(page: &'p str, name: &str) -> Vec<&'p str> {
    let is_its = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    page.lines().filter(is_its).collect()
}

#[test]
fn what_runs_of_a_scenario_count_is_added_up_and_labels_are_escaped() {
    let (metrics, scenario) = (Metrics::default(), scenario());
    let violation = |cause: Option<Cause>| {
        let evidence = Evidence::Silence { sent: Sent { requests: 1, answered: 0 }, seconds: 1 };
        let explanations = cause.map(|cause| Explanation::new(cause, [Clue::Seen])).into_iter().collect();
        Violation { explanations, ..Violation::of_the_run(ViolationKind::Hang, 0, evidence) }
    };
    for (seed, requests) in [(1, 10), (2, 5)] {
        let mut nobody = ();
        let mut watching = Watching::begin(Some(&metrics), ("a\nb", &scenario, Seed(seed)), &mut nobody);
        watching.glance(glance(requests));
        watching.progress(&Progress {
            requests,
            answered: 3,
            slots_taken: 4,
            starts_waiting: 1,
            ..Progress::default()
        });
        watching.violation(&violation(None));
        watching.violation(&violation(Some(Cause::Unloaded)));
    }
    let page = Form::Prometheus.page(&metrics.values());
    for (name, expected) in [
        ("requests_total", vec!["{scenario=\"a\\nb\"} 15.0"]),
        ("good_responses_total", vec!["{scenario=\"a\\nb\"} 13.0"]),
        ("sequences_total", vec!["{scenario=\"a\\nb\",pattern=\"valid\"} 4.0"]),
        (
            "violations_total",
            vec![
                "{scenario=\"a\\nb\",kind=\"hang\",cause=\"unknown\"} 2.0",
                "{scenario=\"a\\nb\",kind=\"hang\",cause=\"unloaded\"} 2.0",
            ],
        ),
        ("in_flight", vec!["{scenario=\"a\\nb\"} 2.0"]),
        ("slots_taken", vec!["{scenario=\"a\\nb\"} 4.0"]),
        ("server_memory_bytes", vec!["{scenario=\"a\\nb\"} 4096.0"]),
        ("run_info", vec!["{scenario=\"a\\nb\",model=\"a \\\"model\\\"\\\\\",seed=\"2\"} 1"]),
    ] {
        let name = format!("{PREFIX}_{name}");
        let expected: Vec<_> = expected.into_iter().map(|rest| format!("{name}{rest}")).collect();
        assert_eq!(line(&page, &name), expected, "{page}");
    }
    assert!(line(&page, &format!("{PREFIX}_live_sequences")).is_empty(), "nobody knows");
}

#[test]
fn who_has_no_metrics_asks_the_run_for_nothing() {
    let asked = Watching::asks(None, "test", crate::run::SoFar::default());
    assert!(asked.glance_every.is_none() && asked.judged_every.is_none() && !asked.measures);
}
