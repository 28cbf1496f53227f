//! What a run says before it begins.

use std::io;

use super::{
    BOLD, Extent,
    line::{Line, write_lines},
    time,
};
use crate::preflight::{Note, Preflight};
use workload::{
    scenario::{Population, Scenario},
    seed::Seed,
    wording::counted,
};

/// Says what is tested and what will be sent.
pub(crate) fn write_preflight(
    scenario: &Scenario,
    name: &str,
    seed: Seed,
    preflight: &Preflight,
    extent: Extent,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let (what, how) = target(scenario, preflight, extent);
    let model = preflight.model.name.clone() + &versions(scenario);
    let is_short = model.len() + what.len() + how.len() < extent.columns();
    writeln!(out, "{BOLD}{model}{BOLD:#}{what}:{}{how}", if is_short { " " } else { "\n  " })?;
    let populations: Vec<_> = scenario.populations.iter().map(|its| described(its, extent)).collect();
    match &populations[..] {
        [alone] => writeln!(out, "{name}: {alone}, seed {seed}")?,
        several => {
            writeln!(out, "{name}: {}, seed {seed}", counted(scenario.workers().into(), "worker"))?;
            several.iter().try_for_each(|population| writeln!(out, "  {population}"))?;
        }
    }
    let mut lines = Vec::new();
    if extent == Extent::Wide {
        lines.push(timeouts(preflight));
    }
    lines.extend(parts(preflight));
    // What is not checked stands beside the verdict.
    let others = preflight.notes.iter().filter(|note| !matches!(note, Note::NotChecked(_)));
    lines.extend(others.map(|note| Line::odd("note", note.to_string())));
    write_lines(&lines, extent.columns(), out)
}

/// Writes that several ranks hold the run, and which correlation IDs are theirs.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_ranks(of: u32, [first, last]: [u64; 2], out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "{of} ranks hold this run; correlation IDs {first} to {last} are reserved for it")
}

/// The versions that requests name.
fn versions(scenario: &Scenario) -> String {
    let versions: Vec<_> = scenario.versions().into_iter().flatten().map(|version| version.to_string()).collect();
    match versions.as_slice() {
        [] => String::new(),
        [alone] => format!(", version {alone}"),
        several => format!(", versions {}", several.join(" and ")),
    }
}

/// Where the model is, and how its sequence batcher is configured.
fn target(scenario: &Scenario, preflight: &Preflight, extent: Extent) -> (String, String) {
    let model = &preflight.model;
    let of = match (model.steps.as_slice(), &model.calls) {
        ([], None) => String::new(),
        ([], Some(called)) => format!("calls {called}, "),
        (steps, _) => format!("ensemble of {}, ", steps.join(" and ")),
    };
    let strategy = model.strategy.map_or_else(|| "strategy unknown".to_owned(), |strategy| strategy.to_string());
    let slots = model.slots.map_or_else(|| "slots unknown".to_owned(), |slots| counted(slots.into(), "slot"));
    let slots = match scenario.target.servers() {
        [] => slots,
        servers => {
            let names: Vec<_> = servers.iter().map(ToString::to_string).collect();
            let each = if servers.len() > 1 { " each" } else { "" };
            format!("{} ({}) with {slots}{each}", counted(servers.len() as u64, "server"), names.join(", "))
        }
    };
    let limit = model.idle_limit.map_or_else(|| "unknown".to_owned(), time);
    let server = model.server.as_deref().map_or_else(String::new, |server| format!(" on {server}"));
    let endpoint = match extent {
        Extent::Wide => scenario.target.endpoint.to_string(),
        _ => scenario.target.endpoint.for_calls().to_string(),
    };
    let tensors = if extent == Extent::Wide { format!(", {} -> {}", model.input, model.output) } else { String::new() };
    (format!("{server} at {endpoint}"), format!("{of}{strategy}, {slots}, idle limit {limit}{tensors}"))
}

/// A population in a line.
fn described(population: &Population, extent: Extent) -> String {
    let Population { name, load, sending, .. } = population;
    let each = if load.rate.is_some() { "" } else { " each" };
    let iterations = load.iterations.map(|count| format!("{}{each}", counted(count.get(), "iteration")));
    let duration = load.duration_s.map(|seconds| format!("{seconds} s"));
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let much = [iterations, duration].into_iter().flatten().collect::<Vec<_>>().join(" or ");
    let travels = match extent {
        Extent::Wide => format!("; {}", sending.travels()),
        _ => String::new(),
    };
    let workers = counted(load.workers.get().into(), "worker");
    let paced = load.step_interval_ms.map(|interval| format!("a step each {}", time(interval.duration())));
    let (first, rest) = match &load.rate {
        None => (workers, [None, Some(much)]),
        Some(rate) => (format!("{rate} ({})", load.arrivals), [Some(format!("at most {workers}")), Some(much)]),
    };
    let parts = rest.into_iter().flatten().chain(paced).filter(|part| !part.is_empty());
    let much = [first].into_iter().chain(parts).collect::<Vec<_>>().join(", ");
    format!("{name}{much}{travels}")
}

/// How long the client waits for a response.
fn timeouts(preflight: &Preflight) -> Line {
    let limits = preflight.limits;
    let threshold = limits.threshold.map_or_else(String::new, |limit| format!("; threshold {}", time(limit)));
    let (lost, lawful, step) = (time(limits.lost_after), time(limits.lawful), time(limits.step));
    Line::fine(
        "timeout",
        format!("{lost} for a response (a correct server takes at most {lawful}, and {step} for a step){threshold}"),
    )
}

/// The parts of the protocol that the endpoint has and lacks, if it lacks any.
fn parts(preflight: &Preflight) -> Option<Line> {
    let named = |has: bool| -> Vec<_> {
        preflight.parts.iter().filter(|part| part.has == has).map(|part| part.part.as_ref()).collect()
    };
    let (has, lacks) = (named(true).join(", "), named(false).join(", "));
    let text = match (has.as_str(), lacks.as_str()) {
        (_, "") => return None,
        ("", _) => format!("lacks {lacks}"),
        _ => format!("has {has}; lacks {lacks}"),
    };
    Some(Line::odd("endpoint", text))
}
