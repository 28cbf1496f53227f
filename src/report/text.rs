//! The result for people.

use std::{collections::BTreeMap, io, time::Duration};

use anstyle::{AnsiColor, Style};

use super::{Claimed, PlantedFault, Summary, Verdict, chart::wrapped, words};
use crate::{
    frame::HistoryWritten,
    preflight::{Note, Preflight},
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck, SlotFinding},
    recorder::{Counts, Times},
    run::{Growth, Health, Memory, NotReady, PhaseSpan, ServerMemory},
};
use oracle::{Holder, LongestWait, Violation};
use wire::transport::GoAways;
use workload::{
    scenario::{Population, Scenario},
    seed::Seed,
    sequence::Pattern,
    wording::counted,
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
        "{BOLD}{}{BOLD:#} on {} at {}: {}, {}, idle limit {}, {} -> {}",
        model.name,
        model.server.as_deref().unwrap_or("a server"),
        scenario.target.endpoint,
        model.strategy.map_or_else(|| "strategy unknown".to_owned(), |strategy| strategy.to_string()),
        model.slots.map_or_else(|| "slots unknown".to_owned(), |slots| counted(slots.into(), "slot")),
        or_unknown(model.idle_limit.map(milliseconds)),
        model.input,
        model.output,
    )?;
    let populations: Vec<_> = scenario.populations.iter().map(described).collect();
    match &populations[..] {
        [alone] => writeln!(out, "{name}: {alone}; seed {seed}")?,
        several => {
            writeln!(out, "{name}: {}; seed {seed}", counted(scenario.workers().into(), "worker"))?;
            several.iter().try_for_each(|population| writeln!(out, "  {population}"))?;
        }
    }
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
    let named = |has: bool| -> Vec<_> {
        preflight.parts.iter().filter(|part| part.has == has).map(|part| part.part.as_ref()).collect()
    };
    if let lacking @ [_, ..] = &named(false)[..] {
        let (has, lacks) = (named(true).join(", "), lacking.join(", "));
        match has.as_str() {
            "" => writeln!(out, "the endpoint lacks {lacks}")?,
            _ => writeln!(out, "the endpoint has {has}; it lacks {lacks}")?,
        }
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
    writeln!(out, "{RED}violation{RED:#} {}", words::describe(violation))?;
    causes(violation, usize::MAX, out)?;
    writeln!(out, "  {} replay: {replay}", violation.kind.what())
}

/// Says how many violations there were, where not all of them were shown.
///
/// # Errors
/// When it cannot be written.
pub fn write_not_shown(
    shown: u64,
    summary: &Summary,
    is_ended_by_first: bool,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let all = summary.result.tally.violation_count();
    if all <= shown {
        return Ok(());
    }
    let kept = summary.result.violations.len() as u64;
    let has = if kept == all { "all".to_owned() } else { kept.to_string() };
    if is_ended_by_first {
        let more = counted(all - shown, "more violation");
        writeln!(out, "{more} seen while the run waited for its last answers; --json FILE has {has}")
    } else {
        writeln!(out, "{shown} of {} are shown; --json FILE has {has}", counted(all, "violation"))
    }
}

/// What a violation may come from, in lines of at most so many columns.
pub(super) fn causes(violation: &Violation, width: usize, out: &mut impl io::Write) -> io::Result<()> {
    for (place, explanation) in violation.explanations.iter().enumerate() {
        let (cause, evidence) = (explanation.cause, words::evidence(violation, explanation));
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
    write_counts(summary, &total, out)?;
    writeln!(out)?;
    writeln!(
        out,
        "{BOLD}{:<18}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{BOLD:#}",
        "times in ms", "count", "p50", "p90", "p99", "p99.9", "max"
    )?;
    write_times("step", &tally.step, out)?;
    write_times("sequence", &tally.sequence, out)?;
    write_times("wait for a slot", &tally.slot_wait, out)?;
    for (population, waits) in summary.scenario.populations.iter().zip(&tally.populations) {
        writeln!(out, "of {}:", population.name)?;
        write_times("  sequence", &waits.sequence, out)?;
        write_times("  wait for a slot", &waits.slot, out)?;
    }
    writeln!(out)?;
    write!(out, "{:.0} requests/s over {:.1} s", summary.requests_per_second(), result.elapsed.as_secs_f64())?;
    // What the client took is known at the end alone.
    if result.is_end_known {
        let who = if summary.embedded.is_some() { "client and server" } else { "client" };
        let (cpu, memory) = (summary.client_cpu_us_per_request(), describe_memory(&result.memory));
        write!(out, "; {who}: CPU {cpu:.1} µs a request, {memory}")?;
    }
    writeln!(out)?;
    write_phases(&result.phases, out)?;
    write_accounting(&result.accounting, out)?;
    write_pending(&result.pending, out)?;
    write_slots(&result.slots, out)?;
    write_idle_limit(&result.idle_limit, out)?;
    if total.undetermined > 0 {
        writeln!(
            out,
            "{} of {} could not be judged, because more than one was lawful",
            total.undetermined,
            counted(total.answered(), "answer")
        )?;
    }
    write_go_aways(result.go_aways, out)?;
    if let Some(health) = &result.health {
        write_health(health, summary.embedded.is_some(), out)?;
    }
    if let Some(longest) = &result.longest_wait {
        write_longest_wait(longest, out)?;
    }
    let reached: Vec<_> = tally.reached.iter().map(|(claim, times)| format!("{times} {claim}")).collect();
    if !reached.is_empty() {
        writeln!(out, "reached: {}", reached.join(", "))?;
    }
    for note in result.preflight.notes.iter().filter(|note| matches!(note, Note::NotChecked(_))) {
        writeln!(out, "{note}")?;
    }
    for note in summary.other_words() {
        writeln!(out, "{YELLOW}note:{YELLOW:#} {note}")?;
    }
    if let Some(recorded) = &result.recorded {
        describe_history(recorded, out)?;
    }
    write_verdict(summary, out)
}

/// What became of a fault that was planted. Of several it is not known which one was found.
fn write_planted(planted: &PlantedFault, is_found: bool, out: &mut impl io::Write) -> io::Result<()> {
    let PlantedFault { fault, chances, committed } = planted;
    let (times, chances) = (counted(*committed, "time"), counted(*chances, "chance"));
    match committed {
        0 if planted.chances == 0 => writeln!(
            out,
            "{YELLOW}planted:{YELLOW:#} {fault}, which had no chance to happen: this run or this model has nothing that it can spoil"
        ),
        0 => writeln!(out, "{YELLOW}planted:{YELLOW:#} {fault}, which had {chances} to happen and did not"),
        _ if is_found => writeln!(out, "planted: {fault}, which happened {times}"),
        _ => writeln!(
            out,
            "{YELLOW}planted:{YELLOW:#} {fault}, which happened {times} and was not found: docs/DETECTION.md tells where it shows"
        ),
    }
}

/// When the phases were, and what was done to the server.
fn write_phases(phases: &[PhaseSpan], out: &mut impl io::Write) -> io::Result<()> {
    let seconds = |us: u64| Duration::from_micros(us).as_secs_f64();
    for PhaseSpan { name, began_us, ended_us, server } in phases {
        let server = server.as_ref().map_or_else(String::new, |done| format!("; before it, {done}"));
        writeln!(out, "phase {name}: from {:.1} to {:.1} s{server}", seconds(*began_us), seconds(*ended_us))?;
    }
    Ok(())
}

/// A population in a line.
fn described(population: &Population) -> String {
    let Population { name, load, sending, .. } = population;
    let passes = load.iterations.map(|passes| format!("{} each", counted(passes.get(), "pass")));
    let duration = load.duration_s.map(|seconds| format!("{seconds} s"));
    let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
    format!(
        "{name}{}, {}; {}, {}",
        counted(load.workers.get().into(), "worker"),
        [passes, duration].into_iter().flatten().collect::<Vec<_>>().join(" or "),
        sending.connection,
        sending.travels(),
    )
}

fn write_accounting(accounting: &Accounting, out: &mut impl io::Write) -> io::Result<()> {
    match accounting {
        Accounting::Agrees { rose } => {
            let (successes, executions) = (counted(rose.success, "success"), counted(rose.execution, "execution"));
            writeln!(out, "the server's counts agree: {successes} in {executions}")
        }
        Accounting::Differs { rose, expected } => {
            writeln!(
                out,
                "{RED}the server's counts differ:{RED:#} {}, {}, {}; they had to be {}",
                counted(rose.success, "success"),
                counted(rose.inference, "inference"),
                counted(rose.fail, "failure"),
                words::bounds(*expected),
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
            let all = match slots {
                1 => "the only one is there, and not twice".to_owned(),
                _ => format!("all {slots} are there, and none twice"),
            };
            writeln!(out, "the slots: {all}; {after}")
        }
        SlotFinding::Leaked { slots, leaked, seen } => {
            let seen = words::leak(*slots, *seen);
            writeln!(out, "{RED}{leaked} of {} leaked:{RED:#} {seen}; {after}", counted((*slots).into(), "slot"))
        }
        SlotFinding::ReleasedTwice { slots, within_ms } => {
            let seen = words::surplus(*slots, *within_ms);
            writeln!(
                out,
                "{RED}a slot was released twice:{RED:#} with {slots} of {} taken, one more START got {seen}; {after}",
                counted((*slots).into(), "slot")
            )
        }
        SlotFinding::NotCheckable { why } => writeln!(out, "{YELLOW}the slots are not checkable:{YELLOW:#} {why}"),
    }
}

fn write_idle_limit(found: &IdleSearch, out: &mut impl io::Write) -> io::Result<()> {
    let ms = |us: u64| format!("{:.1} ms", Duration::from_micros(us).as_secs_f64() * 1000.0);
    match found {
        IdleSearch::NotAsked => Ok(()),
        IdleSearch::NotCheckable { why } => writeln!(out, "{YELLOW}the idle limit was not found:{YELLOW:#} {why}"),
        IdleSearch::Found { configured_us, kept_us, ended_us, trials } => {
            let ended = match ended_us {
                Some(ended_us) => format!("the shortest that ended one was at most {}", ms(*ended_us)),
                None => "none was ended".to_owned(),
            };
            let rested = counted(u64::from(*trials), "sequence");
            let (configured, kept) = (ms(*configured_us), ms(*kept_us));
            writeln!(
                out,
                "the idle limit, {configured}: {rested} rested; the longest rest that one survived was {kept}, {ended}"
            )
        }
    }
}

/// What the server said of itself, where that is worth a line.
fn write_health(health: &Health, is_embedded: bool, out: &mut impl io::Write) -> io::Result<()> {
    let Health { asked, unanswered, not_ready, memory } = health;
    let seconds = |at: u64| Duration::from_nanos(at).as_secs_f64();
    for NotReady { of, from_ns, until_ns, executed, asked_for } in not_ready {
        let until = until_ns.map_or("the end".to_owned(), |until| format!("{:.1} s", seconds(until)));
        let (colour, why) = if *asked_for { (YELLOW, " (asked for by the scenario)") } else { (RED, "") };
        writeln!(
            out,
            "{colour}{} said that it was not ready:{colour:#} from {:.1} s to {until}{why}; {} executed meanwhile",
            words::subject(*of),
            seconds(*from_ns),
            counted(*executed, "request"),
        )?;
    }
    if *unanswered > 0 {
        writeln!(
            out,
            "{} of {} whether the server and the model are ready had no answer",
            unanswered,
            counted(*asked, "question")
        )?;
    }
    let Some(ServerMemory { first, last, growth }) = memory else { return Ok(()) };
    match growth {
        Some(Growth { bytes, sequences, is_steady }) => {
            let each = words::bytes_for_each(*bytes, *sequences);
            let how =
                if *is_steady { format!("{RED}it grew steadily:{RED:#}") } else { "no steady growth:".to_owned() };
            writeln!(
                out,
                "the server's memory: {} at first, {} at the end; {how} {each} bytes a sequence, in {}",
                megabytes(*first),
                megabytes(*last),
                counted(*sequences, "sequence"),
            )
        }
        // The memory of a server in this process is that of the client, too.
        None if is_embedded => Ok(()),
        None => writeln!(
            out,
            "the server's memory: {} at first, {} at the end; whether it grows shows in runs of 80 s and more",
            megabytes(*first),
            megabytes(*last),
        ),
    }
}

fn write_go_aways(go_aways: GoAways, out: &mut impl io::Write) -> io::Result<()> {
    let GoAways { connections, retried, cut } = go_aways;
    if go_aways.is_none() {
        return Ok(());
    }
    writeln!(
        out,
        "connections that the server ended in good order (GOAWAY): {connections}; streams and calls that it had not processed, made \
         again: {retried}; cut: {cut}"
    )
}

/// Who had the slots while a START waited longest for one: with several populations in sum for each, else one by one.
fn write_longest_wait(longest: &LongestWait, out: &mut impl io::Write) -> io::Result<()> {
    let of = |population: &str| if population.is_empty() { String::new() } else { format!(" of {population}") };
    let LongestWait { population, correlation_id, at_ns, waited_ms, holders } = longest;
    writeln!(
        out,
        "the longest wait for a slot, of those that began when all were taken: correlation ID {correlation_id}{}, {waited_ms} ms from \
         {:.3} s on; the slots were held meanwhile by",
        of(population),
        Duration::from_nanos(*at_ns).as_secs_f64(),
    )?;
    let mut populations = BTreeMap::<&str, (u64, u64)>::new();
    for holder in holders.iter().filter(|holder| !holder.population.is_empty()) {
        let (sequences, held) = populations.entry(&holder.population).or_default();
        (*sequences, *held) = (*sequences + 1, *held + holder.held_ms);
    }
    for (population, (sequences, held)) in populations {
        writeln!(out, "  {population}: {}, {held} ms together", counted(sequences, "sequence"))?;
    }
    let holder = |Holder { correlation_id, slot, held_ms, .. }: &Holder| {
        let slot = slot.map_or_else(String::new, |slot| format!(" in slot {slot}"));
        format!("correlation ID {correlation_id}{slot} for {held_ms} ms")
    };
    for line in wrapped(&holders.iter().map(holder).collect::<Vec<_>>().join(", "), 98) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

fn describe_history(HistoryWritten { path, kept }: &HistoryWritten, out: &mut impl io::Write) -> io::Result<()> {
    write!(out, "history: {} in {}", counted(kept.entries, "event"), path.display())?;
    if kept.left_out > 0 {
        write!(out, ", {} left out", kept.left_out)?;
    }
    if kept.lost > 0 {
        write!(out, ", {YELLOW}{} lost{YELLOW:#}: events came faster than they could be written", kept.lost)?;
    }
    writeln!(out)
}

/// Writes the verdict and how to have the run again.
///
/// # Errors
/// When it cannot be written.
pub fn write_verdict(summary: &Summary, out: &mut impl io::Write) -> io::Result<()> {
    for planted in summary.embedded.iter().flatten() {
        write_planted(planted, [1, 5].contains(&summary.exit_code()), out)?;
    }
    for Claimed { claim, least, reached, hint } in summary.missed_claims() {
        let hint = hint.unwrap_or_default();
        writeln!(out, "{YELLOW}not reached:{YELLOW:#} {claim}: {reached} of at least {least}; {hint}")?;
    }
    let tally = &summary.result.tally;
    if let Some(why) = summary.result.broken_off.as_ref().filter(|_| summary.verdict() == Verdict::Invalid) {
        writeln!(out, "{YELLOW}broken off:{YELLOW:#} {why}")?;
    }
    let (style, why) = match summary.verdict() {
        Verdict::Valid => (
            GREEN,
            format!(
                "{} checked, no violations",
                counted(tally.total().answered() - tally.total().undetermined, "answer")
            ),
        ),
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

/// A row for each pattern that is drawn or was there all the same, and one for all together.
fn write_counts(summary: &Summary, total: &Counts, out: &mut impl io::Write) -> io::Result<()> {
    let counts = Pattern::ALL.iter().zip(&summary.result.tally.patterns);
    let is_shown = |(pattern, counts): &(&Pattern, &Counts)| {
        let drawn = summary.scenario.draws(**pattern);
        drawn.common || drawn.rare || counts.requests > 0
    };
    let rows: Vec<_> = counts.filter(is_shown).map(|(pattern, counts)| (pattern.name(), counts)).collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default().max("pattern".len());
    writeln!(out, "{BOLD}{:<width$}{:>11}{:>12}{:>12}{BOLD:#}", "", "sequences", "", "requests")?;
    writeln!(
        out,
        "{BOLD}{:<width$}{:>11}{:>12}{:>12}{:>12}{:>10}{:>10}{:>10}{BOLD:#}",
        "pattern", "begun", "as planned", "sent", "completed", "refused", "failed", "unknown"
    )?;
    for (name, counts) in rows.into_iter().chain([("all", total)]) {
        let Counts { requests, completed, refused, failed, indeterminate, sequences, sequences_as_planned, .. } =
            counts;
        writeln!(
            out,
            "{name:<width$}{sequences:>11}{sequences_as_planned:>12}{requests:>12}{completed:>12}{refused:>10}{failed:>10}{indeterminate:>10}"
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

fn describe_memory(memory: &Memory) -> String {
    let mb = megabytes;
    match (memory.after_10_s, memory.at_end, memory.peak) {
        (Some(early), Some(end), Some(peak)) => {
            format!("memory {} after 10 s, {} at the end, at most {}", mb(early), mb(end), mb(peak))
        }
        (_, _, Some(peak)) => format!("memory at most {}", mb(peak)),
        _ => "memory not known".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn milliseconds(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

#[cfg(test)]
mod tests;
