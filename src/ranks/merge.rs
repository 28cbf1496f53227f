//! The files of ranks, put together to the result of their run.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use super::{
    RankFile,
    file::{End as Conclusion, RankName},
};
use crate::{
    frame::Footer,
    probe::{Accounting, IdleSearch, PendingRequests, SlotCheck},
    run::{End, Interrupted, Part, Rank, Ranks, RunResult},
};
use oracle::{VIOLATIONS_KEPT, history::Scene};
use workload::share::reserved;

/// Why nothing is known of a rank without a file.
const MISSING: &str = "its file is missing";

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

/// Puts the files of ranks together, one after the other, so that many of them need no more memory than few. Those of several runs are not
/// put together: the one that began last counts. What is no file of a rank is a remark.
///
/// # Errors
/// When there is no file.
pub fn merged(paths: &[PathBuf]) -> Result<Merged, String> {
    let mut remarks = Vec::new();
    let mut named: Vec<(RankName, &PathBuf)> = Vec::new();
    for path in paths {
        match RankName::read(path) {
            Ok(name) => named.push((name, path)),
            // What the others measured counts all the same.
            Err(problem) => remarks.push(problem),
        }
    }
    let none = |remarks: &[String]| format!("there is no file of a rank: {}", remarks.join("; "));
    let Some((RankName { run_id, order, .. }, _)) = named.iter().max_by_key(|(name, _)| name.order) else {
        return Err(none(&remarks));
    };
    let (run_id, order) = (run_id.clone(), *order);
    let (mut its, others): (Vec<_>, Vec<_>) = named.into_iter().partition(|(name, _)| name.run_id == run_id);
    let left_out = |(name, path): &(RankName, &PathBuf)| {
        let run = if name.order.0 == order.0 { "an earlier run of these ranks" } else { "another run" };
        format!("{} is left out: it is of {run}", path.display())
    };
    remarks.extend(others.iter().map(left_out));
    let mut ranks_there = BTreeSet::new();
    its.retain(|(name, path)| {
        let is_first = ranks_there.insert(name.share.rank);
        if !is_first {
            remarks.push(format!("{} is left out: there is another file of rank {}", path.display(), name.share.rank));
        }
        is_first
    });
    its.sort_by_key(|(name, _)| name.share.rank);
    let mut unreadable = Vec::new();
    let mut its = its.into_iter().filter_map(|(_, path)| RankFile::read(path).map_err(|why| unreadable.push(why)).ok());
    let Some(mut first) = its.next() else {
        drop(its);
        return Err(none(&[remarks, unreadable].concat()));
    };
    let conclusion = first.end.take();
    let mut ranks = Ranks::of_files(&first, conclusion.as_deref());
    let mut result = of_rank(&first, conclusion.as_deref());
    for file in its {
        if file.share.of != first.share.of || file.seed != first.seed {
            return Err(format!("the files of rank {} and {} are not of one run", first.share.rank, file.share.rank));
        }
        ranks.add(&file, conclusion.as_deref());
        result.add_part(&file.part);
        result.iterations += file.part.iterations;
        if conclusion.is_none() {
            result.violations.extend(file.violations);
            result.violations.sort_by_key(|violation| violation.at_ns);
            result.violations.truncate(VIOLATIONS_KEPT);
            result.series.add_all(&file.series);
        }
    }
    remarks.extend(unreadable);
    let was_compared = conclusion.is_some() && !matches!(result.accounting, Accounting::NotCheckable { .. });
    if was_compared && ranks.ranks.iter().any(|rank| rank.lost.as_deref() == Some(MISSING)) {
        remarks.push(
            "rank 0 compared the server's counts with what all ranks sent; the table is without missing files"
                .to_owned(),
        );
    }
    ranks.measure_skew();
    result.ranks = Some(ranks);
    match conclusion.as_deref() {
        Some(Conclusion { footer, .. }) => {
            // Rank 0 saw more than the parts have: what only all of them together show, and what it looked at afterwards.
            result.tally.violations.clone_from(&footer.violations_by_kind);
            result.tally.reached = footer.reached;
        }
        None => remarks.push("rank 0 left no result: violations are without what other ranks say of them".to_owned()),
    }
    let embedded = conclusion.is_some_and(|its| its.embedded);
    Ok(Merged { first, result, embedded, remarks })
}

impl Ranks {
    /// The ranks of a run of which this is the first file: the others are missing so far.
    fn of_files(first: &RankFile, conclusion: Option<&Conclusion>) -> Self {
        let missing = |number: u32| {
            let said = conclusion.and_then(|its| its.ranks.ranks.get(number as usize)).cloned().unwrap_or_default();
            Rank { lost: said.lost.clone().or_else(|| Some(MISSING.to_owned())), ..said }
        };
        let mut ranks = Self {
            run_id: first.about.run_id.clone(),
            attempt: first.about.attempt,
            correlation_ids: reserved(&first.scenario),
            start_skew_us: None,
            clock_uncertainty_us: conclusion.map_or(0, |its| its.ranks.clock_uncertainty_us),
            ranks: (0..first.share.of.get()).map(missing).collect(),
        };
        ranks.add(first, conclusion);
        ranks
    }

    /// Takes in what the file of a rank says.
    fn add(&mut self, file: &RankFile, conclusion: Option<&Conclusion>) {
        let number = file.share.rank as usize;
        let incomplete = (!file.complete).then(|| "it did not come to the end of its share".to_owned());
        let said = conclusion.and_then(|its| its.ranks.ranks.get(number)?.lost.clone());
        let rank = Rank::of(file.origin.host.name.clone(), &file.part, Some(file.part.began_ns / 1000));
        self.ranks[number] = Rank { lost: said.or(incomplete), ..rank };
    }
}

fn of_rank(
    RankFile { origin, preflight, part, complete, series, violations, .. }: &RankFile,
    conclusion: Option<&Conclusion>,
) -> RunResult {
    let Part { tally, iterations, cpu_us, memory, go_aways, arrived, elapsed, ran_short, .. } = part.clone();
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
        iterations,
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
        series: series.clone(),
        thresholds: footer.map_or_else(Vec::new, |footer| footer.thresholds.clone()),
        ranks: None,
        own: None,
        tally,
        violations: violations.clone(),
    }
}
