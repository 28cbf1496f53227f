//! What serde says of a value, in the words of who wrote the file.

use crate::wording::meant;

/// What a number has to be, by the name of its type.
const NUMBERS: [(&str, &str); 9] = [
    ("u32", "a whole number from 0 to 4294967295"),
    ("a nonzero u32", "a whole number from 1 to 4294967295"),
    ("u64", "a whole number from 0 up"),
    ("a nonzero u64", "a whole number from 1 up"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
    ("i64", "a whole number"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a string", "a text in quotes"),
];

/// A table of more keys is not listed in an error.
const KEYS_LISTED: usize = 8;

/// An error as serde words it, in words that need no Rust.
pub fn plain(message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    if let Some((name, known)) = message.strip_prefix("unknown field ").and_then(|rest| rest.split_once(", ")) {
        let name = name.trim_matches('`');
        // serde lists the keys between backticks.
        let known: Vec<_> = known.split('`').skip(1).step_by(2).collect();
        let list = match known.len() {
            0..=KEYS_LISTED => format!("the keys are {}", known.join(", ")),
            _ => "`sequence-stress scenarios --keys` lists the keys".to_owned(),
        };
        return format!("there is no key '{name}' here; {}", meant(name, known.iter().copied(), &list));
    }
    if message == "wanted string or table" {
        return "it has to be a text in quotes".to_owned();
    }
    // A list is taken for a table whose keys are left out.
    if message.starts_with("invalid length") && message.contains("struct ") {
        return "it has to be a table, and is a list".to_owned();
    }
    let wrong_value = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "));
    let split = |text: &str| text.rsplit_once(", expected ").map(|(seen, wanted)| (seen.to_owned(), wanted.to_owned()));
    if let Some((seen, wanted)) = wrong_value.and_then(split) {
        return format!("it has to be {}, and is {}", expected(&wanted), found(&seen));
    }
    if let Some((seen, wanted)) = message.strip_prefix("unknown variant ").and_then(split) {
        return format!("it has to be {wanted}, and is {seen}");
    }
    message
}

fn expected(wanted: &str) -> &str {
    let known = NUMBERS.iter().find(|(name, _)| *name == wanted).map(|(_, words)| *words);
    known.unwrap_or(match wanted {
        "a map" => "a table",
        "a sequence" => "a list",
        _ if wanted.starts_with("struct ") => "a table",
        _ => wanted,
    })
}

/// A value as it stands in the file.
fn found(seen: &str) -> &str {
    if let Some(text) = seen.strip_prefix("string ") {
        return text;
    }
    match seen {
        "map" => "a table",
        "sequence" => "a list",
        // The kind of number stands before it, and behind it the type that holds one so large.
        _ => seen.find('`').zip(seen.rfind('`')).map_or(seen, |(from, to)| &seen[from..=to]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_needs_to_know_what_a_u32_is() {
        for (said, words) in [
            (
                "invalid value: integer `0`, expected a nonzero u32",
                "it has to be a whole number from 1 to 4294967295, and is `0`",
            ),
            ("invalid type: floating point `1.5`, expected u64", "it has to be a whole number from 0 up, and is `1.5`"),
            (
                "invalid type: string \"a, expected b\", expected a boolean",
                "it has to be true or false, and is \"a, expected b\"",
            ),
            (
                "invalid type: integer `99999999999999999999` as i128, expected u64",
                "it has to be a whole number from 0 up, and is `99999999999999999999`",
            ),
            ("invalid length 0, expected struct Load with 3 elements", "it has to be a table, and is a list"),
            ("invalid type: boolean `true`, expected f64", "it has to be a number, and is `true`"),
            ("invalid type: map, expected a string", "it has to be a text in quotes, and is a table"),
            ("invalid type: sequence, expected struct Load", "it has to be a table, and is a list"),
            ("unknown variant `x`, expected `a` or `b`", "it has to be `a` or `b`, and is `x`"),
            ("unknown variant `x`, expected one of `a`, `b`", "it has to be one of `a`, `b`, and is `x`"),
            ("missing field `mean`", "the key `mean` is missing"),
            ("unknown field `x`, expected `a`", "there is no key 'x' here; the keys are a"),
            ("-1 is no weight: it has to be a number from 0 up", "-1 is no weight: it has to be a number from 0 up"),
        ] {
            assert_eq!(plain(said), words);
        }
    }
}
