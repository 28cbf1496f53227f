//! The metrics, family by family: names, units and labels as Prometheus advises.

use super::values::{Counted, Run, Values};
use crate::{
    recorder::{Counts, Distribution},
    run::memory_now,
    verdict::Verdict,
};
use workload::sequence::Pattern;

/// What each name begins with.
pub(super) const PREFIX: &str = "sequence_stress";
/// The cause of a violation of which none is known.
const NO_CAUSE: &str = "unknown";

/// What tells the points of a family apart.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A metric with all its values.
#[derive(Clone, Debug)]
pub(super) struct Family {
    /// Without the prefix, the unit and the suffix of its type.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) unit: Option<Unit>,
    pub(super) points: Points,
}

/// What a value is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Bytes,
}

/// The values of a family, by its type.
#[derive(Clone, Debug)]
pub(super) enum Points {
    /// They only rise.
    Counter(Vec<(Labels, f64)>),
    Gauge(Vec<(Labels, f64)>),
    /// The times are in µs.
    Histogram(Vec<(Labels, Distribution)>),
    /// The labels are all there is.
    Info(Vec<Labels>),
}

#[expect(clippy::cast_precision_loss, reason = "no run counts so far")]
fn number(count: u64) -> f64 {
    count as f64
}

/// The runs, and how what they counted and how they are becomes families.
struct Runs<'v>(Vec<(&'v str, &'v Run, Counted)>);

impl Runs<'_> {
    fn points<T>(&self, of: impl Fn(&Run, &Counted) -> Vec<(Labels, T)>) -> Vec<(Labels, T)> {
        let with_scenario = |scenario: &str, (mut labels, value): (Labels, T)| {
            labels.insert(0, ("scenario", scenario.to_owned()));
            (labels, value)
        };
        let points = self.0.iter().flat_map(|(scenario, run, counted)| {
            of(run, counted).into_iter().map(|point| with_scenario(scenario, point)).collect::<Vec<_>>()
        });
        points.collect()
    }

    fn counter(&self, name: &'static str, help: &'static str, of: impl Fn(&Counted) -> Vec<(Labels, u64)>) -> Family {
        let points = self.points(|_, counted| of(counted)).into_iter().map(|(labels, count)| (labels, number(count)));
        Family { name, help, unit: None, points: Points::Counter(points.collect()) }
    }

    fn gauge(&self, name: &'static str, help: &'static str, of: impl Fn(&Run) -> Option<u64>) -> Family {
        let points = self.points(|run, _| of(run).map(|value| (Labels::new(), number(value))).into_iter().collect());
        Family { name, help, unit: None, points: Points::Gauge(points) }
    }

    fn histogram(&self, name: &'static str, help: &'static str, of: impl Fn(&Counted) -> Distribution) -> Family {
        let points = self.points(|_, counted| vec![(Labels::new(), of(counted))]);
        Family { name, help, unit: Some(Unit::Seconds), points: Points::Histogram(points) }
    }

    fn counters(&self) -> Vec<Family> {
        let alone = |count: u64| vec![(Labels::new(), count)];
        vec![
            self.counter("requests", "Requests that were sent", move |of| alone(of.total().requests)),
            self.counter(
                "responses",
                "Requests with a response, by what it was: completed (with an output), rejected or failed",
                |of| {
                    let total = of.total();
                    let outcomes =
                        [("completed", total.completed), ("rejected", total.rejected), ("failed", total.failed)];
                    outcomes.map(|(outcome, count)| (vec![("outcome", outcome.to_owned())], count)).into()
                },
            ),
            self.counter("indeterminate_requests", "Requests whose response nobody waits for any more", move |of| {
                alone(of.total().indeterminate)
            }),
            self.counter("unjudged_responses", "Responses that could not be judged", move |of| {
                alone(of.total().unjudged)
            }),
            self.counter(
                "good_responses",
                "Responses that were right and in time, and errors that were planned",
                move |of| alone(of.measured.good),
            ),
            self.counter("sequences", "Sequences that were begun, by pattern", |of| {
                let pattern =
                    |(pattern, its): (Pattern, Counts)| (vec![("pattern", pattern.name().to_owned())], its.sequences);
                of.patterns.sent().map(|(its, counts)| (its, counts.counts)).map(pattern).collect()
            }),
            self.counter("violations", "Violations, by kind and likeliest cause", |of| {
                let point =
                    |((kind, cause), count): ((oracle::ViolationKind, Option<oracle::diagnosis::Cause>), u64)| {
                        let cause = cause.map_or(NO_CAUSE, |cause| cause.name());
                        (vec![("kind", kind.name().to_owned()), ("cause", cause.to_owned())], count)
                    };
                of.violations().into_iter().map(point).collect()
            }),
        ]
    }

    fn histograms(&self) -> Vec<Family> {
        vec![
            self.histogram("step_duration", "Time from when a step was due, or sent, to its response", |of| {
                of.measured.step
            }),
            self.histogram(
                "sequence_duration",
                "Time from when a sequence's first step was due, or sent, to the response to its last one",
                |of| of.measured.sequence,
            ),
            self.histogram("slot_wait", "Time from when a START was due, or sent, to its response", |of| {
                of.measured.slot_wait
            }),
        ]
    }

    fn gauges(&self) -> Vec<Family> {
        let verdict = self.points(|run, _| {
            let Some(verdict) = run.verdict else { return Vec::new() };
            let point = |its: Verdict| (vec![("verdict", its.name().to_owned())], f64::from(u8::from(its == verdict)));
            Verdict::ALL.map(point).into()
        });
        let missed = self.points(|run, _| {
            let point = |(words, is_missed): (&String, &bool)| {
                (vec![("threshold", words.clone())], f64::from(u8::from(*is_missed)))
            };
            run.thresholds.iter().map(point).collect()
        });
        let memory =
            self.gauge("server_memory", "The server's memory, if the run reads it", |run| run.levels.server_memory);
        vec![
            self.gauge("in_flight", "Requests without a response", |run| Some(run.levels.in_flight)),
            self.gauge("live_sequences", "Sequences that were begun and are not over", |run| run.levels.live_sequences),
            self.gauge("slots_taken", "Slots that are certainly taken", |run| Some(run.levels.slots_taken)),
            self.gauge("starts_waiting", "STARTs without a response", |run| Some(run.levels.starts_waiting)),
            Family {
                name: "verdict",
                help: "1 for the verdict so far, or the verdict of a run that is over; 0 for the other ones",
                unit: None,
                points: Points::Gauge(verdict),
            },
            Family {
                name: "threshold_missed",
                help: "Whether the run has missed this threshold so far",
                unit: None,
                points: Points::Gauge(missed),
            },
            Family { unit: Some(Unit::Bytes), ..memory },
        ]
    }
}

impl Counted {
    fn total(&self) -> Counts {
        self.patterns.total()
    }
}

/// What is told of the process itself.
fn of_the_process(cpu_us: u64) -> Vec<Family> {
    let alone = |value: f64| vec![(Labels::new(), value)];
    #[expect(clippy::cast_precision_loss, reason = "no process runs so long")]
    let cpu_seconds = cpu_us as f64 / 1e6;
    vec![
        Family {
            name: "client_cpu",
            help: "CPU time of this process; with --embedded the server is part of it",
            unit: Some(Unit::Seconds),
            points: Points::Counter(alone(cpu_seconds)),
        },
        Family {
            name: "client_memory",
            help: "Memory of this process; with --embedded the server is part of it",
            unit: Some(Unit::Bytes),
            points: Points::Gauge(memory_now().map(|bytes| alone(number(bytes))).unwrap_or_default()),
        },
        Family {
            name: "build",
            help: "The version of this program",
            unit: None,
            points: Points::Info(vec![vec![("version", env!("CARGO_PKG_VERSION").to_owned())]]),
        },
    ]
}

/// All metrics. A family without values is one, too.
pub(super) fn families(values: &Values) -> Vec<Family> {
    let runs = Runs(values.runs.iter().map(|(scenario, run)| (scenario.as_str(), run, run.counted())).collect());
    let info = runs.points(|run, _| vec![(vec![("model", run.model.clone()), ("seed", run.seed.clone())], ())]);
    let info = Family {
        name: "run",
        help: "What runs, or ran last",
        unit: None,
        points: Points::Info(info.into_iter().map(|(labels, ())| labels).collect()),
    };
    let mut all = runs.counters();
    all.extend(runs.histograms());
    all.extend(runs.gauges());
    all.extend(of_the_process(values.cpu_us));
    all.push(info);
    all
}
