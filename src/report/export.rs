//! A failure for people who do not have this tool: a Python script for NVIDIA's client, and a bug report.

mod expect;
mod helper;
mod issue;
mod script;
mod template;

use std::{collections::BTreeSet, io};

use self::{
    helper::Helper,
    issue::{server_in_words, write_issue},
    script::Calls,
    template::spaced,
};
use crate::failure::Failure;
use oracle::ViolationKind;
use workload::{
    conversation::{Act, Transport},
    wording::wrapped,
};

/// The width at which a script's docstring is wrapped.
const WIDTH: usize = 140;

/// How a failure is written.
struct Row(fn(&Failure, &mut dyn io::Write) -> io::Result<()>);

workload::table! {
    /// A form of a failure for people who do not have this tool.
    pub enum ExportFormat: Row {
        /// a Python script that needs NVIDIA's tritonclient alone
        Python = "python", Row(|failure, mut out| write_python(failure, &mut out));
        /// a bug report in Markdown, with the script in it
        Issue = "issue", Row(|failure, mut out| write_issue(failure, &mut out));
    }
}

impl ExportFormat {
    /// Writes the failure.
    pub(crate) fn write(self, failure: &Failure, out: &mut impl io::Write) -> io::Result<()> {
        self.row().0(failure, out)
    }
}

/// Writes the script: the conversation first, then the helpers that it uses.
fn write_python(failure: &Failure, out: &mut impl io::Write) -> io::Result<()> {
    let workers: BTreeSet<_> = failure.conversations.iter().map(|conversation| conversation.worker).collect();
    let transports = transports(failure);
    let mut helper = Helper::new(failure, &transports, &workers);
    let mut connections = BTreeSet::new();
    let conversation: Vec<_> = workers
        .iter()
        .map(|&worker| {
            let calls = Calls::new(failure, worker, transports.len() > 1);
            let lines = calls.lines(&mut helper.needs, &mut connections);
            format!("def worker_{worker}():\n    {}\n", lines.join("\n    "))
        })
        .collect();
    let script = format!("{}\n{}", docstring(failure, &helper), helper.script(conversation.concat()));
    out.write_all(spaced(&script).as_bytes())
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
    if shows_in_counts(failure.kind) {
        lines.push("The violation shows in the server's own counts, which this script does not read.".to_owned());
    }
    // In a docstring these two have a meaning.
    let text = lines.join("\n").replace('\\', "\\\\").replace('"', "'");
    format!("\"\"\"{text}\n\"\"\"\n\n")
}

/// Whether a violation shows in the server's own counts alone, which a script does not read.
fn shows_in_counts(kind: ViolationKind) -> bool {
    matches!(kind, ViolationKind::Statistics | ViolationKind::PendingLeft)
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
