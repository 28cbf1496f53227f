//! Failures as files: TOML that a person can read and change.

use std::{fmt, fs, io::Read as _, path::Path};

use serde::{Deserialize, Serialize};

use super::Failure;
use crate::{
    conversation::{Conversation, parse_acts},
    oracle::ViolationKind,
    scenario::{Overrides, Scenario, Source},
    seed::Seed,
    sequence::Pattern,
};

/// What the file says it is.
const FORMAT: &str = "sequence-stress-failure";
/// The version of the form. It rises when a reader of the old form could misread the new one.
const VERSION: u32 = 1;
/// A larger file is no failure file: a failure of a million messages has less.
const LARGEST: u64 = 256 << 20;

/// Why a failure file cannot be used, with the file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureError(String);

impl fmt::Display for FailureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FailureError {}

/// The file, as TOML has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u32,
    found: String,
    kind: ViolationKind,
    seed: Seed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedded: Option<Vec<String>>,
    conversation: Vec<Written>,
    /// As scenario files have it.
    scenario: toml::Table,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    worker: u32,
    context: u32,
    pattern: Pattern,
    at_us: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    accused: bool,
    acts: Vec<String>,
}

/// What has to be right before the rest is looked at.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

impl Failure {
    /// The failure as a file has it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let scenario = toml::Table::try_from(&self.scenario).expect("a scenario comes from such a table");
        let document = Document {
            format: FORMAT.to_owned(),
            version: VERSION,
            found: self.found.clone(),
            kind: self.kind,
            seed: self.seed,
            embedded: self.embedded.clone(),
            conversation: self.conversations.iter().map(written).collect(),
            scenario,
        };
        let text = toml::to_string_pretty(&document).expect("it holds texts, numbers and tables");
        format!(
            "# `sequence-stress replay` has this failure again; `--shrink` makes it small. Acts may be changed by hand.\n\n{text}"
        )
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or is no such file.
    pub fn read(path: &Path) -> Result<Self, FailureError> {
        let name = path.display();
        let error = |problem: String| FailureError(format!("cannot use the failure file {name}: {problem}"));
        let mut text = String::new();
        let file = fs::File::open(path).map_err(|problem| error(problem.to_string()))?;
        file.take(LARGEST + 1).read_to_string(&mut text).map_err(|problem| error(problem.to_string()))?;
        if text.len() as u64 > LARGEST {
            return Err(error(format!("it has more than {} MiB", LARGEST >> 20)));
        }
        Self::from_text(&text).map_err(error)
    }

    /// Reads what a file holds.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let at = |error: &toml::de::Error| {
            let line =
                error.span().map_or(0, |span| 1 + text.bytes().take(span.start).filter(|&byte| byte == b'\n').count());
            let words = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            if line > 0 { format!("line {line}: {words}") } else { words }
        };
        let head: Head = toml::from_str(text).map_err(|error| at(&error))?;
        if head.format != FORMAT {
            return Err(format!("its format is '{}' and not '{FORMAT}'", head.format));
        }
        if head.version != VERSION {
            return Err(format!("its version is {}, and this program reads version {VERSION}", head.version));
        }
        let document: Document = toml::from_str(text).map_err(|error| at(&error))?;
        let scenario = Source::from_text("its scenario", &document.scenario.to_string());
        let scenario = Scenario::resolve(&scenario, Overrides::default()).map_err(|error| error.to_string())?;
        let conversations: Vec<_> = document.conversation.into_iter().map(read).collect::<Result<_, _>>()?;
        let failure = Self {
            found: document.found,
            kind: document.kind,
            scenario,
            seed: document.seed,
            embedded: document.embedded,
            conversations,
        };
        failure.check()?;
        Ok(failure.renumbered())
    }

    fn check(&self) -> Result<(), String> {
        if self.messages() == 0 {
            return Err("it sends nothing".to_owned());
        }
        Ok(())
    }

    /// The scenario with as many workers and contexts as the conversations need.
    ///
    /// # Errors
    /// When there are more than a scenario may have.
    pub fn fitted_scenario(&self) -> Result<Scenario, String> {
        let (workers, contexts) = self.size();
        let mut scenario = self.scenario.clone();
        scenario.fit(workers, contexts).map_err(|problem| format!("the conversations do not fit: {problem}"))?;
        Ok(scenario)
    }
}

fn written(conversation: &Conversation) -> Written {
    let Conversation { worker, context, pattern, at_us, accused, acts } = conversation;
    Written {
        worker: *worker,
        context: *context,
        pattern: *pattern,
        at_us: *at_us,
        accused: *accused,
        acts: acts.iter().map(ToString::to_string).collect(),
    }
}

fn read(written: Written) -> Result<Conversation, String> {
    let Written { worker, context, pattern, at_us, accused, acts } = written;
    let acts = parse_acts(&acts).map_err(|problem| format!("worker {worker} context {context}: {problem}"))?;
    Ok(Conversation { worker, context, pattern, at_us, accused, acts })
}
