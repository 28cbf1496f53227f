//! What is wrong with a command line, in one line.

use clap::error::{ContextKind, ContextValue, Error};
use workload::wording::nearest;

use super::Cli;

/// What is wrong with the command line, what may have been meant, and where to read on.
pub fn problem(error: &Error) -> String {
    if let Some(word) = no_endpoint(error) {
        let command = Cli::whole_command();
        let names = command.get_subcommands().map(clap::Command::get_name);
        let meant = nearest(&word, names).map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
        return format!("'{word}' is neither a subcommand nor an endpoint such as HOST:PORT{meant}");
    }
    let text = error.to_string();
    // clap adds its tips, the usage and a hint in paragraphs of their own.
    let first: Vec<_> = text
        .lines()
        .take_while(|line| {
            !line.trim_start().starts_with("tip:") && !line.starts_with("Usage:") && !line.starts_with("For more")
        })
        .collect();
    let said = first.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let said = said.trim_start_matches("error: ");
    match suggestion(error) {
        Some(meant) => format!("{said}; did you mean '{meant}'?"),
        None if said.ends_with('?') => said.to_owned(),
        None => format!("{said}; see --help"),
    }
}

/// The first word, where it was taken for an endpoint and is none.
fn no_endpoint(error: &Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let word = text(ContextKind::InvalidValue)?;
    let is_one_word = !word.contains([':', '/', '.']);
    (is_one_word && text(ContextKind::InvalidArg)?.contains("ENDPOINT]")).then_some(word)
}

/// What the user may have meant.
fn suggestion(error: &Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> String {
        let words = ["sequence-stress"].iter().chain(words);
        problem(&Cli::whole_command().try_get_matches_from(words).expect_err("it is wrong"))
    }

    #[test]
    fn a_wrong_word_is_told_in_one_line_with_what_may_be_meant() {
        for (words, expected) in [
            (vec!["serv"], "'serv' is neither a subcommand nor an endpoint such as HOST:PORT; did you mean 'serve'?"),
            (vec!["xyzzy"], "'xyzzy' is neither a subcommand nor an endpoint such as HOST:PORT"),
            (vec!["--embeded"], "unexpected argument '--embeded' found; did you mean '--embedded'?"),
            (
                vec!["-t", "0"],
                "invalid value '0' for '--concurrency <N>': give a whole number from 1 to 100000; see --help",
            ),
            (
                vec!["suite", "--strategy", "oldst"],
                "invalid value 'oldst' for '--strategy <STRATEGY>' [possible values: direct, oldest]; did you mean 'oldest'?",
            ),
        ] {
            assert_eq!(of(&words), expected);
        }
    }
}
