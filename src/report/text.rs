//! The result for people.

use std::{io, time::Duration};

use anstyle::{AnsiColor, Style};

use super::{Claimed, PlantedFault, Summary, Verdict, chart::wrapped};
use crate::{
    engine::{Accounting, Memory, PendingRequests, Preflight, Recorded, SlotCheck, SlotFinding},
    oracle::{Violation, diagnosis::Explanation},
    recorder::{Counts, Times},
    scenario::Scenario,
    seed::Seed,
    sequence::Pattern,
};

const BOLD: Style = Style::new().bold();
const RED: Style = AnsiColor::Red.on_default().bold();
const GREEN: Style = AnsiColor::Green.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();

/// Says what was found out, and what will be done.
///
/// # Errors
/// When it cannot be written.
pub fn write_preflight(
    scenario: &Scenario,
    name: &str,
    seed: Seed,
    preflight: &Preflight,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let model = &preflight.model;
    let or_unknown = |known: Option<String>| known.unwrap_or_else(|| "unknown".to_owned());
    writeln!(
        out,
        "{BOLD}{}{BOLD:#} on {} at {}: {}, {} slots, idle limit {}, {} -> {}",
        model.name,
        model.server.as_deref().unwrap_or("a server"),
        scenario.target.endpoint,
        model.strategy.map_or_else(|| "strategy unknown".to_owned(), |strategy| strategy.to_string()),
        or_unknown(model.slots.map(|slots| slots.to_string())),
        or_unknown(model.idle_limit.map(milliseconds)),
        model.input,
        model.output,
    )?;
    let passes = scenario.load.iterations.map(|passes| format!("passes of each: {passes}"));
    let duration = scenario.load.duration_s.map(|seconds| format!("{seconds} s"));
    writeln!(
        out,
        "{name}: {}, {}; {}, {}; seed {seed}",
        counted(scenario.load.workers.get().into(), "worker"),
        [passes, duration].into_iter().flatten().collect::<Vec<_>>().join(" or "),
        scenario.sending.connection,
        scenario.sending.stream,
    )?;
    let limits = preflight.limits;
    write!(
        out,
        "an answer is lost after {} (longest lawful wait {}, at most {} for a step)",
        milliseconds(limits.lost_after),
        milliseconds(limits.lawful),
        milliseconds(limits.step)
    )?;
    match limits.threshold {
        Some(limit) => writeln!(out, "; the threshold is {}", milliseconds(limit))?,
        None => writeln!(out)?,
    }
    for note in &preflight.notes {
        writeln!(out, "{YELLOW}note:{YELLOW:#} {note}")?;
    }
    Ok(())
}

/// A violation as one line, with the line that replays it.
///
/// # Errors
/// When it cannot be written.
pub fn violation_line(violation: &Violation, replay: &str, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "{RED}violation{RED:#} {violation}")?;
    causes(violation, usize::MAX, out)?;
    writeln!(out, "  {} replay: {replay}", violation.kind.what())
}

/// What a violation may come from, in lines of at most so many columns.
pub(super) fn causes(violation: &Violation, width: usize, out: &mut impl io::Write) -> io::Result<()> {
    for (place, Explanation { cause, evidence }) in violation.explanations.iter().enumerate() {
        let likely = if place == 0 { "cause" } else { "   or" };
        let before = 2 + likely.len() + 1 + cause.name().len();
        // What stands there already takes the room of a first word.
        let words = format!("{}: {} Evidence: {evidence}", "x".repeat(before), cause.what());
        for (index, line) in wrapped(&words, width.saturating_sub(8)).iter().enumerate() {
            match line.get(before..).filter(|_| index == 0) {
                Some(rest) => writeln!(out, "  {likely} {BOLD}{cause}{BOLD:#}{rest}")?,
                None => writeln!(out, "        {line}")?,
            }
        }
    }
    Ok(())
}

/// Writes the summary.
///
/// # Errors
/// When it cannot be written.
pub fn write_text(summary: &Summary, out: &mut impl io::Write) -> io::Result<()> {
    let result = &summary.result;
    let tally = &result.tally;
    let total = tally.total();
    writeln!(out)?;
    write_counts(&tally.patterns, &total, out)?;
    writeln!(out)?;
    writeln!(
        out,
        "{BOLD}{:<18}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{BOLD:#}",
        "ms", "count", "p50", "p90", "p99", "p99.9", "max"
    )?;
    write_times("step", &tally.step, out)?;
    write_times("sequence", &tally.sequence, out)?;
    write_times("wait for a slot", &tally.slot_wait, out)?;
    writeln!(out)?;
    writeln!(
        out,
        "{:.0} requests/s over {:.1} s; {}: CPU {:.1} µs a request, {}",
        summary.requests_per_second(),
        result.elapsed.as_secs_f64(),
        if summary.embedded.is_some() { "client and server" } else { "client" },
        summary.client_cpu_us_per_request(),
        describe_memory(&result.memory),
    )?;
    write_accounting(&result.accounting, out)?;
    write_pending(&result.pending, out)?;
    write_slots(&result.slots, out)?;
    if total.undetermined > 0 {
        writeln!(out, "{} answers could not be judged, because more than one was lawful", total.undetermined)?;
    }
    let reached: Vec<_> = tally.reached.iter().map(|(claim, times)| format!("{times} {claim}")).collect();
    if !reached.is_empty() {
        writeln!(out, "reached: {}", reached.join(", "))?;
    }
    for note in result.preflight.notes.iter().filter(|note| note.starts_with("not checked")) {
        writeln!(out, "{note}")?;
    }
    if let Some(recorded) = &result.recorded {
        describe_history(recorded, out)?;
    }
    write_verdict(summary, out)
}

fn write_accounting(accounting: &Accounting, out: &mut impl io::Write) -> io::Result<()> {
    match accounting {
        Accounting::Agrees { rose } => {
            writeln!(out, "the server's counts agree: {} successes in {} executions", rose.success, rose.execution)
        }
        Accounting::Differs { rose, expected } => {
            writeln!(
                out,
                "{RED}the server's counts differ:{RED:#} {} successes, {} inferences, {} failures; they had to be {expected}",
                rose.success, rose.inference, rose.fail
            )
        }
        Accounting::NotCheckable { why } => {
            writeln!(out, "{YELLOW}the server's counts are not checkable:{YELLOW:#} {why}")
        }
    }
}

fn write_pending(pending: &PendingRequests, out: &mut impl io::Write) -> io::Result<()> {
    match pending {
        PendingRequests::None => writeln!(out, "no requests are pending any more"),
        PendingRequests::Left { count } => writeln!(out, "{RED}requests are still pending:{RED:#} {count}"),
        PendingRequests::NotChecked { why } => writeln!(out, "pending requests are not checked: {why}"),
    }
}

fn write_slots(SlotCheck { finding, requests, took }: &SlotCheck, out: &mut impl io::Write) -> io::Result<()> {
    let after = format!("counted in {} with {}", milliseconds(*took), counted(*requests, "request"));
    match finding {
        SlotFinding::AllThere { slots } => {
            writeln!(out, "the slots: all {slots} there, and none twice; {after}")
        }
        SlotFinding::Leaked { slots, leaked, seen } => {
            writeln!(out, "{RED}{leaked} of {slots} slots leaked:{RED:#} {seen}; {after}")
        }
        SlotFinding::ReleasedTwice { slots, seen } => {
            writeln!(
                out,
                "{RED}a slot was released twice:{RED:#} with the {slots} slots taken, one more START got {seen}; {after}"
            )
        }
        SlotFinding::NotCheckable { why } => writeln!(out, "{YELLOW}the slots are not checkable:{YELLOW:#} {why}"),
    }
}

fn describe_history(Recorded { path, kept }: &Recorded, out: &mut impl io::Write) -> io::Result<()> {
    write!(out, "history: {} events in {}", kept.entries, path.display())?;
    if kept.left_out > 0 {
        write!(out, ", {} left out", kept.left_out)?;
    }
    if kept.lost > 0 {
        write!(out, ", {YELLOW}{} lost{YELLOW:#}: they came faster than they could be written", kept.lost)?;
    }
    writeln!(out)
}

/// Writes the verdict and how to have the run again.
///
/// # Errors
/// When it cannot be written.
pub fn write_verdict(summary: &Summary, out: &mut impl io::Write) -> io::Result<()> {
    for PlantedFault { fault, committed } in summary.embedded.iter().flatten() {
        writeln!(out, "planted: {fault}, which happened {}", counted(*committed, "time"))?;
    }
    for Claimed { claim, least, reached, hint } in summary.missed_claims() {
        let hint = hint.unwrap_or_default();
        writeln!(out, "{YELLOW}not reached:{YELLOW:#} {claim}: {reached} of at least {least}; {hint}")?;
    }
    let tally = &summary.result.tally;
    let (style, why) = match summary.verdict() {
        Verdict::Valid => {
            (GREEN, format!("{} answers checked, no violations", tally.total().answered() - tally.total().undetermined))
        }
        Verdict::Invalid => {
            let kinds: Vec<_> = tally.violations.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            (RED, format!("{}: {}", counted(tally.violation_count(), "violation"), kinds.join(", ")))
        }
        Verdict::Unknown => (YELLOW, summary.doubts().join("; ")),
    };
    writeln!(out, "{style}{}{style:#}: {why}", summary.verdict().to_string().to_uppercase())?;
    if let Some(missed) = summary.missed_threshold() {
        writeln!(out, "{RED}THRESHOLD MISSED:{RED:#} {missed}")?;
    }
    writeln!(out, "seed {}, replay: {}", summary.seed, summary.replay)
}

fn write_counts(patterns: &[Counts], total: &Counts, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(
        out,
        "{BOLD}{:<14}{:>11}{:>11}{:>11}{:>11}{:>9}{:>8}{:>9}{BOLD:#}",
        "pattern", "sequences", "as planned", "requests", "completed", "refused", "failed", "unknown"
    )?;
    let named = Pattern::ALL.iter().zip(patterns).map(|(pattern, counts)| (pattern.name(), counts));
    for (name, counts) in named.chain([("all", total)]) {
        let Counts { requests, completed, refused, failed, indeterminate, sequences, sequences_as_planned, .. } =
            counts;
        writeln!(
            out,
            "{name:<14}{sequences:>11}{sequences_as_planned:>11}{requests:>11}{completed:>11}{refused:>9}{failed:>8}{indeterminate:>9}"
        )?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss)]
fn write_times(name: &str, times: &Times, out: &mut impl io::Write) -> io::Result<()> {
    let ms = |us: u64| us as f64 / 1000.0;
    write!(out, "{name:<18}{:>10}", times.count())?;
    for quantile in [0.5, 0.9, 0.99, 0.999] {
        write!(out, "{:>10.1}", ms(times.at_quantile_us(quantile)))?;
    }
    writeln!(out, "{:>10.1}", ms(times.max_us()))
}

/// A number and what it counts.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[expect(clippy::cast_precision_loss)]
fn describe_memory(memory: &Memory) -> String {
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    match (memory.after_10_s, memory.at_end, memory.peak) {
        (Some(early), Some(end), Some(peak)) => {
            format!("memory {} after 10 s, {} at the end, at most {}", mb(early), mb(end), mb(peak))
        }
        (_, _, Some(peak)) => format!("memory at most {}", mb(peak)),
        _ => "memory not known".to_owned(),
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
