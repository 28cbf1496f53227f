//! What the real server said, as files, and the comparison with it.

use std::{env, fs, path::PathBuf};

use crate::{
    conversation::{Conversation, OnPython},
    setup::Backend,
};

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

/// Whether the random conversations are others than those that are kept.
pub(crate) fn is_of_another_seed() -> bool {
    seed() != KEPT_SEED
}

/// Whether what the real server says now is to be kept.
pub(crate) fn are_to_be_written() -> bool {
    env::var("SEQUENCE_STRESS_CONFORMANCE").is_ok_and(|wish| wish == "write")
}

/// What one server said in all conversations.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) server: &'static str,
    pub(crate) backend: Backend,
    pub(crate) transcripts: Vec<String>,
}

/// What models on this backend said; the Python backend has a file of its own only where it says something else.
fn file(group: &str, conversation: &Conversation, backend: Backend) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/snapshots");
    let mark = if is_of_its_own(conversation, backend) { ".python" } else { "" };
    folder.join(RELEASE).join(group).join(format!("{}{mark}.txt", conversation.name))
}

fn is_of_its_own(conversation: &Conversation, backend: Backend) -> bool {
    backend == Backend::Python && matches!(conversation.on_python, OnPython::Other(_))
}

/// Keeps what the real server said; of the Python backend what is its own.
pub(crate) fn write(group: &str, conversations: &[Conversation], said: &Said) {
    for (conversation, transcript) in conversations.iter().zip(&said.transcripts) {
        if said.backend == Backend::Python && !is_of_its_own(conversation, said.backend) {
            continue;
        }
        let file = file(group, conversation, said.backend);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder for snapshots");
        fs::write(file, transcript).expect("a snapshot");
    }
}

/// What the real server said, and every server has to say.
pub(crate) fn kept(group: &str, conversation: &Conversation, backend: Backend) -> Option<String> {
    fs::read_to_string(file(group, conversation, backend)).ok()
}

/// Compares what servers said with what is kept.
///
/// # Panics
/// Where anything differs: with the conversation, both transcripts and the first difference.
pub(crate) fn compare(group: &str, conversations: &[Conversation], servers: &[Said]) {
    let mut differences = Vec::new();
    for (index, conversation) in conversations.iter().enumerate() {
        for Said { server, backend, transcripts } in servers {
            let said = &transcripts[index];
            let kept = match kept(group, conversation, *backend) {
                Some(kept) => kept,
                // Of other seeds nothing is kept: then the servers are compared with the first of them.
                None if is_of_another_seed() => servers[0].transcripts[index].clone(),
                None => "nothing is kept\n".into(),
            };
            tell(&format!("--- {server}\n{said}"));
            if *said != kept {
                differences.push(difference(group, conversation, &kept, server, said));
            }
        }
    }
    assert!(differences.is_empty(), "{} of {group}:\n\n{}", differences.len(), differences.join("\n\n"));
}

/// Says something where the conversations are restricted to some, because then somebody looks at them.
#[expect(clippy::print_stdout, reason = "it was asked for")]
pub(crate) fn tell(text: &str) {
    if only().is_some() {
        println!("{text}");
    }
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
