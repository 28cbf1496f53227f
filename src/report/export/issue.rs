//! A failure as a bug report for Triton's issue tracker, under the headings that the tracker asks for.

use std::{io, sync::Arc};

use super::{model, script};
use crate::failure::{Failure, Replayed};
use oracle::{ViolationKind, golden::Golden};
use workload::{
    conversation::Conversation,
    wording::{counted, wrapped},
};

/// The version of Triton in its first release that this table counts from, 23.04.
const FIRST_MINOR: u32 = 33;
/// The minor version of the last release that is known to follow the count, 24.10.
const LAST_MINOR: u32 = 51;
const MONTHS_BEFORE_FIRST: u32 = 23 * 12 + 3;

/// A script that is longer is a file beside the report: the tracker takes no more than 65,536 characters.
const LONGEST_SCRIPT: usize = 40_000;

/// The report.
pub(super) fn issue(failure: &Failure, golden: Option<&Arc<Golden>>) -> String {
    let mut text = Vec::new();
    write_issue(failure, golden, &mut text).expect("memory takes everything");
    String::from_utf8_lossy(&text).into_owned()
}

fn write_issue(failure: &Failure, golden: Option<&Arc<Golden>>, out: &mut impl io::Write) -> io::Result<()> {
    let facts = &failure.facts;
    let own_title = || format!("Sequence batcher: {} ({})", failure.kind.what().trim_end_matches('.'), failure.kind);
    writeln!(out, "# {}\n", facts.title.clone().unwrap_or_else(own_title))?;
    writeln!(out, "## Description\n")?;
    let own_summary = || format!("{} The server broke this rule in the conversation below.", failure.kind.what());
    writeln!(out, "{}\n", facts.summary.as_ref().map_or_else(own_summary, |summary| summary.trim().to_owned()))?;
    writeln!(out, "The client saw:\n")?;
    write_block("text", &wrapped(&failure.found, super::WIDTH).join("\n"), out)?;
    write_server(failure, golden, out)?;
    write_conversation(failure, out)?;
    write_script(failure, golden, out)?;
    write_how_often(&facts.replayed, out)
}

/// The server's name and version, with the release where that is known.
pub(in crate::report) fn server_in_words(server: Option<&str>) -> String {
    match server {
        Some(server) => {
            release(server).map_or_else(|| server.to_owned(), |release| format!("{server} (release {release})"))
        }
        None => "a server of unknown version".to_owned(),
    }
}

/// The release of a Triton version, such as 24.10 of `triton 2.51.0`: there was one each month.
fn release(server: &str) -> Option<String> {
    let minor: u32 = server.strip_prefix("triton 2.")?.split('.').next()?.parse().ok()?;
    if !(FIRST_MINOR..=LAST_MINOR).contains(&minor) {
        return None;
    }
    let months = MONTHS_BEFORE_FIRST + minor - FIRST_MINOR;
    Some(format!("{}.{:02}", months / 12, months % 12 + 1))
}

fn write_block(language: &str, text: &str, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "```{language}\n{}\n```\n", text.trim_end())
}

fn write_server(failure: &Failure, golden: Option<&Arc<Golden>>, out: &mut impl io::Write) -> io::Result<()> {
    let facts = &failure.facts;
    writeln!(out, "## Triton information\n")?;
    let version = facts.server.as_deref().map_or_else(|| "unknown".to_owned(), |server| server_in_words(Some(server)));
    writeln!(out, "- Server: {version}")?;
    let ways: Vec<_> = super::transports(failure).iter().map(|by| by.name()).collect();
    writeln!(out, "- Client: NVIDIA's `tritonclient`, over {}", ways.join(" and "))?;
    let (formula, name) = (failure.arithmetic.formula, &failure.scenario.target.model);
    match golden {
        _ if !formula.is_golden() => {
            writeln!(out, "- Model: `{name}`, {}; formula: {formula}", failure.arithmetic.datatype)?;
        }
        Some(golden) => {
            let on = server_in_words(golden.identity.server.as_deref());
            writeln!(
                out,
                "- Model: `{name}`. Attach {}. The expected outputs are what it answered alone, on {on}.",
                model(golden)
            )?;
        }
        None => writeln!(out, "- Model: `{name}`, judged by its own outputs on an idle server. Attach the model.")?,
    }
    let Some(configuration) = &facts.configuration else {
        return writeln!(out, "- Model configuration: unknown. `sequence-stress replay FILE --record` adds it.\n");
    };
    // A model without a formula is attached.
    if configuration.contains("backend: \"sequence_stress\"") && !formula.is_golden() {
        // The script writes the models that the reference server has from the start, too.
        let is_of_script = reference::model_names().any(|name| name == failure.scenario.target.model);
        let writes = if is_of_script {
            "scripts/with-triton --write-models DIR"
        } else {
            "sequence-stress repository DIR --backend native --family all"
        };
        writeln!(out, "- The model's backend is part of sequence-stress (`backend/`). `{writes}` writes the model.")?;
    }
    writeln!(out, "\nThe model configuration, as the server reports it:\n")?;
    write_block("protobuf", configuration, out)
}

fn write_conversation(failure: &Failure, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "## To reproduce\n")?;
    let messages = counted(failure.messages() as u64, "message");
    let conversations = counted(failure.conversations.len() as u64, "conversation");
    if let Some(chart) = &failure.facts.chart {
        writeln!(out, "The client sends {messages} in {conversations}. A replay that failed looked like this:\n")?;
        return write_block("text", chart, out);
    }
    writeln!(out, "The client sends {messages} in {conversations}. No chart of a run is known; this is the plan:\n")?;
    let plan: Vec<_> = failure.conversations.iter().map(planned).collect();
    write_block("text", &plan.join("\n"), out)
}

/// A conversation as it is to be held.
fn planned(conversation: &Conversation) -> String {
    let Conversation { worker, context, at_us, accused, acts, .. } = conversation;
    let here = if *accused { ", where the violation was seen" } else { "" };
    #[expect(clippy::cast_precision_loss, reason = "it is shown")]
    let ms = *at_us as f64 / 1e3;
    let acts: Vec<_> = acts.iter().map(|act| format!("\n  {act}")).collect();
    format!("worker {worker} context {context}, from {ms} ms on{here}{}", acts.concat())
}

fn write_script(failure: &Failure, golden: Option<&Arc<Golden>>, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "## Script\n")?;
    if let Some(why) = &failure.facts.withheld {
        return writeln!(out, "This report has no script: {}\n", why.trim());
    }
    let script = match script(failure, golden) {
        Ok(script) => script,
        Err(why) => return writeln!(out, "This report has no script: {why}.\n"),
    };
    if script.len() > LONGEST_SCRIPT {
        writeln!(
            out,
            "The attached script sends the same messages. It needs `tritonclient` alone. It is too long for this text;"
        )?;
        writeln!(out, "`sequence-stress export FILE --golden GOLDEN > repeat.py` writes it.\n")?;
    } else {
        writeln!(out, "This script sends the same messages. It needs `tritonclient` alone.\n")?;
        write_block("python", &script, out)?;
    }
    writeln!(out, "## Expected behavior\n")?;
    if failure.kind == ViolationKind::Statistics {
        return writeln!(
            out,
            "The server's own counts agree with what the client sent. The script does not read them.\n"
        );
    }
    writeln!(out, "Each response is the one that the script names in `expect`, and the script exits with 0.\n")
}

fn write_how_often(rows: &[Replayed], out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "## How often it fails\n")?;
    if rows.is_empty() {
        return writeln!(out, "Unknown. `sequence-stress replay FILE -n 10 --record` counts it on a server.");
    }
    if rows.iter().all(|row| row.failed == 0) {
        writeln!(out, "**No replay of this conversation failed.** Count more of them before you send the report:")?;
        writeln!(out, "`sequence-stress replay FILE -n 100 --record`.\n")?;
    }
    writeln!(out, "| server | replays that failed |\n|---|---|")?;
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_by_key(|row| row.server.clone());
    rows.iter().try_for_each(|Replayed { server, failed, runs }| {
        writeln!(out, "| {} | {failed} of {runs} |", server_in_words(Some(server)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_release_where_that_is_known() {
        for (server, expected) in [
            ("triton 2.33.0", Some("23.04")),
            ("triton 2.41.0", Some("23.12")),
            ("triton 2.42.0", Some("24.01")),
            ("triton 2.51.0", Some("24.10")),
            ("triton 2.60.0", None),
            ("sequence-stress 0.1.0", None),
            ("triton", None),
        ] {
            assert_eq!(release(server).as_deref(), expected, "{server}");
        }
    }
}
