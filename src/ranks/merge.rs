//! The files of ranks, put together to the result of their run.

use std::{collections::BTreeMap, sync::Arc};

use super::{RankFile, file::End as Conclusion};
use crate::{
    frame::Footer,
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck},
    recorder::Series,
    run::{End, Interrupted, Part, Rank, Ranks, RunResult},
};
use oracle::{VIOLATIONS_KEPT, Violation, history::Scene};
use workload::share::reserved;

/// What the files of ranks come to.
#[derive(Debug)]
pub struct Merged {
    /// The file that says what the run was: that of the lowest rank.
    pub first: RankFile,
    /// What came of it.
    pub result: RunResult,
    /// Whether the server was in the process of rank 0.
    pub embedded: bool,
    /// What of the files was left out, a sentence each.
    pub remarks: Vec<String>,
}

/// Puts the files of ranks together. Those of several runs are not: the run of rank 0 counts, or, without it, the one that began last.
///
/// # Errors
/// When there is no file.
pub fn merged(files: Vec<RankFile>) -> Result<Merged, String> {
    let newest = |file: &&RankFile| (file.share.rank == 0, file.origin.started());
    let run_id = files.iter().max_by_key(newest).ok_or("there is no file of a rank")?.about.run_id.clone();
    let (its, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.about.run_id == run_id);
    let mut remarks: Vec<_> = others
        .iter()
        .map(|file| format!("the file of rank {} is left out: it is of another run", file.share.rank))
        .collect();
    let mut by_rank: BTreeMap<u32, RankFile> = its.into_iter().map(|file| (file.share.rank, file)).collect();
    let Some((_, mut first)) = by_rank.pop_first() else { return Err("there is no file of a rank".to_owned()) };
    let of = first.share.of.get();
    if let Some(wrong) = by_rank.values().find(|file| file.share.of.get() != of || file.seed != first.seed) {
        return Err(format!("the files of rank {} and {} are not of one run", first.share.rank, wrong.share.rank));
    }
    let conclusion = first.end.take();
    let mut violations = first.violations.clone();
    let mut series = first.series.clone();
    if conclusion.is_none() {
        for file in by_rank.values() {
            violations.extend(file.violations.iter().cloned());
            series.add_all(&file.series);
        }
        violations.sort_by_key(|violation| violation.at_ns);
        violations.truncate(VIOLATIONS_KEPT);
        remarks.push("rank 0 left no result: violations are without what other ranks say of them".to_owned());
    }
    let ranks = ranks(&first, &by_rank, conclusion.as_deref());
    let mut result = of_rank(&first, conclusion.as_deref(), series, violations);
    for file in by_rank.values() {
        result.add_part(&file.part);
    }
    let own: u64 = by_rank.values().map(|file| file.part.iterations).sum();
    result.iterations = first.part.iterations + own;
    if let Some(Conclusion { footer, .. }) = conclusion.as_deref() {
        // Rank 0 saw more than the parts have: what only all of them together show, and what it looked at afterwards.
        result.tally.violations.clone_from(&footer.violations_by_kind);
        result.tally.reached = footer.reached;
    }
    result.ranks = Some(ranks);
    let embedded = conclusion.is_some_and(|its| its.embedded);
    Ok(Merged { first, result, embedded, remarks })
}

/// Each rank, and why not all of it is known, where that is so.
fn ranks(first: &RankFile, others: &BTreeMap<u32, RankFile>, conclusion: Option<&Conclusion>) -> Ranks {
    let rank = |number: u32| {
        let file = if number == first.share.rank { Some(first) } else { others.get(&number) };
        let said = conclusion.and_then(|its| its.ranks.ranks.get(number as usize));
        let Some(file) = file else {
            let lost = said.and_then(|said| said.lost.clone()).or_else(|| Some("its file is missing".to_owned()));
            return Rank { lost, ..said.cloned().unwrap_or_default() };
        };
        let incomplete = (!file.complete).then(|| "it did not come to the end of its share".to_owned());
        let lost = said.and_then(|said| said.lost.clone()).or(incomplete);
        Rank { lost, ..Rank::of(file.origin.host.name.clone(), &file.part, Some(file.part.began_ns / 1000)) }
    };
    let mut ranks = Ranks {
        run_id: first.about.run_id.clone(),
        attempt: first.about.attempt,
        correlation_ids: reserved(&first.scenario),
        start_skew_us: None,
        clock_uncertainty_us: conclusion.map_or(0, |its| its.ranks.clock_uncertainty_us),
        ranks: (0..first.share.of.get()).map(rank).collect(),
    };
    ranks.measure_skew();
    ranks
}

fn of_rank(
    RankFile { origin, preflight, part, complete, .. }: &RankFile,
    conclusion: Option<&Conclusion>,
    series: Series,
    violations: Vec<Violation>,
) -> RunResult {
    let Part { tally, cpu_us, memory, go_aways, arrived, elapsed, ran_short, .. } = part.clone();
    let footer: Option<&Footer> = conclusion.map(|its| &its.footer);
    let unknown = || "the file of rank 0 does not tell".to_owned();
    RunResult {
        origin: origin.clone(),
        preflight: preflight.clone(),
        accounting: footer
            .map_or_else(|| Accounting::NotCheckable { why: unknown() }, |footer| footer.accounting.clone()),
        pending: footer.map_or_else(|| PendingRequests::NotChecked { why: unknown() }, |footer| footer.pending.clone()),
        slots: footer.map_or_else(|| SlotCheck::not_checkable(unknown()), |footer| footer.slots.clone()),
        idle_limit: footer.and_then(|footer| footer.idle_limit.clone()).unwrap_or(IdleSearch::NotAsked),
        iterations: 0,
        began: None,
        elapsed,
        cpu_us,
        memory,
        interrupted: Interrupted(footer.is_some_and(|footer| footer.interrupted)),
        end: if *complete { End::Known } else { End::CutOff },
        beside: footer.map_or_else(Vec::new, |footer| footer.violations.clone()),
        recorded: None,
        scene: Arc::new(Scene::default()),
        phases: Vec::new(),
        arrived,
        broken_off: footer.and_then(|footer| footer.broken_off.clone()).or(ran_short),
        longest_wait: conclusion.and_then(|its| its.longest_wait.clone()),
        go_aways,
        restarts: footer.map_or_else(Default::default, |footer| footer.restarts.clone()),
        health: footer.and_then(|footer| footer.health.clone()),
        series,
        thresholds: footer.map_or_else(Vec::new, |footer| footer.thresholds.clone()),
        ranks: None,
        own: None,
        tally,
        violations,
    }
}
