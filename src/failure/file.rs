//! Failures as files: TOML that a person can read and change.

use std::{fs, io::Read as _, num::NonZeroU32, path::Path};

use serde::{Deserialize, Serialize};

use super::{Accused, Facts, Failure};
use oracle::{ViolationKind, history::is_history};
use reference::{Options, ServerSetup};
use workload::{
    arithmetic::Arithmetic,
    conversation::{Conversation, parse_acts},
    scenario::{Millis, Overrides, Scenario, Source, plain},
    seed::Seed,
    sequence::Pattern,
};

/// How long a replay waits for an answer that a correct server gives sooner, at most.
const LOST_AFTER: Millis = Millis::SECOND;

const FORMAT: &str = "sequence-stress-failure";
/// The version of the form. It rises when a reader of the old form could misread the new one.
const VERSION: u32 = 1;
const WRITTEN_BY: &str = "--failure of a run, or of `sequence-stress check`, writes failure files";
/// A larger file is no failure file: a failure of a million messages has less.
const LARGEST: u64 = 256 << 20;

/// The file, as TOML has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u32,
    found: String,
    kind: ViolationKind,
    #[serde(with = "workload::wide")]
    seed: Seed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    embedded: Option<toml::Table>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    at_the_slots: bool,
    /// Where it is more than the running sum in INT32.
    #[serde(default, skip_serializing_if = "is_usual")]
    arithmetic: Arithmetic,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accused: Option<Accused>,
    conversation: Vec<Written>,
    #[serde(default, skip_serializing_if = "Facts::are_none")]
    report: Facts,
    /// As scenario files have it.
    scenario: toml::Table,
}

fn is_usual(arithmetic: &Arithmetic) -> bool {
    *arithmetic == Arithmetic::default()
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

impl Failure {
    /// The failure as a file has it.
    pub fn to_text(&self) -> String {
        let scenario = toml::Table::try_from(&self.scenario).expect("a scenario comes from such a table");
        let document = Document {
            format: FORMAT.to_owned(),
            version: VERSION,
            found: self.found.clone(),
            kind: self.kind,
            seed: self.seed,
            embedded: self.embedded.as_ref().map(said),
            at_the_slots: self.at_the_slots,
            arithmetic: self.arithmetic,
            accused: self.accused,
            conversation: self.conversations.iter().map(written).collect(),
            report: self.facts.clone(),
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
    /// When it cannot be read, or is no such file; with the file's name.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let error = |problem: String| format!("cannot use the failure file {name}: {problem}");
        if path.is_dir() {
            return Err(error(format!("it is a directory; {WRITTEN_BY}")));
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(|problem| error(problem.to_string()))?;
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|problem| error(problem.to_string()))?;
        if is_history(&bytes) {
            let make = format!("`sequence-stress check {name} --failure OUT` makes a failure file of it");
            return Err(error(format!("it is a history; {make}")));
        }
        if bytes.len() as u64 > LARGEST {
            return Err(error(format!("it has more than {} MiB; {WRITTEN_BY}", LARGEST >> 20)));
        }
        let text = String::from_utf8(bytes).map_err(|_| error(format!("it is no text; {WRITTEN_BY}")))?;
        Self::from_text(&text).map_err(error)
    }

    /// Reads what a file holds. An error says what is wrong with it.
    pub(super) fn from_text(text: &str) -> Result<Self, String> {
        let at = |error: &toml::de::Error| {
            let line =
                error.span().map_or(0, |span| 1 + text.bytes().take(span.start).filter(|&byte| byte == b'\n').count());
            let words = plain(error.message());
            if line > 0 { format!("line {line}: {words}") } else { words }
        };
        let no_failure = || format!("it is no failure file; {WRITTEN_BY}");
        // Where it is one, it was changed by hand, and whoever did that wants to know the line.
        let is_one = text.contains(FORMAT);
        let head: toml::Table = toml::from_str(text).map_err(|error| if is_one { at(&error) } else { no_failure() })?;
        let format = head.get("format").ok_or_else(no_failure)?;
        if format.as_str() != Some(FORMAT) {
            return Err(format!("its format is {} and not '{FORMAT}'; {WRITTEN_BY}", quoted(format)));
        }
        let version =
            head.get("version").ok_or_else(|| format!("it lacks its version, such as version = {VERSION}"))?;
        if version.as_integer() != Some(VERSION.into()) {
            return Err(format!("its version is {version}, and this program reads version {VERSION}"));
        }
        let document: Document = toml::from_str(text).map_err(|error| at(&error))?;
        let scenario = Source::from_text("its scenario", &document.scenario.to_string());
        let scenario = Scenario::resolve(&scenario, Overrides::default());
        let scenario = scenario.map_err(|error| error.to_string())?;
        let conversations: Vec<_> = (1..).zip(document.conversation).map(read).collect::<Result<_, _>>()?;
        let failure = Self {
            found: document.found,
            kind: document.kind,
            scenario,
            seed: document.seed,
            embedded: document.embedded.map(server).transpose()?,
            at_the_slots: document.at_the_slots,
            arithmetic: document.arithmetic,
            accused: document.accused.map(|accused| accused.in_type(document.arithmetic.datatype)),
            conversations,
            facts: document.report,
        };
        if failure.messages() == 0 {
            return Err("it sends nothing".to_owned());
        }
        Ok(failure.renumbered())
    }

    /// The same with as many workers and contexts as its conversations have.
    ///
    /// # Errors
    /// When there are more than a scenario may have.
    pub fn fitted(mut self) -> Result<Self, String> {
        let (workers, contexts) = self.size();
        self.scenario.fit(workers, contexts).map_err(|problem| format!("the conversations do not fit: {problem}"))?;
        Ok(self)
    }

    /// The scenario with as many workers and contexts as the conversations need, and without waiting for what does not concern
    /// this failure.
    ///
    /// # Errors
    /// When there are more than a scenario may have.
    pub fn fitted_scenario(&self) -> Result<Scenario, String> {
        use ViolationKind as Kind;
        let mut scenario = self.clone().fitted()?.scenario;
        if self.kind != Kind::Statistics {
            scenario.limits.quiet_ms = Millis::LEAST;
        }
        scenario.limits.settle_ms = match self.kind {
            Kind::Statistics => scenario.limits.settle_ms,
            Kind::PendingLeft => scenario.limits.settle_ms.min(LOST_AFTER),
            _ => Millis::LEAST,
        };
        scenario.slots.check = self.at_the_slots || matches!(self.kind, Kind::SlotLeak | Kind::SlotReleasedTwice);
        scenario.slots.idle_limit_search = self.kind == Kind::MissingReap;
        if self.kind != Kind::PendingLeft {
            scenario.target.metrics = None;
        }
        // Shorter, so that what is lost is not waited for as long as in a run, and not so short that on a slow machine an answer
        // that is merely late is taken for lost.
        scenario.limits.lost_after_ms = scenario.limits.lost_after_ms.min(LOST_AFTER);
        scenario.limits.response_ms = None;
        scenario.limits.reconnect_ms = None;
        let steps = self.conversations.iter().map(Conversation::messages).max().unwrap_or(1);
        let longest = u32::try_from(steps).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
        let length = &mut scenario.populations[0].length;
        length.max = longest.max(length.min);
        Ok(scenario)
    }
}

/// What a server's setup says that is not so by default.
fn said(server: &ServerSetup) -> toml::Table {
    let table = |server: &ServerSetup| toml::Table::try_from(server).expect("it has texts, numbers and lists");
    let default = table(&ServerSetup::default());
    table(server).into_iter().filter(|(name, value)| default.get(name) != Some(value)).collect()
}

fn server(table: toml::Table) -> Result<ServerSetup, String> {
    let problem = |error: &str| format!("its embedded server: {}", plain(error));
    let server: ServerSetup = table.try_into().map_err(|error: toml::de::Error| problem(error.message()))?;
    Options::from(server.clone()).check().map_err(|error| problem(&error))?;
    Ok(server)
}

fn quoted(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| format!("'{text}'"))
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

fn read((number, written): (usize, Written)) -> Result<Conversation, String> {
    let Written { worker, context, pattern, at_us, accused, acts } = written;
    let acts = parse_acts(&acts)
        .map_err(|problem| format!("conversation {number} (worker {worker} context {context}): {problem}"))?;
    Ok(Conversation { worker, context, pattern, at_us, accused, acts })
}
