//! The rows of a run: what each check came to, in words.

use std::{collections::BTreeMap, time::Duration};

use super::{Check, CheckName, Outcome, Tone};
use crate::{
    frame::HistoryWritten,
    preflight::Note,
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck, SlotFinding, Unheard},
    recorder::Pacing,
    report::{
        Claimed, Extent, PlantedFault, Summary, Verdict,
        words::{self, megabytes, time},
    },
    run::{Arrived, End, Growth, Health, NotReady, PhaseSpan, Ranks, Restarts, RunResult, ServerMemory},
};
use oracle::{
    Holder, LongestWait, ViolationKind,
    golden::{Golden, Output, Repeated},
};
use wire::transport::GoAways;
use workload::wording::counted;

/// The rows of a run, in the order of the text report.
pub(in crate::report) fn checks(summary: &Summary, extent: Extent) -> Vec<Check> {
    let mut rows: Vec<_> = responses(summary).filter(|_| extent != Extent::Short).into_iter().collect();
    rows.extend(summary.embedded.iter().flatten().map(|its| planted(its, summary.is_found())));
    rows.extend(missed_claims(summary));
    rows.extend(if extent == Extent::Short { asked_for(summary) } else { basis(summary, extent) });
    rows
}

/// What the responses came to, beside the other checks, where there are violations.
fn responses(summary: &Summary) -> Option<Check> {
    let tally = &summary.result.tally;
    let total = tally.total();
    let of_others = |kind: &ViolationKind| CheckName::ALL.into_iter().any(|check| check.finds().contains(kind));
    let found: Vec<_> = tally.violations.iter().filter(|(kind, _)| !of_others(kind)).collect();
    let kinds: Vec<_> = found.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let count = found.iter().map(|(_, count)| **count).sum();
    let judged = total.answered().saturating_sub(total.unjudged);
    let of = if total.unjudged > 0 {
        format!("{judged} of {} judged", total.answered())
    } else {
        format!("{judged} judged")
    };
    let check = if found.is_empty() {
        Check::passed(CheckName::Responses, format!("{of}, no violations"))
    } else {
        Check::failed(CheckName::Responses, format!("{of}, {}: {}", counted(count, "violation"), kinds.join(", ")))
    };
    (!tally.violations.is_empty()).then_some(check)
}

/// What a flag asked for, and the run missed: the short report is not silent about that.
fn asked_for(summary: &Summary) -> Vec<Check> {
    let result = &summary.result;
    let asked = summary.scenario.target.metrics.is_some();
    let is_missed = asked && matches!(result.pending, PendingRequests::NotChecked { .. });
    let mut rows: Vec<_> = is_missed.then(|| pending(&result.pending)).into_iter().collect();
    rows.extend(result.arrived.iter().filter(|its| its.not_begun > 0).map(arrived));
    if result.preflight.golden.is_some() {
        rows.extend(not_checked(summary));
    }
    rows
}

/// The holders of slots that the usual report names; the wide one names all.
const HOLDERS_SHOWN: usize = 4;

/// The absences of the server that the usual report names; the wide one names all that are kept.
const ABSENCES_SHOWN: usize = 3;

/// When the server was away, and how it came back.
pub(in crate::report) fn restarts(restarts: &Restarts, extent: Extent) -> Option<Check> {
    let most = if extent == Extent::Wide { usize::MAX } else { ABSENCES_SHOWN };
    let shown: Vec<_> = restarts.absences.iter().take(most).map(words::absence).collect();
    let more = restarts.count.saturating_sub(shown.len() as u64);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let text = format!("{}: {}{more}", counted(restarts.count, "time"), shown.join(", "));
    (restarts.count > 0).then(|| Check::doubtful(CheckName::ServerAway, text))
}

/// Whether any output of a model without a formula is judged.
pub(in crate::report) fn judges_outputs(golden: &Golden) -> bool {
    golden.judges() || golden.outputs.iter().any(Output::has_rule)
}

/// How often the same steps had the same outputs, where no calibration measured what they have to be.
fn repeated(result: &RunResult) -> Option<Check> {
    let golden = result.preflight.golden.as_ref()?;
    let Repeated { compared, equal } = golden.relations.repeated();
    let advice =
        if judges_outputs(golden) || equal == compared { "" } else { " (--compare OUTPUT=RULE judges the others)" };
    let text = format!(
        "{equal} of {compared} later responses to the same steps were equal to the first one in every bit{advice}"
    );
    let outcome = if equal == compared { Outcome::Passed } else { Outcome::Noted };
    (compared > 0).then(|| Check::new(CheckName::SameSteps, outcome, Tone::Fine, text))
}

/// What the server did not let the tool check, or the golden outputs do not tell.
fn not_checked(summary: &Summary) -> impl Iterator<Item = Check> {
    summary.result.preflight.notes.iter().filter_map(|note| match note {
        Note::NotChecked(what) => Some(Check::not_checked(CheckName::NotChecked, what)),
        _ => None,
    })
}

/// What was checked besides the responses, and what could not be.
fn basis(summary: &Summary, extent: Extent) -> Vec<Check> {
    let result = &summary.result;
    let tally = &result.tally;
    let total = tally.total();
    let mut lines = Vec::new();
    // What is looked at after the run says nothing before.
    if result.end != End::NotYet {
        lines.extend([accounting(&result.accounting), slots(&result.slots), pending(&result.pending)]);
        lines.extend(idle_limit(&result.idle_limit));
    }
    if total.unjudged > 0 {
        let of = counted(total.answered(), "response");
        lines.push(Check::noted(
            CheckName::Unjudged,
            format!("{} of {of}: several values were allowed", total.unjudged),
        ));
    }
    lines.extend(repeated(result));
    let populations = &summary.scenario.populations;
    let has_workers = |phase: &str| populations.iter().any(|its| its.phase.as_deref() == Some(phase));
    lines.extend(phases(&result.phases, has_workers));
    lines.extend(result.arrived.iter().map(arrived));
    lines.extend(tally.pacing.iter().flat_map(|pacing| paced(pacing)));
    let kept = result.thresholds.iter().filter(|found| found.measured && !found.missed);
    lines.extend(kept.map(|found| Check::passed(CheckName::Threshold, words::threshold(found))));
    lines.extend(go_aways(result.go_aways));
    lines.extend(restarts(&result.restarts, extent));
    if let Some(its) = &result.health {
        lines.extend(health(its, summary.embedded.is_some()));
    }
    if let Some(longest) = &result.longest_wait {
        lines.push(longest_wait(longest, extent));
    }
    let reached: Vec<_> = tally.reached.iter().map(|(claim, times)| format!("{claim} {times}")).collect();
    if extent == Extent::Wide && !reached.is_empty() {
        lines.push(Check::noted(CheckName::Reached, reached.join(", ")));
    }
    if let Some(its) = &result.ranks {
        lines.extend(ranks(its));
        if summary.verdict() == Verdict::Invalid {
            let said = |(number, _, why): (usize, _, &str)| format!("rank {number} was lost: {why}");
            lines.extend(its.lost().map(said).map(|text| Check::doubtful(CheckName::Ranks, text)));
        }
    }
    lines.extend(not_checked(summary));
    lines.extend(summary.other_words().map(|note| Check::doubtful(CheckName::Note, note)));
    if let Some(why) = result.broken_off.as_ref().filter(|_| summary.verdict() == Verdict::Invalid) {
        lines.push(Check::doubtful(CheckName::BrokenOff, why));
    }
    lines.extend(result.recorded.as_ref().map(history));
    lines
}

/// How many ranks held the run, how exactly they began together, and what their clocks keep from being checked.
fn ranks(its: &Ranks) -> Vec<Check> {
    let (of, hosts) = (its.ranks.len() as u64, its.hosts() as u64);
    let known = its.ranks.iter().filter(|rank| rank.began_us.is_some()).count() as u64;
    let began = its.start_skew_us.map_or_else(
        || format!("it is known of {} that they began", counted(known, "rank")),
        |us| format!("the last one began {} after the first", time(Duration::from_micros(us))),
    );
    let text = format!("{of} on {}; {began}; worker N is rank N modulo {of}", counted(hosts, "host"));
    let mut rows = vec![Check::noted(CheckName::Ranks, text)];
    let lost: u64 = its.ranks.iter().map(|rank| rank.lost_events).sum();
    if lost > 0 {
        let what = format!(
            "{} were not looked at, because rank 0 did not keep up: causes, slots and claims are known in part; use fewer ranks or a lower rate",
            counted(lost, "event")
        );
        rows.push(Check::doubtful(CheckName::Ranks, what));
    }
    if its.clock_uncertainty_us > 0 {
        let within = its.clock_uncertainty_us;
        let what =
            "whether two sequences share a slot, and whether a START waits beside a free one or beyond its time limit";
        rows.push(Check::not_checked(
            CheckName::NotChecked,
            format!("{what}: the ranks' clocks agree to ±{within} µs"),
        ));
    }
    rows
}

/// The claims that the run did not reach: doubts with what would reach them, or what a run of the scenario's own size has besides.
fn missed_claims(summary: &Summary) -> Vec<Check> {
    let missed = summary.missed_claims();
    if !missed.is_empty() && !summary.judged().are_claims_required() {
        let names: Vec<_> = missed.iter().map(|its| its.claim.name()).collect();
        let text = format!("{}; a larger run reaches these, too", names.join(", "));
        return vec![Check::noted(CheckName::NotReached, text)];
    }
    let line = |Claimed { claim, least, reached, hint }| {
        Check::doubtful(
            CheckName::NotReached,
            format!("{claim}: {reached} of at least {least}; {}", hint.unwrap_or_default()),
        )
    };
    missed.into_iter().map(line).collect()
}

/// What became of a fault that was planted. Of several it is not known which one was found.
pub(in crate::report) fn planted(
    PlantedFault { fault, chances, committed, .. }: &PlantedFault,
    is_found: bool,
) -> Check {
    let (times, counted_chances) = (counted(*committed, "time"), counted(*chances, "chance"));
    match committed {
        0 if *chances == 0 => Check::doubtful(
            CheckName::PlantedFault,
            format!("{fault} had no chance: this run or this model has nothing that it can spoil"),
        ),
        0 => Check::doubtful(CheckName::PlantedFault, format!("{fault} had {counted_chances}, and did not happen")),
        _ if is_found => Check::noted(CheckName::PlantedFault, format!("{fault} happened {times}")),
        _ => Check::doubtful(
            CheckName::PlantedFault,
            format!("{fault} happened {times}, and was not found: docs/DETECTION.md says where it shows"),
        ),
    }
}

pub(in crate::report) fn accounting(accounting: &Accounting) -> Check {
    match accounting {
        Accounting::Agrees { rose, unheard: Unheard { requests, executed }, .. } => {
            let (successes, executions) = (counted(rose.success, "success"), counted(rose.execution, "execution"));
            let unheard = match requests {
                0 => String::new(),
                _ => format!("; of {} without an output, {executed} executed", counted(*requests, "request")),
            };
            Check::passed(CheckName::ServerCounts, format!("agree: {successes} in {executions}{unheard}"))
        }
        Accounting::Differs { rose, expected } => Check::failed(
            CheckName::ServerCounts,
            format!(
                "differ: {}, {}, {}; expected {}",
                counted(rose.success, "success"),
                counted(rose.inference, "inference"),
                counted(rose.fail, "failure"),
                words::bounds(*expected),
            ),
        ),
        Accounting::NotCheckable { why } => {
            Check::without_result(CheckName::ServerCounts, format!("not checkable: {why}"))
        }
    }
}

pub(in crate::report) fn pending(pending: &PendingRequests) -> Check {
    match pending {
        PendingRequests::None => Check::passed(CheckName::Pending, "no requests"),
        PendingRequests::Left { count } => {
            Check::failed(CheckName::Pending, format!("{} left in the server", counted(*count, "request")))
        }
        PendingRequests::NotChecked { why } => Check::not_checked(CheckName::Pending, format!("not checked: {why}")),
    }
}

pub(in crate::report) fn slots(SlotCheck { finding, requests, took_us, server }: &SlotCheck) -> Check {
    let of = server.as_ref().map_or_else(String::new, |server| format!("on server {server}: "));
    let after =
        format!("(checked in {} with {})", time(Duration::from_micros(*took_us)), counted(*requests, "request"));
    let all = |slots: u32| counted(slots.into(), "slot");
    match finding {
        SlotFinding::AllThere { slots: 1 } => {
            Check::passed(CheckName::Slots, format!("the only slot is free, and exists once {after}"))
        }
        SlotFinding::AllThere { slots } => {
            Check::passed(CheckName::Slots, format!("all {slots} are free, and none exists twice {after}"))
        }
        SlotFinding::Leaked { slots, leaked, seen } => Check::failed(
            CheckName::Slots,
            format!("{of}{leaked} of {} leaked: {} {after}", all(*slots), words::leak(*slots, *seen)),
        ),
        SlotFinding::ReleasedTwice { slots, within_ms } => Check::failed(
            CheckName::Slots,
            format!(
                "{of}one was released twice: with {slots} of {} taken, one more START got {} {after}",
                all(*slots),
                words::surplus(*slots, *within_ms)
            ),
        ),
        SlotFinding::NotCheckable { why } => {
            Check::without_result(CheckName::Slots, format!("{of}not checkable: {why}"))
        }
    }
}

pub(in crate::report) fn idle_limit(found: &IdleSearch) -> Option<Check> {
    let ms = |us: u64| format!("{:.1} ms", Duration::from_micros(us).as_secs_f64() * 1000.0);
    match found {
        IdleSearch::NotAsked => None,
        IdleSearch::NotCheckable { why } => {
            Some(Check::without_result(CheckName::IdleLimit, format!("not measured: {why}")))
        }
        IdleSearch::Found { configured_us, kept_us, ended_us, trials } => {
            let ended = match ended_us {
                Some(ended_us) => format!("the shortest pause that ended one was {} or less", ms(*ended_us)),
                None => "no pause ended one".to_owned(),
            };
            let (configured, kept) = (ms(*configured_us), ms(*kept_us));
            let sequences = counted(u64::from(*trials), "sequence");
            let text = format!("{configured} configured; of {sequences}, one survived a pause of {kept}, and {ended}");
            Some(match ended_us {
                _ if found.shows_no_reap() => Check::failed(CheckName::IdleLimit, text),
                Some(_) => Check::passed(CheckName::IdleLimit, text),
                None => Check::noted(CheckName::IdleLimit, text),
            })
        }
    }
}

/// When the phases were, and what was done to the server.
pub(in crate::report) fn phases(phases: &[PhaseSpan], has_workers: impl Fn(&str) -> bool) -> Vec<Check> {
    let seconds = |us: u64| Duration::from_micros(us).as_secs_f64();
    let line = |PhaseSpan { name, began_us, ended_us, server, other_loads, .. }: &PhaseSpan| {
        let server = server.as_ref().map_or_else(String::new, |done| format!("; before it, {done}"));
        let when = if has_workers(name) {
            format!("from {:.1} to {:.1} s", seconds(*began_us), seconds(*ended_us))
        } else {
            format!("at {:.1} s", seconds(*began_us))
        };
        let times = |times: &u64| format!("; meanwhile, another model was loaded {}", counted(*times, "time"));
        let others = other_loads.as_ref().map_or_else(String::new, times);
        Check::noted(CheckName::Phases, format!("{name}: {when}{server}{others}"))
    };
    phases.iter().map(line).collect()
}

/// What the server said of itself, where that is worth a line.
pub(in crate::report) fn health(
    Health { asked, unanswered, not_ready, memory }: &Health,
    is_embedded: bool,
) -> Vec<Check> {
    let seconds = |at: u64| Duration::from_nanos(at).as_secs_f64();
    let mut lines = Vec::new();
    for NotReady { of, from_ns, until_ns, executed, asked_for } in not_ready {
        let until = until_ns.map_or("the end".to_owned(), |until| format!("{:.1} s", seconds(until)));
        let (row, why) = if *asked_for {
            (Check::doubtful as fn(_, String) -> _, " (the scenario asked for it)")
        } else {
            (Check::failed as _, "")
        };
        lines.push(row(
            CheckName::Readiness,
            format!(
                "{} was not ready from {:.1} s to {until}{why}; {} executed meanwhile",
                words::subject(*of),
                seconds(*from_ns),
                counted(*executed, "request"),
            ),
        ));
    }
    if *unanswered > 0 {
        let asked = counted(*asked, "question");
        lines.push(Check::doubtful(
            CheckName::Readiness,
            format!("{unanswered} of {asked} for the server's readiness got no response"),
        ));
    }
    lines.extend(memory.as_ref().and_then(|memory| server_memory(memory, is_embedded)));
    lines
}

fn server_memory(ServerMemory { first, last, growth }: &ServerMemory, is_embedded: bool) -> Option<Check> {
    let range = format!("{} at first, {} at the end", megabytes(*first), megabytes(*last));
    match growth {
        Some(Growth { sequences, per_sequence, per_hour, is_steady, .. }) => {
            let (each, in_each) = (per_sequence.mean, per_sequence.margin);
            let (hour, in_hour) = (per_hour.mean / 1e6, per_hour.margin / 1e6);
            let over = counted(*sequences, "sequence");
            let how = format!(
                "{each:.0} ± {in_each:.0} bytes per sequence, {hour:.1} ± {in_hour:.1} MB per hour, over {over}"
            );
            Some(if *is_steady {
                Check::failed(CheckName::ServerMemory, format!("grew steadily: {range}; {how}"))
            } else {
                Check::passed(CheckName::ServerMemory, format!("did not grow steadily: {range}; {how}"))
            })
        }
        // The memory of a server in this process is that of the client, too.
        None if is_embedded => None,
        None => {
            Some(Check::not_checked(CheckName::ServerMemory, format!("{range}; growth shows in runs of 80 s and more")))
        }
    }
}

/// How many iterations began at their rate, and how many did not.
fn arrived(its: &Arrived) -> Check {
    let Arrived { population, begun, begun_late, not_begun, most_at_a_time, workers } = its;
    let of = if population.is_empty() { String::new() } else { format!("{population}: ") };
    let begun = format!("{of}{} began, at most {most_at_a_time} at a time", counted(*begun, "iteration"));
    let why = if most_at_a_time == workers { "all workers were busy (more: -c)" } else { "the load ended first" };
    match (begun_late, not_begun) {
        (0, 0) => Check::noted(CheckName::Arrivals, begun),
        (_, 0) => Check::doubtful(CheckName::Arrivals, format!("{begun}; {begun_late} began late, because {why}")),
        _ => Check::doubtful(
            CheckName::Arrivals,
            format!("{begun}; {not_begun} that were due did not begin, because {why}"),
        ),
    }
}

/// How well steps with times of their own were sent at these.
fn paced(pacing: &Pacing) -> Vec<Check> {
    let ms = |us: u64| format!("{:.1} ms", Duration::from_micros(us).as_secs_f64() * 1000.0);
    let mut lines = Vec::new();
    if pacing.held_back.count() > 0 {
        let text = format!(
            "{} of {} with a time of their own were sent late, because the step before had no response yet or no worker was free: p50 {}, max {}",
            pacing.held_back.count(),
            counted(pacing.held_back.count() + pacing.late.count(), "step"),
            ms(pacing.held_back.at_quantile_us(0.5)),
            ms(pacing.held_back.max_us()),
        );
        lines.push(Check::noted(CheckName::HeldBack, text));
    }
    if let Some(late) = pacing.client_late_us() {
        let late = ms(late);
        let text = format!(
            "the client sent 1 in 100 steps {late} or more after its time: this machine may have been the limit, and not the server"
        );
        lines.push(Check::doubtful(CheckName::Client, text));
    }
    lines
}

pub(in crate::report) fn go_aways(go_aways: GoAways) -> Option<Check> {
    let GoAways { connections, retried, cut } = go_aways;
    let text = || {
        format!(
            "the server ended {} gracefully (GOAWAY); streams and calls that it had not processed, repeated: {retried}; cut: {cut}",
            counted(connections, "connection")
        )
    };
    (!go_aways.is_none()).then(|| Check::noted(CheckName::Connections, text()))
}

/// Who had the slots while a START waited longest for one: with several populations in sum for each, else one by one.
pub(in crate::report) fn longest_wait(longest: &LongestWait, extent: Extent) -> Check {
    let of = |population: &str| if population.is_empty() { String::new() } else { format!(" of {population}") };
    let LongestWait { population, correlation_id, at_ns, waited_ms, holders } = longest;
    let at = Duration::from_nanos(*at_ns).as_secs_f64();
    let mut populations = BTreeMap::<&str, (u64, u64)>::new();
    for holder in holders.iter().filter(|holder| !holder.population.is_empty()) {
        let (sequences, held) = populations.entry(&holder.population).or_default();
        (*sequences, *held) = (*sequences + 1, *held + holder.held_ms);
    }
    let together = |(population, (sequences, held)): (&str, (u64, u64))| {
        format!("{population}: {}, {held} ms together", counted(sequences, "sequence"))
    };
    let holder = |Holder { correlation_id, slot, held_ms, .. }: &Holder| {
        let slot = slot.map_or_else(String::new, |slot| format!(" in slot {slot}"));
        format!("ID {correlation_id}{slot} for {held_ms} ms")
    };
    let shown = if extent == Extent::Wide { holders.len() } else { HOLDERS_SHOWN };
    let more = holders.len().saturating_sub(shown);
    let more = (more > 0).then(|| format!("{more} more"));
    let held: Vec<_> =
        populations.into_iter().map(together).chain(holders.iter().take(shown).map(holder)).chain(more).collect();
    Check::noted(
        CheckName::LongestWait,
        format!(
            "{waited_ms} ms for a slot, ID {correlation_id}{} at {at:.3} s; these held the slots meanwhile: {}",
            of(population),
            held.join(", ")
        ),
    )
}

pub(in crate::report) fn history(HistoryWritten { path, kept }: &HistoryWritten) -> Check {
    let left_out = if kept.left_out > 0 { format!(", {} left out", kept.left_out) } else { String::new() };
    let text = format!("{} in {}{left_out}", counted(kept.entries, "event"), path.display());
    match kept.lost {
        0 => Check::noted(CheckName::History, text),
        lost => Check::doubtful(
            CheckName::History,
            format!("{text}, {lost} lost: events came faster than the disk took them"),
        ),
    }
}
