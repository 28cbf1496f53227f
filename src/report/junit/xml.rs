//! Test suites as the XML that CI systems read.
//!
//! There is no one schema of this form. Everything here is in `junit-10.xsd` of the xunit plugin of Jenkins, by which that plugin rejects
//! files, and in what GitLab reads.

use std::io;

use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
    writer::ElementWriter,
};

/// A suite of cases: a run, or the trials of a search.
pub(super) struct Suite {
    pub(super) name: String,
    /// When it began, in UTC.
    pub(super) timestamp: Option<String>,
    /// The machine of the client.
    pub(super) hostname: Option<String>,
    pub(super) seconds: f64,
    /// What helps to have it again.
    pub(super) properties: Vec<(&'static str, String)>,
    pub(super) cases: Vec<Case>,
}

/// Something that was checked.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) came: Came,
    /// How long it took, where it has a time of its own.
    pub(super) seconds: Option<f64>,
    /// What people may want to read of it.
    pub(super) says: Option<String>,
}

/// What a case came to.
pub(super) enum Came {
    Passed,
    Failed(Problem),
    /// It cannot be said whether it passed.
    Error(Problem),
    /// It was not checked, for this reason.
    Skipped(String),
}

/// Why a case did not pass.
pub(super) struct Problem {
    /// What sort of problem it is, in a word.
    pub(super) kind: &'static str,
    /// The problem in a line.
    pub(super) message: String,
    /// All that people need of it.
    pub(super) body: String,
}

/// The suites as a document. `seconds` is how long all took together.
pub(super) fn document(suites: &[Suite], seconds: f64) -> Vec<u8> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    write(suites, seconds, &mut writer).expect("memory takes everything");
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    bytes
}

type Out = Writer<Vec<u8>>;

fn write(suites: &[Suite], seconds: f64, out: &mut Out) -> io::Result<()> {
    out.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let cases = || suites.iter().flat_map(|suite| &suite.cases);
    let root = element(out, "testsuites", &[("name", "sequence-stress")]);
    let root = counted(root, cases().count(), cases()).with_attribute(("time", time(seconds).as_str()));
    root.write_inner_content(|out| suites.iter().try_for_each(|suite| write_suite(suite, out)))?;
    Ok(())
}

fn write_suite(suite: &Suite, out: &mut Out) -> io::Result<()> {
    let Suite { name, timestamp, hostname, seconds, properties, cases } = suite;
    let skipped = cases.iter().filter(|case| matches!(case.came, Came::Skipped(_))).count();
    let mut tag = counted(element(out, "testsuite", &[("name", name)]), cases.len(), cases.iter());
    tag = tag.with_attribute(("skipped", skipped.to_string().as_str()));
    tag = tag.with_attribute(("time", time(*seconds).as_str()));
    for (attribute, value) in [("timestamp", timestamp), ("hostname", hostname)] {
        if let Some(value) = value {
            tag = tag.with_attribute((attribute, line(value).as_str()));
        }
    }
    tag.write_inner_content(|out| {
        if !properties.is_empty() {
            out.create_element("properties").write_inner_content(|out| {
                let property = |(name, value): &(&str, String)| {
                    element(out, "property", &[("name", name), ("value", value)]).write_empty().map(drop)
                };
                properties.iter().try_for_each(property)
            })?;
        }
        cases.iter().try_for_each(|case| write_case(&suite.name, case, out))
    })?;
    Ok(())
}

fn write_case(suite: &str, Case { name, came, seconds, says }: &Case, out: &mut Out) -> io::Result<()> {
    // GitLab takes cases of one class and one name for the same case. To Jenkins the part before the last dot is a package.
    let stem = suite.rsplit(['/', '\\']).next().unwrap_or(suite).replace(".toml", "").replace('.', "_");
    let class = format!("sequence-stress.{stem}");
    let mut tag = element(out, "testcase", &[("classname", &class), ("name", name)]);
    if let Some(seconds) = seconds {
        tag = tag.with_attribute(("time", time(*seconds).as_str()));
    }
    if matches!(came, Came::Passed) && says.is_none() {
        tag.write_empty()?;
        return Ok(());
    }
    tag.write_inner_content(|out| {
        match came {
            Came::Passed => {}
            Came::Failed(problem) => write_problem("failure", problem, out)?,
            Came::Error(problem) => write_problem("error", problem, out)?,
            // Jenkins shows the attribute, and GitLab the text.
            Came::Skipped(why) => {
                element(out, "skipped", &[("message", why)]).write_text_content(BytesText::new(&text(why)))?;
            }
        }
        if let Some(says) = says {
            out.create_element("system-out").write_text_content(BytesText::new(&text(says)))?;
        }
        Ok(())
    })?;
    Ok(())
}

fn write_problem(tag: &str, Problem { kind, message, body }: &Problem, out: &mut Out) -> io::Result<()> {
    let tag = element(out, tag, &[("type", kind), ("message", message)]);
    // GitLab shows the text alone.
    tag.write_text_content(BytesText::new(&text(body)))?;
    Ok(())
}

/// An element with these attributes, each a line.
fn element<'o>(out: &'o mut Out, name: &'o str, attributes: &[(&str, &str)]) -> ElementWriter<'o, Vec<u8>> {
    let start = out.create_element(name);
    attributes.iter().fold(start, |tag, (name, value)| tag.with_attribute((*name, line(value).as_str())))
}

fn counted<'o, 'c>(
    tag: ElementWriter<'o, Vec<u8>>,
    all: usize,
    cases: impl Iterator<Item = &'c Case>,
) -> ElementWriter<'o, Vec<u8>> {
    let (mut failures, mut errors) = (0, 0);
    for case in cases {
        failures += usize::from(matches!(case.came, Came::Failed(_)));
        errors += usize::from(matches!(case.came, Came::Error(_)));
    }
    let numbers = [("tests", all), ("failures", failures), ("errors", errors)];
    numbers.into_iter().fold(tag, |tag, (name, number)| tag.with_attribute((name, number.to_string().as_str())))
}

fn time(seconds: f64) -> String {
    format!("{:.3}", if seconds.is_finite() { seconds.max(0.0) } else { 0.0 })
}

/// What no XML 1.0 document may have, not even as a reference.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// A text that XML can have. A parser would turn a carriage return into a line feed, and C1 controls do things to a terminal.
fn text(text: &str) -> String {
    let allowed = |c: char| if is_forbidden(c) || (c.is_control() && c != '\n' && c != '\t') { '\u{fffd}' } else { c };
    text.chars().map(allowed).collect()
}

/// A text as an attribute can have it: a parser would turn line feeds and tabs into spaces.
fn line(line: &str) -> String {
    text(line).replace(['\n', '\t'], " ")
}
