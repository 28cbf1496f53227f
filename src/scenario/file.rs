//! Scenario files: TOML, completed by the default scenario, with errors that name the line and the key.

use std::{fmt, fs, io, path::PathBuf};

use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};

use super::{DEFAULT, Scenario};

/// The tables that a file gives as a whole: a pattern that it does not name is not drawn.
const WHOLE: [&str; 2] = ["patterns.common", "patterns.rare"];

/// Where a scenario comes from: its name for messages, and its text.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    path: Option<PathBuf>,
}

/// Why a scenario cannot be used; one line, with the file, the line and the key where they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    source: String,
    line: Option<usize>,
    key: Option<String>,
    problem: String,
}

impl Source {
    /// The scenario that is compiled in.
    #[must_use]
    pub fn default_scenario() -> Self {
        Self::from_text("l0-sequence-stress", DEFAULT)
    }

    /// A scenario in memory.
    #[must_use]
    pub fn from_text(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned(), path: None }
    }

    /// A scenario in a file.
    ///
    /// # Errors
    /// When the file cannot be read, or is not UTF-8.
    pub fn from_file(path: PathBuf) -> Result<Self, ScenarioError> {
        let name = path.display().to_string();
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Self { name, text, path: Some(path) }),
            Err(error) => {
                let why = if error.kind() == io::ErrorKind::InvalidData {
                    "it is not UTF-8 text".into()
                } else {
                    error.to_string()
                };
                Err(ScenarioError {
                    source: name,
                    line: None,
                    key: None,
                    problem: format!("cannot read the scenario: {why}"),
                })
            }
        }
    }

    /// The scenario's name, as messages have it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that the scenario is in; none for one that is compiled in.
    #[must_use]
    pub fn path(&self) -> Option<&PathBuf> {
        self.path.as_ref()
    }

    pub(super) fn parse(&self) -> Result<Scenario, ScenarioError> {
        let defaults = DeTable::parse(DEFAULT).expect("the compiled-in scenario is TOML, as the tests show");
        let mut table = DeTable::parse(&self.text).map_err(|error| self.syntax_error(&error))?;
        complete(table.get_mut(), defaults.get_ref(), "");
        serde_path_to_error::deserialize(Deserializer::from(table)).map_err(|error| {
            let path = error.path().to_string();
            let inner = error.into_inner();
            let unknown = inner.message().starts_with("unknown field");
            ScenarioError {
                source: self.name.clone(),
                line: inner.span().map(|span| self.line_at(span.start)),
                key: (path != "." && !unknown).then_some(path),
                problem: one_line(inner.message()).replacen("unknown field", "unknown key", 1),
            }
        })
    }

    /// An error about `key`, at the line where the file has it.
    pub(super) fn error_at(&self, key: &str, problem: String) -> ScenarioError {
        let line = self.offset_of(key).map(|offset| self.line_at(offset));
        ScenarioError { source: self.name.clone(), line, key: Some(key.to_owned()), problem }
    }

    fn syntax_error(&self, error: &toml::de::Error) -> ScenarioError {
        let line = error.span().map(|span| self.line_at(span.start));
        ScenarioError { source: self.name.clone(), line, key: None, problem: one_line(error.message()) }
    }

    /// Where `key` stands in the file; else where its table does.
    fn offset_of(&self, key: &str) -> Option<usize> {
        let table = DeTable::parse(&self.text).ok()?;
        let mut here = table.get_ref();
        let mut offset = None;
        for part in key.split('.') {
            let Some((name, value)) = here.get_key_value(part) else { break };
            offset = Some(name.span().start);
            match value.get_ref() {
                DeValue::Table(inner) => here = inner,
                _ => break,
            }
        }
        offset
    }

    fn line_at(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }
}

/// Puts what `table` does not say as `defaults` have it.
fn complete<'t>(table: &mut DeTable<'t>, defaults: &DeTable<'t>, path: &str) {
    for (key, default) in defaults {
        let here = format!("{path}{}", key.get_ref());
        match (table.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut), default.get_ref()) {
            (None, _) => _ = table.insert(key.clone(), default.clone()),
            (Some(DeValue::Table(inner)), DeValue::Table(defaults)) if !WHOLE.contains(&here.as_str()) => {
                complete(inner, defaults, &format!("{here}."));
            }
            _ => {}
        }
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for ScenarioError {}
