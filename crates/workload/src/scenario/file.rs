//! Scenario files: TOML, completed by the default scenario, with errors that name the line and the key.

use std::{fmt, fs, io, path::PathBuf};

use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};

use super::{
    DEFAULT, Distribution, Population, Scenario,
    reference::{Key, key_at},
    wording::plain,
};

/// What the default scenario is called.
const DEFAULT_NAME: &str = "l0-sequence-stress";

/// The tables that a file gives as a whole: a pattern that it does not name is not drawn.
const WHOLE: [&str; 2] = ["patterns.common", "patterns.rare"];

/// The tables that a population may have of its own; for what it leaves out those of the file are its, too.
const OF_A_POPULATION: [&str; 8] = ["load", "contexts", "patterns", "length", "values", "sending", "think", "network"];

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

impl ScenarioError {
    /// An error about the scenario as a whole.
    pub(super) fn of(source: String, problem: String) -> Self {
        Self { source, line: None, key: None, problem }
    }
}

impl Source {
    /// The scenario that is compiled in.
    pub fn default_scenario() -> Self {
        Self::from_text(DEFAULT_NAME, DEFAULT)
    }

    /// A scenario in memory.
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
                let is_no_text = error.kind() == io::ErrorKind::InvalidData;
                let why = if is_no_text { "it is not UTF-8 text".to_owned() } else { error.to_string() };
                Err(ScenarioError::of(name, format!("cannot read the scenario: {why}")))
            }
        }
    }

    /// The scenario's name, as messages have it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is a file, and not compiled in.
    pub fn is_a_file(&self) -> bool {
        self.path.is_some()
    }

    /// What `--scenario` has to say for it; none where it has to say nothing.
    pub fn argument(&self) -> Option<String> {
        let path = self.path.as_ref().map(|path| path.display().to_string());
        path.or_else(|| (self.name != DEFAULT_NAME).then(|| self.name.clone()))
    }

    pub(super) fn parse(&self) -> Result<Scenario, ScenarioError> {
        let defaults = DeTable::parse(DEFAULT).expect("the compiled-in scenario is TOML, as the tests show");
        let mut table = DeTable::parse(&self.text).map_err(|error| self.syntax_error(&error))?;
        let populations = table.get_ref().get("population").and_then(|all| all.get_ref().as_array());
        if populations.is_some_and(|all| all.is_empty()) {
            let problem = "the list is empty: leave it out, or give [[population]]";
            return Err(self.error_at("population", problem.to_owned()));
        }
        send_to_replicas(table.get_mut());
        complete(table.get_mut(), defaults.get_ref(), "");
        hand_down(table.get_mut());
        serde_path_to_error::deserialize(Deserializer::from(table)).map_err(|error| {
            // Where the value of a key is not read to its end its path ends in doubt.
            let path = error.path().to_string().trim_end_matches(".?").to_owned();
            let inner = error.into_inner();
            let unknown = inner.message().starts_with("unknown field");
            let key = if unknown { inner.span().and_then(|span| self.table_at(span.start)) } else { Some(path) };
            let key = key.filter(|key| key != ".");
            // A value of several tables is found by its key more exactly than by its span.
            let of_the_key = key.as_deref().filter(|_| !unknown).and_then(|key| self.offset_of(key));
            let offset = of_the_key.or(inner.span().map(|span| span.start));
            ScenarioError {
                source: self.name.clone(),
                line: offset.map(|offset| self.line_at(offset)),
                problem: without_secrets(key.as_deref(), within_the_range_of(key.as_deref(), plain(inner.message()))),
                key,
            }
        })
    }

    /// A table of patterns in the file of which nothing can be drawn, because nobody who may use it has such contexts.
    pub(super) fn patterns_in_vain(&self, scenario: &Scenario) -> Option<String> {
        let table: toml::Table = self.text.parse().ok()?;
        let is_drawn = |population: &Population, name: &str| {
            let used = population.contexts.used();
            if name == "common" { used.common } else { used.rare }
        };
        let has = |table: &toml::Table, name| table.get("patterns").and_then(|its| its.get(name)).is_some();
        let own = table.get("population").and_then(|all| all.as_array()).map_or(&[][..], Vec::as_slice);
        ["common", "rare"].into_iter().find_map(|name| {
            if has(&table, name) && !scenario.populations.iter().any(|population| is_drawn(population, name)) {
                return Some(format!("patterns.{name}"));
            }
            let is_in_vain = |(its, population): (&toml::Value, &Population)| {
                its.as_table().is_some_and(|its| has(its, name)) && !is_drawn(population, name)
            };
            let index = own.iter().zip(&scenario.populations).position(is_in_vain)?;
            Some(format!("population[{index}].patterns.{name}"))
        })
    }

    /// An error about `key`, at the line where the file has it.
    pub(super) fn error_at(&self, key: &str, problem: String) -> ScenarioError {
        let line = self.offset_of(key).map(|offset| self.line_at(offset));
        ScenarioError { source: self.name.clone(), line, key: Some(key.to_owned()), problem }
    }

    fn syntax_error(&self, error: &toml::de::Error) -> ScenarioError {
        let line = error.span().map(|span| self.line_at(span.start));
        let problem = format!("it is not TOML: {}", plain(error.message()));
        ScenarioError { source: self.name.clone(), line, key: None, problem }
    }

    /// Where `key` stands in the file; else where its table does.
    fn offset_of(&self, key: &str) -> Option<usize> {
        let table = DeTable::parse(&self.text).ok()?;
        let of_a_list = key.split_once('[').and_then(|(list, rest)| Some((list, rest.split_once("].")?)));
        let Some((list, (index, rest))) = of_a_list else { return offset_in(table.get_ref(), key) };
        let DeValue::Array(all) = table.get_ref().get(list)?.get_ref() else { return None };
        let one = all.get(index.parse::<usize>().ok()?)?;
        let DeValue::Table(its) = one.get_ref() else { return None };
        // What a population does not say stands at the top.
        offset_in(its, rest).or_else(|| offset_in(table.get_ref(), rest)).or(Some(one.span().start))
    }

    /// The table in which the key is that stands there; none at the top.
    fn table_at(&self, offset: usize) -> Option<String> {
        let table = DeTable::parse(&self.text).ok()?;
        table_of(table.get_ref(), "", offset).filter(|path| !path.is_empty())
    }

    fn line_at(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }
}

/// Where a key stands in a table, as far as the table has it.
fn offset_in(table: &DeTable, key: &str) -> Option<usize> {
    let (mut here, mut offset) = (table, None);
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

/// What is said of a key whose values are secrets: what it has to be, and not what it is.
fn without_secrets(key: Option<&str>, problem: String) -> String {
    let is_secret = key.is_some_and(|key| key.starts_with("target.headers"));
    match problem.split_once(", and is ") {
        Some((wanted, _)) if is_secret => wanted.to_owned(),
        _ => problem,
    }
}

/// What is said of a number of which its type allows more than its key does.
fn within_the_range_of(key: Option<&str>, problem: String) -> String {
    let takes = key.and_then(key_at).map_or_else(String::new, Key::takes);
    let is_range =
        takes.split_once(" to ").is_some_and(|(from, to)| from.parse::<u64>().is_ok() && to.parse::<u64>().is_ok());
    match problem.strip_prefix("it has to be a whole number from ").and_then(|rest| rest.split_once(", and is ")) {
        Some((_, seen)) if is_range => format!("it has to be a whole number from {takes}, and is {seen}"),
        _ => problem,
    }
}

/// The path of the table in which a key stands at an offset.
fn table_of(table: &DeTable, path: &str, offset: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        if key.span().start == offset {
            return Some(path.to_owned());
        }
        let here = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        match value.get_ref() {
            DeValue::Table(inner) => table_of(inner, &here, offset),
            DeValue::Array(all) => all.iter().enumerate().find_map(|(index, one)| match one.get_ref() {
                DeValue::Table(inner) => table_of(inner, &format!("{here}[{index}]"), offset),
                _ => None,
            }),
            _ => None,
        }
    })
}

/// Has servers that are named without an endpoint get the load themselves.
fn send_to_replicas(table: &mut DeTable) {
    let Some(DeValue::Table(target)) = table.get_mut("target").map(Spanned::get_mut) else { return };
    let Some((key, replicas)) = target.get_key_value("replicas") else { return };
    if target.contains_key("endpoint") {
        return;
    }
    let (key, replicas) = (Spanned::new(key.span(), "endpoint".into()), replicas.clone());
    target.insert(key, replicas);
}

/// Gives each population what it does not say itself.
fn hand_down(table: &mut DeTable) {
    if !table.contains_key("population") {
        return;
    }
    let mut common = DeTable::new();
    for key in OF_A_POPULATION {
        common.extend(table.remove_entry(key));
    }
    let all = table.get_mut("population").map(Spanned::get_mut);
    let Some(DeValue::Array(populations)) = all else { return };
    for population in populations.iter_mut() {
        if let DeValue::Table(population) = population.get_mut() {
            complete(population, &common, "");
        }
    }
}

/// Puts what `table` does not say as `defaults` have it. Of several ways to draw a number a table has one.
fn complete<'t>(table: &mut DeTable<'t>, defaults: &DeTable<'t>, path: &str) {
    let says_how = Distribution::KEYS.iter().any(|key| table.contains_key(*key));
    for (key, default) in defaults {
        if says_how
            && Distribution::KEYS.contains(&key.get_ref().as_ref())
            && !table.contains_key(key.get_ref().as_ref())
        {
            continue;
        }
        // Who says for how long does not mean so many iterations at most besides.
        if key.get_ref() == "iterations" && table.contains_key("duration_s") {
            continue;
        }
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

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.problem)?;
        let known = self.key.as_deref().and_then(key_at);
        known.map_or(Ok(()), |key| write!(f, " ({} takes {}: {})", key.path, key.takes(), key.what))
    }
}

impl std::error::Error for ScenarioError {}
