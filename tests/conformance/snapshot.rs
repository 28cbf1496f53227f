//! What the real server said, as files, and the comparison with it.

use std::{env, fs, path::PathBuf};

use crate::conversation::Conversation;

/// The seed whose random conversations are kept.
pub(crate) const KEPT_SEED: u64 = 1;
const RELEASE: &str = "24.10";

/// The part of a name that `SEQUENCE_STRESS_CONVERSATION` restricts the conversations to.
pub(crate) fn only() -> Option<String> {
    env::var("SEQUENCE_STRESS_CONVERSATION").ok()
}

/// The seed of the random conversations.
pub(crate) fn seed() -> u64 {
    let named = env::var("SEQUENCE_STRESS_CONFORMANCE_SEED").ok();
    named.map_or(KEPT_SEED, |seed| seed.parse().expect("a seed is a whole number"))
}

/// Whether what the real server says now is to be kept.
pub(crate) fn are_to_be_written() -> bool {
    env::var("SEQUENCE_STRESS_CONFORMANCE").is_ok_and(|wish| wish == "write")
}

fn file(group: &str, name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/snapshots");
    folder.join(RELEASE).join(group).join(format!("{name}.txt"))
}

/// Keeps what the real server said.
pub(crate) fn write(group: &str, conversations: &[Conversation], said: &[String]) {
    for (conversation, transcript) in conversations.iter().zip(said) {
        let file = file(group, &conversation.name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder for snapshots");
        fs::write(file, transcript).expect("a snapshot");
    }
}

/// Compares what servers said with what is kept.
///
/// # Panics
/// Where anything differs: with the conversation, both transcripts and the first difference.
pub(crate) fn compare(group: &str, conversations: &[Conversation], servers: &[(&'static str, &Vec<String>)]) {
    let mut differences = Vec::new();
    for (index, conversation) in conversations.iter().enumerate() {
        let kept = match fs::read_to_string(file(group, &conversation.name)) {
            Ok(kept) => kept,
            // Of other seeds nothing is kept: then the servers are compared with the first of them.
            Err(_) if seed() != KEPT_SEED => servers[0].1[index].clone(),
            Err(_) => "nothing is kept\n".into(),
        };
        for (name, said) in servers {
            if only().is_some() {
                show(name, &said[index]);
            }
            if said[index] != kept {
                differences.push(difference(group, conversation, &kept, name, &said[index]));
            }
        }
    }
    assert!(differences.is_empty(), "{} of {group}:\n\n{}", differences.len(), differences.join("\n\n"));
}

#[expect(clippy::print_stdout, reason = "it was asked for")]
fn show(name: &str, transcript: &str) {
    println!("--- {name}\n{transcript}");
}

fn difference(group: &str, conversation: &Conversation, kept: &str, server: &str, said: &str) -> String {
    let line = kept.lines().zip(said.lines()).take_while(|(kept, said)| kept == said).count();
    let nth = |text: &str| text.lines().nth(line).unwrap_or("(nothing)").to_owned();
    format!(
        "{group}/{}: differs from line {} on:\n  kept: {}\n  {server}: {}\n--- kept, of {RELEASE}\n{kept}--- {server}\n{said}",
        conversation.name,
        line + 1,
        nth(kept),
        nth(said)
    )
}
