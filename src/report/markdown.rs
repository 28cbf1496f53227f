//! Results as Markdown, as the summary of a CI job shows them. Texts that came from a server stay texts.

use super::{
    CoverageRow, Verdict,
    checks::{Check, CheckName},
    counted, hunt,
    told::{EXAMPLES, Group, Told, groups},
    words,
};
use crate::{
    reading::{Hunt, Percentiles, Run, Scenario, ScenarioOutcome, Search, Suite, Trial, Written},
    recorder::Found,
};

/// What takes the place of what does not fit.
const CUT: &str = "\nThe rest of the result is too long for this summary: read the files that the job kept.\n";

/// A result in at most so many bytes; nothing where not even its verdict fits. Each part is there as a whole, or not at all.
pub(crate) fn to_markdown(written: &Written, room: usize) -> String {
    let parts = match written {
        Written::Run(run) => of_run(run),
        Written::Suite(suite) => of_suite(suite),
        Written::Search(search) => of_search(search),
        Written::Hunt(hunt) => of_hunt(hunt),
    };
    let mut text = String::new();
    for (place, part) in parts.iter().enumerate() {
        let rest = if place + 1 == parts.len() { 0 } else { CUT.len() };
        if text.len() + part.len() + rest > room {
            if place > 0 {
                text.push_str(CUT);
            }
            break;
        }
        text.push_str(part);
    }
    text
}

fn of_run(run: &Run) -> Vec<String> {
    let Run { verdict, scenario_name, model, server_version, seed, .. } = run;
    let server = server_version.as_deref().map_or_else(String::new, |server| format!(" on {}", inline(server)));
    let missed = run.missed_thresholds.iter().map(|missed| format!("**THRESHOLD MISSED**: {}\n\n", inline(missed)));
    let head = [
        format!("## {}: {}\n\n", verdict.to_string().to_uppercase(), inline(scenario_name)),
        format!("{} (seed {seed})\n\n", inline(&because(run))),
        missed.collect(),
        format!("{}{server}: {}\n\n", inline(&model.name), rates(run)),
        fenced("sh", &run.replay),
    ];
    let mut parts = vec![head.concat()];
    // Thresholds have a table of their own.
    let rows: Vec<_> = run.checks.iter().filter(|row| row.name != CheckName::Threshold).map(of_check).collect();
    if !rows.is_empty() {
        parts.push(table(&["check", "outcome", ""], rows.into_iter()));
    }
    parts.extend(violations(run, 3, ""));
    if !run.thresholds.is_empty() {
        parts.push(format!("\n### Thresholds\n{}", table(&["threshold", ""], run.thresholds.iter().map(of_threshold))));
    }
    parts.push(times(run));
    parts
}

/// Why the verdict of a run is what it is.
fn because(run: &Run) -> String {
    words::because(run.verdict, &run.outcomes, &run.violations_by_kind, &run.doubts)
}

fn rates(run: &Run) -> String {
    let requests = counted(run.outcomes.requests, "request");
    let goodput = if run.latency_us.good_step.not_good > 0 {
        format!(", goodput {:.0}/s", run.goodput_per_second)
    } else {
        String::new()
    };
    format!("{requests} in {:.1} s, {:.0}/s{goodput}", run.elapsed_s, run.requests_per_second)
}

fn of_check(Check { name, outcome, says, .. }: &Check) -> Vec<String> {
    vec![name.to_string(), outcome.to_string(), inline(says)]
}

fn of_threshold(found: &Found) -> Vec<String> {
    let came = match found {
        Found { missed: true, .. } => "**missed**",
        Found { measured: false, .. } => "not measured",
        _ => "kept",
    };
    vec![inline(&words::threshold(found)), came.to_owned()]
}

/// The violations by kind and cause, each group folded, below a heading of this level.
fn violations(run: &Run, level: usize, of: &str) -> Vec<String> {
    let groups = groups(&run.violations, Told::group);
    if groups.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![format!("\n{} Violations{of}\n", "#".repeat(level))];
    for (place, (group, first, count)) in groups.iter().enumerate() {
        let title = title(*group, *count);
        if place < EXAMPLES {
            let shown = first.text() + "\nreplay: " + &run.replay;
            parts.push(format!("\n<details>\n<summary>{title}</summary>\n\n{}\n</details>\n", fenced("text", &shown)));
        } else {
            parts.push(format!("\n- {title}\n"));
        }
    }
    let (kept, all) = (run.violations.len(), run.violation_count);
    if all > kept as u64 {
        parts.push(format!("\nThe run kept the first {kept} of {}.\n", counted(all, "violation")));
    }
    parts
}

/// The title of a group; nothing of it came from a server.
fn title(group: Group, count: u64) -> String {
    format!("{}: {}", group.title(), counted(count, "violation"))
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn ms(us: u64) -> String {
    format!("{:.1}", us as f64 / 1000.0)
}

fn times(run: &Run) -> String {
    let times = &run.latency_us;
    let row = |name: &str, its: &Percentiles| {
        let Percentiles { count, p50, p90, p99, p99_9, max } = its;
        let numbers = [p50, p90, p99, p99_9, max].map(|us| ms(*us));
        [vec![name.to_owned(), count.to_string()], numbers.to_vec()].concat()
    };
    let mut rows = vec![row("step", &times.step)];
    let good = &times.good_step;
    if good.not_good > 0 {
        let numbers = [good.p50, good.p90, good.p99, good.p99_9, good.max];
        let numbers = numbers.map(|us| us.map_or_else(|| "∞".to_owned(), ms));
        rows.push([vec!["good step".to_owned(), good.count.to_string()], numbers.to_vec()].concat());
    }
    rows.extend([row("sequence", &times.sequence), row("wait for a slot", &times.wait_for_slot)]);
    rows.extend(times.first_response.as_ref().map(|its| row("first response", its)));
    let titles = ["times in ms", "count", "p50", "p90", "p99", "p99.9", "max"];
    format!("\n### Latency\n{}", table(&titles, rows.into_iter()))
}

fn of_suite(suite: &Suite) -> Vec<String> {
    let Suite { seed, took_s, scenarios } = suite;
    let runs = || scenarios.iter().filter_map(|scenario| Some((scenario, scenario.result.as_deref()?)));
    let count = |wanted| runs().filter(|(_, run)| run.verdict == wanted).count();
    let (valid, invalid, unknown) = (count(Verdict::Valid), count(Verdict::Invalid), count(Verdict::Unknown));
    let head = format!(
        "## Suite: {valid} valid, {invalid} invalid, {unknown} unknown\n\n{} of {} run in {took_s:.0} s (seed {seed})\n",
        runs().count(),
        counted(scenarios.len() as u64, "scenario"),
    );
    let titles = ["scenario", "verdict", "requests", "sequences", "violations", "took", ""];
    let mut parts = vec![head, table(&titles, scenarios.iter().map(of_scenario))];
    for (scenario, run) in runs() {
        parts.extend(violations(run, 3, &format!(" of {}", inline(&scenario.name))));
    }
    parts
}

fn of_scenario(Scenario { name, outcome, why, took_s, result }: &Scenario) -> Vec<String> {
    let Some(run) = result else {
        let word = match outcome {
            ScenarioOutcome::Skipped => "skipped",
            ScenarioOutcome::NotTested | ScenarioOutcome::Run => "not tested",
            ScenarioOutcome::Interrupted => "interrupted",
            ScenarioOutcome::NotBegun => "not run",
        };
        let none = String::new;
        return vec![
            inline(name),
            word.to_owned(),
            none(),
            none(),
            none(),
            none(),
            inline(why.as_deref().unwrap_or("")),
        ];
    };
    let doubts = if run.verdict == Verdict::Unknown { &run.doubts[..] } else { &[] };
    let remarks: Vec<_> = doubts.iter().chain(&run.missed_thresholds).map(|text| inline(text)).collect();
    vec![
        inline(name),
        run.verdict.to_string(),
        run.outcomes.requests.to_string(),
        run.outcomes.sequences.to_string(),
        run.violation_count.to_string(),
        format!("{took_s:.0} s"),
        remarks.join("; "),
    ]
}

fn of_search(search: &Search) -> Vec<String> {
    let Search { limit, why, range, seed, trials, violation, scenario_name, .. } = search;
    let why = why.as_ref().map_or_else(String::new, |why| format!("{}. ", inline(why)));
    let head = format!(
        "## Limit: {}\n\n{why}{} (range {}, seed {seed})\n\n{}",
        inline(scenario_name),
        inline(limit),
        inline(range),
        fenced("sh", &search.replay)
    );
    let of_trial = |trial: &Trial| {
        let time = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), ms);
        let came = match trial {
            Trial { sustained: true, .. } => "sustained".to_owned(),
            Trial { why, .. } if why.is_empty() => counted(trial.violations, "violation"),
            Trial { why, .. } => format!("too much: {}", inline(why)),
        };
        vec![
            search.load.shown(trial.load),
            format!("{:.1}", trial.sequences_per_second),
            format!("{:.1}", trial.goodput_per_second),
            time(trial.step_p50_us),
            time(trial.step_p99_us),
            came,
        ]
    };
    let titles = ["load", "sequences/s", "goodput/s", "step p50 (ms)", "step p99 (ms)", ""];
    let mut parts = vec![head, table(&titles, trials.iter().map(of_trial))];
    parts.extend(violation.iter().flat_map(|run| of_run(run)));
    parts
}

fn of_hunt(hunt: &Hunt) -> Vec<String> {
    let (word, sentence) = hunt::verdict(hunt);
    let mut parts = vec![format!("## Hunt: {word}\n\n{}\n", inline(&sentence))];
    let title = |kind: &str, cause: &Option<String>| inline(&hunt::title(kind, cause.as_deref()));
    let releases: Vec<_> = hunt.releases.iter().map(|release| inline(release)).collect();
    if !hunt.findings.is_empty() {
        let titles: Vec<_> = ["finding", "messages"].into_iter().chain(releases.iter().map(String::as_str)).collect();
        let rows = hunt.findings.iter().map(|its| {
            let messages = if its.is_small { its.messages.to_string() } else { inline(&its.size) };
            let came = its.releases.iter().map(|its| inline(&hunt::came(its)));
            [title(&its.kind, &its.cause), messages].into_iter().chain(came).collect()
        });
        parts.push(table(&titles, rows));
    }
    if !hunt.coverage.is_empty() {
        let models: Vec<_> = hunt.models.iter().map(|model| inline(model)).collect();
        let titles: Vec<_> = ["release"].into_iter().chain(models.iter().map(String::as_str)).collect();
        let rows = hunt.releases.iter().map(|release| {
            let of_model = |model: &String| {
                let its = hunt.coverage.iter().filter(|its| (&its.release, &its.model) == (release, model));
                Some(hunt::counts(its)).filter(|counts| !counts.is_empty()).unwrap_or_else(|| "none".to_owned())
            };
            [inline(release)].into_iter().chain(hunt.models.iter().map(of_model)).collect()
        });
        parts.push(format!("\n### Runs\n{}", table(&titles, rows)));
    }
    if let Some(CoverageRow { runs, pairs, new_in_next_run: new, unseen_at_least: unseen, .. }) = hunt.reached.last() {
        let runs = counted(*runs, "drawn run");
        let pairs = counted(*pairs, "pair");
        parts.push(format!(
            "\n{runs} reached {pairs} of transitions; the next run is expected to reach {new:.2} new ones, and at least {unseen:.0} are unseen.\n"
        ));
    }
    let waiting = hunt.waiting.iter().map(|its| {
        let command = inline(&its.found.command);
        format!("not looked into yet: {} on {}: {command}", title(&its.kind, &its.cause), inline(&its.found.release))
    });
    let notes = hunt.notes.iter().map(|note| inline(note)).chain(waiting).map(|note| format!("- {note}\n"));
    let notes = notes.collect::<Vec<_>>().concat();
    if !notes.is_empty() {
        parts.push(format!("\n### Notes\n\n{notes}"));
    }
    for finding in &hunt.findings {
        let shown = fenced("text", &hunt::text(finding));
        let title = hunt::known_title(finding);
        parts.push(format!("\n<details>\n<summary>{title}</summary>\n\n{shown}\n</details>\n"));
    }
    parts
}

/// A table; the cells are Markdown.
fn table(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head = format!("\n| {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
    let rows = rows.map(|row| format!("| {} |\n", row.join(" | ")));
    std::iter::once(head).chain(rows).collect()
}

/// A text in a line of Markdown: no character of it means anything.
fn inline(text: &str) -> String {
    let mut inline = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        match c {
            c if c.is_control() => inline.push(' '),
            // `www.` alone makes a link.
            '.' if matches!(before, 'w' | 'W') => inline.push_str("\\."),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '#' | '+' | '|' | '~' | '@' | ':' | '&'
            | '!' | '$' | '^' | '=' => inline.extend(['\\', c]),
            c => inline.push(c),
        }
        before = c;
    }
    inline.trim().to_owned()
}

/// A text as a block of code, whose fence is longer than any in the text.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let shown: String = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    format!("{fence}{language}\n{}\n{fence}\n", shown.trim_end())
}

#[cfg(test)]
mod tests;
