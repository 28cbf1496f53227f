//! Results as annotations: commands in the output of a job of GitHub Actions, which GitHub shows above the job's log.

use super::{
    Verdict, counted,
    told::{Told, groups},
};
use crate::reading::{Run, ScenarioOutcome, Written};

/// GitHub shows no more of a step.
const MOST: usize = 10;
/// The longest message, in characters.
const LONGEST: usize = 4000;

/// The annotations of a result, a line each: an error for each group of violations and each missed threshold, a warning for each doubt.
pub(crate) fn annotations(written: &Written) -> Vec<String> {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    match written {
        Written::Run(run) => of_run("", run, &mut errors, &mut warnings),
        Written::Search(search) => {
            if let Some(run) = &search.violation {
                of_run("", run, &mut errors, &mut warnings);
            } else if search.exit_code != 0 {
                let why = search.why.as_ref().map_or_else(String::new, |why| format!("{why}; "));
                warnings.push(command("warning", "limit", &format!("{why}{}", search.limit)));
            }
        }
        // No command of this tool holds a hunt.
        Written::Hunt(_) => {}
        Written::Suite(suite) => {
            for scenario in &suite.scenarios {
                let of = format!("{}: ", scenario.name);
                match &scenario.result {
                    Some(run) => of_run(&of, run, &mut errors, &mut warnings),
                    None if scenario.outcome == ScenarioOutcome::NotTested => {
                        let why = scenario.why.as_deref().unwrap_or("there is no result");
                        errors.push(command("error", &format!("{of}not tested"), why));
                    }
                    None => {}
                }
            }
        }
    }
    let mut all = [errors, warnings].concat();
    if all.len() > MOST {
        let more = counted((all.len() - MOST + 1) as u64, "more annotation");
        all.truncate(MOST - 1);
        all.push(command("warning", "sequence-stress", &format!("{more}: the job's summary and log have all")));
    }
    all
}

fn of_run(of: &str, run: &Run, errors: &mut Vec<String>, warnings: &mut Vec<String>) {
    for (group, first, count) in groups(&run.violations, Told::group) {
        let title = format!("{of}{}: {}", group.title(), counted(count, "violation"));
        errors.push(command("error", &title, &format!("{}replay: {}", first.text(), run.replay)));
    }
    for missed in &run.missed_thresholds {
        errors.push(command("error", &format!("{of}threshold missed"), missed));
    }
    if run.verdict == Verdict::Unknown {
        warnings.extend(run.doubts.iter().map(|doubt| command("warning", &format!("{of}unknown"), doubt)));
    }
}

/// A command of GitHub's, in which no character of the texts ends anything.
fn command(level: &str, title: &str, message: &str) -> String {
    let shown = |text: &str| -> String {
        let characters = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c });
        let cleaned: String = characters.take(LONGEST).collect();
        cleaned.trim().replace('%', "%25").replace('\n', "%0A")
    };
    let title = shown(title).replace(':', "%3A").replace(',', "%2C");
    format!("::{level} title={title}::{}", shown(message))
}

#[cfg(test)]
mod tests;
