//! The tables of counts and times.

use std::io;

use super::{BOLD, Extent};
use crate::{
    recorder::{Counts, Tally, Times},
    report::{
        Summary,
        mean_step::{MeanBatch, MeanStep},
        words::megabytes,
    },
    run::{End, Memory},
};
use workload::{
    sequence::Pattern,
    wording::{counted, wrapped},
};

/// A column of counts: its title, and the count.
type Column = (&'static str, fn(&Counts) -> u64);

/// Columns that are always there, and those behind them that only show counts above zero.
const COLUMNS: [Column; 7] = [
    ("begun", |counts| counts.sequences),
    ("as designed", |counts| counts.sequences_as_designed),
    ("sent", |counts| counts.requests),
    ("completed", |counts| counts.completed),
    ("rejected", |counts| counts.rejected),
    ("failed", |counts| counts.failed),
    ("indeterminate", |counts| counts.indeterminate),
];
const ALWAYS: usize = 4;
/// The columns of sequences; the others are of requests.
const OF_SEQUENCES: usize = 2;

/// A row for each pattern that is drawn or was there all the same, and one for all together.
pub(super) fn write_counts(summary: &Summary, out: &mut impl io::Write) -> io::Result<()> {
    let total = summary.result.tally.total();
    let counts = Pattern::ALL.iter().zip(&summary.result.tally.patterns);
    let is_shown = |(pattern, counts): &(&Pattern, &Counts)| {
        let drawn = summary.scenario.draws(**pattern);
        drawn.common || drawn.rare || counts.requests > 0
    };
    let mut rows: Vec<_> = counts.filter(is_shown).map(|(pattern, counts)| (pattern.name(), counts)).collect();
    rows.push(("all", &total));
    let names = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default().max("pattern".len());
    let shown = COLUMNS.iter().enumerate().filter(|(index, (_, count))| *index < ALWAYS || count(&total) > 0);
    // Of each column the total is the longest number.
    let shown: Vec<_> = shown.map(|(index, column)| (index, column, width(column, &total))).collect();
    let wide = |of_sequences: bool, gap: usize| {
        let group = shown.iter().filter(|(index, ..)| (*index < OF_SEQUENCES) == of_sequences);
        group.map(|(.., width)| gap + width).sum::<usize>()
    };
    let gap = if names + wide(true, 2) + wide(false, 2) > Extent::Usual.columns() { 1 } else { 2 };
    let (of_sequences, of_requests) = (names + wide(true, gap), wide(false, gap));
    writeln!(out)?;
    writeln!(out, "{BOLD}{:>of_sequences$}{:>of_requests$}{BOLD:#}", "sequences", "requests")?;
    write!(out, "{BOLD}{:<names$}", "pattern")?;
    for (_, (title, _), width) in &shown {
        write!(out, "{:gap$}{title:>width$}", "")?;
    }
    writeln!(out, "{BOLD:#}")?;
    for (name, counts) in rows {
        write!(out, "{name:<names$}")?;
        for (_, (_, count), width) in &shown {
            write!(out, "{:gap$}{:>width$}", "", count(counts))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn width((title, count): &Column, total: &Counts) -> usize {
    title.len().max(count(total).to_string().len())
}

/// Percentiles of steps, sequences and waits for a slot.
pub(super) fn write_times(summary: &Summary, extent: Extent, out: &mut impl io::Write) -> io::Result<()> {
    let tally = &summary.result.tally;
    writeln!(out)?;
    writeln!(
        out,
        "{BOLD}{:<18}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{BOLD:#}",
        "times in ms", "count", "p50", "p90", "p99", "p99.9", "max"
    )?;
    write_row("step", &tally.step, out)?;
    if tally.not_good() > 0 {
        write_good(tally, out)?;
    }
    if let Some(pacing) = &tally.pacing {
        write_row("  from sending", &pacing.step, out)?;
    }
    write_row("sequence", &tally.waits.sequence, out)?;
    if let Some(pacing) = &tally.pacing {
        write_row("  from sending", &pacing.sequence, out)?;
    }
    write_row("wait for a slot", &tally.waits.slot, out)?;
    if let Some(times) = summary.first_response() {
        write_row("first response", times, out)?;
    }
    if let Some(pacing) = &tally.pacing {
        write_row("client late", &pacing.late, out)?;
    }
    let has_thresholds = summary.scenario.populations.iter().any(|its| !its.fail_if.is_empty());
    if extent == Extent::Wide || has_thresholds {
        for (population, waits) in summary.scenario.populations.iter().zip(&tally.populations) {
            writeln!(out, "of {}:", population.name)?;
            write_row("  sequence", &waits.sequence, out)?;
            write_row("  wait for a slot", &waits.slot, out)?;
        }
    }
    writeln!(out)
}

/// Steps as a client sees them that cannot use every response: what is not good is infinitely slow.
#[expect(clippy::cast_precision_loss)]
fn write_good(tally: &Tally, out: &mut impl io::Write) -> io::Result<()> {
    write!(out, "{:<18}{:>10}", "  good", tally.good())?;
    for quantile in [0.5, 0.9, 0.99, 0.999, 1.0] {
        let ms =
            tally.good_at_quantile_us(quantile).map_or("∞".to_owned(), |us| format!("{:.1}", us as f64 / 1000.0));
        write!(out, "{ms:>10}")?;
    }
    writeln!(out)
}

#[expect(clippy::cast_precision_loss)]
fn write_row(name: &str, times: &Times, out: &mut impl io::Write) -> io::Result<()> {
    let ms = |us: u64| us as f64 / 1000.0;
    write!(out, "{name:<18}{:>10}", times.count())?;
    for quantile in [0.5, 0.9, 0.99, 0.999] {
        write!(out, "{:>10.1}", ms(times.at_quantile_us(quantile)))?;
    }
    writeln!(out, "{:>10.1}", ms(times.max_us()))
}

/// Where the time of a step goes, and how full batches were: a line each, where it is known.
pub(super) fn write_means(summary: &Summary, extent: Extent, out: &mut impl io::Write) -> io::Result<()> {
    let lines = MeanStep::of(&summary.result).and_then(|its| mean_step(&its, extent));
    for line in lines.into_iter().chain(mean_batch(MeanBatch::of(&summary.result))) {
        writeln!(out, "{}", wrapped(&line, extent.columns() - 2).join("\n  "))?;
    }
    Ok(())
}

/// The parts of the mean step; none where it is not known what the server took of it.
pub(super) fn mean_step(mean: &MeanStep, extent: Extent) -> Option<String> {
    let MeanStep { steps, total, client_late, held_back, server, outside } = mean;
    let server = server.as_ref()?;
    // Short times in whole microseconds.
    let (unit, time): (_, fn(f64) -> String) =
        if *total < 10_000.0 { ("µs", |us| format!("{us:.0}")) } else { ("ms", |us| format!("{:.1}", us / 1000.0)) };
    let mut parts = Vec::new();
    let mut part = |name: &str, us: f64| parts.push(format!("{name} {}", time(us)));
    if client_late + held_back > 0.0 {
        part("client late", *client_late);
        part("held back", *held_back);
    }
    part("server queue", server.queue);
    if extent == Extent::Wide {
        part("compute input", server.compute_input);
        part("infer", server.compute_infer);
        part("output", server.compute_output);
    } else {
        part("compute", server.compute);
    }
    // Only an iterative model takes long besides: statistics count one execution of a request.
    if extent == Extent::Wide || server.other > total / 100.0 {
        part("server's rest", server.other);
    }
    if let Some(outside) = outside {
        part("network and client", *outside);
    }
    let mut text = vec![format!("mean step {} {unit}: {}", time(*total), parts.join(", "))];
    if outside.is_none() {
        let (of, seen) = (time(server.total()), time(total - client_late - held_back));
        text.push(format!("the server counts {of} {unit} for a request, and the client waited {seen}"));
    }
    if server.requests != *steps {
        text.push(format!("the server's part is of {}, the client's of {steps}", counted(server.requests, "request")));
    }
    Some(text.join("; "))
}

pub(super) fn mean_batch(MeanBatch { mean, possible }: MeanBatch) -> Option<String> {
    let mean = mean?;
    // Whatever was executed was possible: instances may share the sequences unevenly.
    let of = possible.map(|possible| format!(" of {:.1} possible", possible.max(mean))).unwrap_or_default();
    Some(format!("mean batch {mean:.1}{of}"))
}

/// The rate, and what the client took of the machine.
pub(super) fn write_resources(summary: &Summary, extent: Extent, out: &mut impl io::Write) -> io::Result<()> {
    let result = &summary.result;
    let seconds = result.elapsed.as_secs_f64();
    let requests = counted(result.tally.total().requests, "request");
    let mut parts = vec![format!("{requests} in {seconds:.1} s, {:.0}/s", summary.requests_per_second())];
    if result.tally.not_good() > 0 {
        parts.push(format!("goodput {:.0}/s", summary.goodput_per_second()));
    }
    // What the client took is in the last line of a history alone, and nowhere for a simulated run.
    if result.end != End::CutOff && result.cpu_us > 0 {
        let who = if summary.embedded.is_some() { "client and server" } else { "client" };
        let (cpu, memory) = (summary.client_cpu_us_per_request(), memory(&result.memory, extent));
        parts.push(format!("{who}: {cpu:.0} µs CPU per request, {memory}"));
    }
    let line = parts.join("; ");
    let fits = line.chars().count() <= extent.columns();
    let lines = if fits { vec![line] } else { parts };
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

pub(super) fn memory(memory: &Memory, extent: Extent) -> String {
    let mb = megabytes;
    match (memory.after_10_s, memory.at_end, memory.peak) {
        (Some(early), Some(end), Some(peak)) if extent == Extent::Wide => {
            format!("{} after 10 s, {} at the end, at most {}", mb(early), mb(end), mb(peak))
        }
        (_, _, Some(peak)) => mb(peak),
        _ => "memory not known".to_owned(),
    }
}
