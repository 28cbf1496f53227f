//! What the documentation says of each kind of violation and each cause.

use std::{collections::HashMap, sync::LazyLock};

use oracle::{ViolationKind, diagnosis::Cause};
use workload::wording::wrapped;

const COLUMNS: usize = 80;
/// The page with a section for each kind of violation.
const KINDS: &str = include_str!("../../docs/VIOLATIONS.md");
/// The pages with a section for each cause.
const CAUSES: [&str; 3] = [
    include_str!("../../docs/CAUSES.md"),
    include_str!("../../docs/CAUSES-RESPONSES.md"),
    include_str!("../../docs/CAUSES-SERVER.md"),
];

/// The text of each section by its name.
static EXPLAINED: LazyLock<HashMap<&str, String>> = LazyLock::new(|| {
    let mut explained: HashMap<_, String> = HashMap::new();
    for (name, text) in [KINDS].into_iter().chain(CAUSES).flat_map(sections) {
        let known = explained.entry(name).or_default();
        if !known.is_empty() {
            known.push_str("\n\n");
        }
        known.push_str(&laid_out(&plain(text), COLUMNS));
    }
    explained
});

/// The documentation's section on a kind of violation, for any width: a line for each item, and an empty line between paragraphs.
pub(super) fn kind_explained(kind: &str) -> Option<String> {
    explained_in(&[KINDS], kind)
}

/// The same of a cause.
pub(super) fn cause_explained(cause: &str) -> Option<String> {
    explained_in(&CAUSES, cause)
}

fn explained_in(pages: &[&'static str], name: &str) -> Option<String> {
    let (_, text) = pages.iter().copied().flat_map(sections).find(|(its, _)| *its == name)?;
    let text = laid_out(&plain(text), usize::MAX);
    // Items stand together, and an empty line is between paragraphs.
    let is_item = |line: &str| line.starts_with("- ");
    let mut blocks = String::new();
    let mut before = "";
    for line in text.lines() {
        if !before.is_empty() {
            blocks.push_str(if is_item(before) && is_item(line) { "\n" } else { "\n\n" });
        }
        blocks.push_str(line);
        before = line;
    }
    Some(blocks)
}

/// The documentation's section on a kind of violation or a cause, for a terminal of 80 columns.
///
/// If a kind and a cause have one name, the text has both sections, first the kind's. `None` for any other name.
///
/// ```
/// let text = sequence_stress::report::explained("wrong-sum").expect("a kind of violation");
/// assert!(text.contains("Next step"));
/// ```
pub fn explained(name: &str) -> Option<&'static str> {
    EXPLAINED.get(name).map(String::as_str)
}

/// Names, each with a sentence that says what it is.
type Names = Vec<(&'static str, &'static str)>;

/// The names of the kinds of violations, and those of the causes.
pub fn explained_names() -> [(&'static str, Names); 2] {
    let kinds = ViolationKind::ALL.into_iter().map(|kind| (kind.name(), kind.what()));
    let causes = Cause::ALL.into_iter().map(|cause| (cause.name(), cause.what()));
    [("violations", kinds.collect()), ("causes", causes.collect())]
}

/// The heading and the text of each section of a page.
fn sections(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let sections = page.split("\n## ").skip(1);
    sections.filter_map(|section| section.split_once('\n')).map(|(name, text)| (name, text.trim()))
}

/// Markdown with the text of each link in place of the link.
fn plain(markdown: &str) -> String {
    let mut pieces = markdown.split("](");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        if let Some(bracket) = text.rfind('[') {
            text.remove(bracket);
        }
        text.push_str(piece.split_once(')').map_or(piece, |(_, rest)| rest));
    }
    text
}

/// Markdown in so many columns: each paragraph and each item anew in lines, without the signs for bold text.
fn laid_out(markdown: &str, columns: usize) -> String {
    let mut blocks: Vec<String> = Vec::new();
    let mut is_new = true;
    for line in markdown.lines() {
        if is_new || line.starts_with("- ") {
            blocks.push(String::new());
        }
        is_new = line.trim().is_empty();
        let block = blocks.last_mut().expect("the first line has begun one");
        block.push_str(line.trim());
        block.push(' ');
    }
    let lines = |block: &String| match block.strip_prefix("- ") {
        Some(item) => format!("- {}", wrapped(&item.replace("**", ""), columns - 2).join("\n  ")),
        None => wrapped(&block.replace("**", ""), columns).join("\n"),
    };
    blocks.iter().map(lines).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_and_each_cause_has_a_section_in_the_order_of_its_table() {
        let names = |page| sections(page).map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(KINDS), ViolationKind::NAMES);
        assert_eq!(CAUSES.map(names).concat(), Cause::NAMES);
    }

    #[test]
    fn each_section_says_what_is_meant_why_and_what_to_do() {
        let has = |text: &str, parts: [&str; 3]| parts.iter().all(|part| text.contains(&format!("- **{part}:** ")));
        for (name, text) in sections(KINDS) {
            assert!(has(text, ["Meaning", "Usual causes", "Next step"]), "{name}");
        }
        for (name, text) in CAUSES.into_iter().flat_map(sections) {
            assert!(has(text, ["Meaning", "Evidence", "Next step"]), "{name}");
        }
    }

    #[test]
    fn each_name_is_explained_without_links() {
        for (name, what) in explained_names().into_iter().flat_map(|(_, names)| names) {
            let text = explained(name).unwrap_or_else(|| panic!("{name} is not explained"));
            assert!(!text.contains("]("), "{name}: {text}");
            assert!(what.ends_with('.'), "{name}: {what}");
        }
        assert_eq!(explained("wrong"), None);
        let both = explained("slot-leak").expect("a kind and a cause");
        assert_eq!(both.matches("\n- Next step: ").count(), 2, "{both}");
        for (name, _) in explained_names().into_iter().flat_map(|(_, names)| names) {
            let text = explained(name).expect("each is explained");
            let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > COLUMNS).collect();
            assert!(wide.is_empty() && !text.contains("**"), "{name}: {wide:?}");
        }
    }

    #[test]
    fn links_become_their_texts() {
        assert_eq!(plain("[a](B.md#a), and [c](#c)."), "a, and c.");
        assert_eq!(plain("cases [0, 1] are left"), "cases [0, 1] are left");
    }
}
