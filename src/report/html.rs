//! Results as a page that a browser shows: one file with everything in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use serde::Serialize;
use serde_json::Value;

use super::{
    SCHEMA_VERSION, Summary,
    explain::{cause_explained, explained_names, kind_explained},
    json,
};

/// The page without data. `page/` has its source; `scripts/page build` makes it.
const PAGE: &str = include_str!("../../page/report.html");
/// Where the data goes.
const BEFORE: &str = "<script type=\"application/json\" id=\"report-data\">";
const BEHIND: &str = "</script>";
/// The lanes of several runs take at most so many bytes of a page.
const LANES_MAX: usize = 8 << 20;
const NO_ROOM: &str = "the page has no room for the slots of this run: make a page of its history alone";

/// A result in a report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Part {
    /// Its file's name, or the scenario's.
    pub(crate) name: String,
    /// The result as `--json` writes it.
    pub(crate) document: Value,
    /// Who had which slot when, packed: of a run, of each scenario of a suite, and of each finding of a hunt; none where no history tells.
    pub(crate) lanes: Vec<Option<String>>,
    /// Why there are no lanes, or why they are not whole.
    pub(crate) lanes_note: Option<String>,
    /// The same for each of several runs, where each has its own reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) lanes_notes: Vec<Option<String>>,
}

/// Who had which slot when in a run.
#[derive(Clone, Debug, Default)]
pub struct Pictured {
    /// Packed ([`LaneData::packed`](crate::lanes::LaneData::packed)); none where no history tells.
    pub(crate) lanes: Option<String>,
    /// Why there are none, or why they are not whole.
    pub(crate) note: Option<String>,
}

impl Part {
    /// A run.
    pub(crate) fn of_run(summary: &Summary, pictured: &Pictured) -> Self {
        let mut part = Self::of(summary.scenario_name.clone(), json::to_value(summary));
        part.picture(pictured);
        part
    }

    /// What a file has of a run, a suite, a search, a hunt or a comparison.
    pub(crate) fn of(name: String, document: Value) -> Self {
        Self { name, document, lanes: Vec::new(), lanes_note: None, lanes_notes: Vec::new() }
    }

    /// Adds who had which slot when.
    pub(crate) fn picture(&mut self, pictured: &Pictured) {
        self.lanes = vec![pictured.lanes.clone()];
        self.lanes_note.clone_from(&pictured.note);
    }

    /// Adds who had which slot when in each of several runs, as far as there is room for them: first in those that are marked.
    pub(crate) fn picture_each(&mut self, pictured: impl IntoIterator<Item = (bool, Pictured)>) {
        let (comes_first, pictured): (Vec<_>, Vec<_>) = pictured.into_iter().unzip();
        let mut places: Vec<_> = (0..pictured.len()).collect();
        places.sort_by_key(|place| !comes_first[*place]);
        let mut room = LANES_MAX;
        let mut has_room = vec![true; pictured.len()];
        for place in places {
            let size = pictured[place].lanes.as_ref().map_or(0, String::len);
            match room.checked_sub(size) {
                Some(rest) => room = rest,
                None => has_room[place] = false,
            }
        }
        for (Pictured { lanes, note }, has_room) in pictured.into_iter().zip(has_room) {
            self.lanes.push(lanes.filter(|_| has_room));
            self.lanes_notes.push(if has_room { note } else { Some(NO_ROOM.to_owned()) });
        }
    }
}

/// A suite as a page, with who had which slot when in each of its scenarios; those that are marked come first.
pub(super) fn of_suite(document: &impl Serialize, pictured: impl IntoIterator<Item = (bool, Pictured)>) -> Vec<u8> {
    let mut part = Part::of("suite".to_owned(), serde_json::to_value(document).expect("the keys are texts"));
    part.picture_each(pictured);
    to_html(&[part], Ok(None))
}

/// A search as a page.
pub(super) fn of_search(name: &str, document: &impl Serialize) -> Vec<u8> {
    let note =
        "a search keeps no history, because that costs the client time: add --html to the command that replays the run";
    let mut part = Part::of(name.to_owned(), serde_json::to_value(document).expect("the keys are texts"));
    part.lanes_note = Some(note.to_owned());
    to_html(&[part], Ok(None))
}

/// A run as a page.
pub(super) fn of_run(summary: &Summary, pictured: &Pictured) -> Vec<u8> {
    to_html(&[Part::of_run(summary, pictured)], Ok(None))
}

/// What the page's script reads.
#[derive(Serialize)]
struct Data<'p> {
    form: u32,
    schema_version: u32,
    tool_version: &'static str,
    /// In UTC.
    made_at: String,
    results: &'p [Part],
    comparison: Option<&'p Value>,
    /// Why runs are not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison_note: Option<&'p str>,
    /// What the documentation says of the kinds of violations and the causes that occur.
    kinds: BTreeMap<String, Explained>,
    causes: BTreeMap<String, Explained>,
}

#[derive(Serialize)]
struct Explained {
    what: &'static str,
    text: String,
}

/// The page with these results, and with what `compare --json` writes of them, or why they are not compared.
pub(crate) fn to_html(results: &[Part], comparison: Result<Option<&Value>, &str>) -> Vec<u8> {
    let mut names = Names::default();
    for part in results {
        names.of(&part.document);
    }
    let [kinds, causes] = explained_names();
    let data = Data {
        form: 1,
        schema_version: SCHEMA_VERSION,
        tool_version: env!("CARGO_PKG_VERSION"),
        made_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        results,
        comparison: comparison.ok().flatten(),
        comparison_note: comparison.err(),
        kinds: explained(names.kinds, &kinds.1, kind_explained),
        causes: explained(names.causes, &causes.1, cause_explained),
    };
    let data = serde_json::to_string(&data).expect("the keys are texts");
    let (before, rest) = PAGE.split_once(BEFORE).expect("the page has a place for its data");
    let behind = &rest[rest.find(BEHIND).expect("the place ends")..];
    [before, BEFORE, &inert(&data), behind].concat().into_bytes()
}

/// What the documentation says of these names. A file may have names of another version, of which it says nothing.
fn explained(
    names: BTreeSet<String>,
    all: &[(&'static str, &'static str)],
    text: fn(&str) -> Option<String>,
) -> BTreeMap<String, Explained> {
    let explained = |name: String| {
        let (_, what) = all.iter().find(|(its, _)| *its == name)?;
        let text = text(&name)?;
        Some((name, Explained { what, text }))
    };
    names.into_iter().filter_map(explained).collect()
}

/// JSON in which nothing ends the element around it, or is anything but text to a reader of HTML or of scripts.
fn inert(json: &str) -> String {
    let mut inert = String::with_capacity(json.len());
    // Outside of texts JSON has none of these.
    for c in json.chars() {
        match c {
            '<' => inert.push_str("\\u003c"),
            '>' => inert.push_str("\\u003e"),
            '&' => inert.push_str("\\u0026"),
            '\u{2028}' => inert.push_str("\\u2028"),
            '\u{2029}' => inert.push_str("\\u2029"),
            c => inert.push(c),
        }
    }
    inert
}

/// The kinds and causes that occur in results.
#[derive(Default)]
struct Names {
    kinds: BTreeSet<String>,
    causes: BTreeSet<String>,
}

impl Names {
    fn of(&mut self, document: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        for violation in items(document.get("violations")) {
            self.kinds.extend(violation.get("kind").and_then(text));
            let causes = items(violation.get("explanations")).filter_map(|its| its.get("cause").and_then(text));
            self.causes.extend(causes);
        }
        items(document.get("scenarios")).filter_map(|row| row.get("result")).for_each(|result| self.of(result));
        for finding in items(document.get("findings")) {
            self.kinds.extend(finding.get("kind").and_then(text));
            self.causes.extend(finding.get("cause").and_then(text));
            finding.get("result").into_iter().for_each(|result| self.of(result));
        }
        if let Some(run) = document.get("violation") {
            self.of(run);
        }
    }
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests;
