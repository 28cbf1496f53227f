//! How messages name numbers and what was meant.

/// A number and what it counts.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ if noun.ends_with('s') => format!("{count} {noun}es"),
        _ => format!("{count} {noun}s"),
    }
}

/// A text as lines of at most so many columns; a word that is longer has a line of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Names that are less alike than this are no misspelling of each other.
const ALIKE: f64 = 0.75;

/// The name that is most like a misspelt word; none where no name is like it.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let word = word.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&word, &name.to_lowercase());
    let scored = names.into_iter().map(|name| (likeness(name), name)).filter(|(score, _)| *score >= ALIKE);
    scored.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, name)| name)
}

/// The end of a message about a word that is none of `names`: what may be meant, or where to find them.
pub fn meant<'n>(word: &str, names: impl IntoIterator<Item = &'n str>, list: &str) -> String {
    match nearest(word, names) {
        Some(name) => format!("did you mean '{name}'?"),
        None => list.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_leads_to_the_nearest() {
        let names = ["ordering", "backlog", "custom_sequence_int32"];
        for (word, expected) in [
            ("oredring", Some("ordering")),
            ("backlogs", Some("backlog")),
            ("Custom_Sequence_int32", Some("custom_sequence_int32")),
            ("zzz", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
    }
}
