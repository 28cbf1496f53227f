//! Parts of a script, of which only the lines that a script needs are written.

use std::collections::{BTreeMap, BTreeSet};

/// What a script needs, by name.
pub(super) type Needs = BTreeSet<&'static str>;
/// What stands in the place of `{{name}}`.
pub(super) type Values = BTreeMap<&'static str, String>;

/// Begins the condition of a line. On a line of its own it begins that of a block, which a mark without a condition ends.
const MARK: &str = "#?";

/// The lines of a part that a script needs. A condition is a list of needs; one with `!` must not be there.
pub(super) fn render(part: &str, needs: &Needs, values: &Values) -> String {
    let holds = |condition: &str| {
        condition.split_whitespace().all(|word| match word.strip_prefix('!') {
            Some(word) => !needs.contains(word),
            None => needs.contains(word),
        })
    };
    let mut text = String::new();
    let mut blocks = Vec::new();
    for line in part.lines() {
        match line.strip_prefix(MARK) {
            Some("") => {
                blocks.pop();
                continue;
            }
            Some(condition) => {
                blocks.push(holds(condition));
                continue;
            }
            None => {}
        }
        let (line, condition) = line.split_once(MARK).unwrap_or((line, ""));
        if blocks.iter().all(|is_shown| *is_shown) && holds(condition) {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    values.iter().fold(text, |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
}

/// The text with two blank lines around what begins at the left margin of a block, and one elsewhere.
pub(super) fn spaced(text: &str) -> String {
    let mut spaced = String::new();
    let (mut blank, mut before) = (0, "");
    for line in text.lines() {
        if line.is_empty() {
            blank += 1;
            continue;
        }
        let is_definition = ["def ", "class "].iter().any(|word| line.starts_with(word));
        let ends_block = before.starts_with(' ') && !line.starts_with(' ') && blank > 0;
        let blank_lines = if !before.is_empty() && (is_definition || ends_block) { 2 } else { blank.min(1) };
        spaced.push_str(&"\n".repeat(blank_lines));
        spaced.push_str(line);
        spaced.push('\n');
        (blank, before) = (0, line);
    }
    spaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_written() {
        let part = "a\nb {{x}}  #? one\nc  #? !one\n#? one\n#? two\nd\n#?\n#?\ne\n";
        let values = Values::from([("x", "y".to_owned())]);
        assert_eq!(render(part, &Needs::from(["one"]), &values), "a\nb y\ne\n");
        assert_eq!(render(part, &Needs::from(["one", "two"]), &values), "a\nb y\nd\ne\n");
        assert_eq!(render(part, &Needs::new(), &values), "a\nc\ne\n");
    }

    #[test]
    fn definitions_stand_apart() {
        let text = "x = 1\ndef f():\n    a\n\n\n    b\ndef g():\n    c\n\nx\n\n\n\ny\n";
        let expected = "x = 1\n\n\ndef f():\n    a\n\n    b\n\n\ndef g():\n    c\n\n\nx\n\ny\n";
        assert_eq!(spaced(text), expected);
    }
}
