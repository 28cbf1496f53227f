//! A failure for people who do not have this tool: a Python script for NVIDIA's client, and a bug report.

mod expect;
mod helper;
mod issue;
mod script;
mod tables;
mod template;

use std::{collections::BTreeSet, sync::Arc};

use self::{helper::Helper, issue::issue, script::Calls, tables::Tables, template::spaced};
use crate::failure::Failure;
use oracle::{
    ViolationKind,
    golden::{Golden, Identity},
};
use workload::{
    answers::Answers,
    conversation::{Act, Transport},
    wording::wrapped,
};

pub(super) use self::issue::server_in_words;

/// The width at which a script's docstring is wrapped.
const WIDTH: usize = 140;

/// The text of a failure.
struct Row(fn(&Failure, Option<&Arc<Golden>>) -> Result<String, String>);

workload::table! {
    /// A form of a failure for people who do not have this tool.
    pub enum ExportFormat: Row {
        /// a Python script that needs NVIDIA's tritonclient alone
        Python = "python", Row(script);
        /// a bug report in Markdown, with the script in it
        Issue = "issue", Row(|failure, golden| Ok(issue(failure, golden)));
    }
}

impl ExportFormat {
    /// The failure in this form; `golden` is what a model without a formula has to answer.
    ///
    /// # Errors
    /// In one line, when it cannot be had in this form.
    pub(crate) fn text(self, failure: &Failure, golden: Option<&Arc<Golden>>) -> Result<String, String> {
        self.row().0(failure, golden)
    }
}

/// The script: the conversation first, then the helpers that it uses.
fn script(failure: &Failure, golden: Option<&Arc<Golden>>) -> Result<String, String> {
    let (answers, has_formula) = (failure.arithmetic.answers, !failure.arithmetic.formula.is_golden());
    if answers.are_iterative() || has_formula && answers != Answers::One {
        return Err("a script is not written for a model that answers or executes a request several times: replay it \
                    (sequence-stress replay)"
            .to_owned());
    }
    if golden.is_none() && !has_formula {
        return Err(
            "the run was judged by golden outputs, which a script needs and the file does not have: name theirs \
                    (--golden FILE)"
                .to_owned(),
        );
    }
    let transports = transports(failure);
    if transports.iter().any(|by| by.ends_with_errors()) {
        return Err(format!(
            "a script is not written for streams of {}: replay it (sequence-stress replay)",
            Transport::GrpcStatus
        ));
    }
    let workers: BTreeSet<_> = failure.conversations.iter().map(|conversation| conversation.worker).collect();
    let mut helper = Helper::new(failure, &transports, &workers, golden.cloned().map(Tables::new));
    let mut connections = BTreeSet::new();
    let conversation: Vec<_> = workers
        .iter()
        .map(|&worker| {
            let calls = Calls::new(failure, worker, transports.len() > 1, helper.tables.as_mut());
            let lines = calls.lines(&mut helper.needs, &mut connections);
            format!("def worker_{worker}():\n    {}\n", lines.join("\n    "))
        })
        .collect();
    if let Some(problem) = helper.tables.as_ref().and_then(Tables::too_large) {
        return Err(problem);
    }
    let script = format!("{}\n{}", docstring(failure, &helper), helper.script(conversation.concat()));
    Ok(spaced(&script))
}

/// How the steps of a failure travel, as most of them do first.
fn transports(failure: &Failure) -> Vec<Transport> {
    let usual = failure.scenario.populations[0].sending.transport();
    let mut all = vec![usual];
    for act in failure.conversations.iter().flat_map(|conversation| &conversation.acts) {
        if let Act::Open { by: Some(by), .. } = act
            && !all.contains(by)
        {
            all.push(*by);
        }
    }
    all
}

fn docstring(failure: &Failure, helper: &Helper<'_>) -> String {
    let mut lines = vec![format!("{}: {}", failure.kind, failure.kind.what()), String::new()];
    let server = server_in_words(failure.facts.server.as_deref());
    let found = format!("{}. Model {} on {server}.", failure.found, failure.scenario.target.model);
    lines.extend(wrapped(&found, WIDTH));
    let (client, arguments) = (helper.client_package(), helper.arguments());
    lines.push(format!(
        "Run it several times: pip install '{client}'; python3 SCRIPT {arguments}; the exit code is 1 if a response is wrong."
    ));
    if let Some(tables) = &helper.tables {
        let of = server_in_words(tables.golden.identity.server.as_deref());
        lines.push(format!(
            "What it expects is what the idle model answered before: {}, on {of}.",
            model(&tables.golden)
        ));
    }
    if failure.kind == ViolationKind::Statistics {
        lines.push("The violation shows in the server's own counts, which this script does not read.".to_owned());
    }
    // In a docstring these two have a meaning.
    let text = lines.join("\n").replace('\\', "\\\\").replace('"', "'");
    format!("\"\"\"{text}\n\"\"\"\n\n")
}

/// The model that golden outputs are of.
fn model(golden: &Golden) -> String {
    let Identity { model, version, .. } = &golden.identity;
    version.as_ref().map_or_else(|| format!("model {model}"), |version| format!("version {version} of model {model}"))
}

/// A text as Python has it, on one line.
fn quoted(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests;
