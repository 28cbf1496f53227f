//! Silero VAD, a model that people use, in the real tritonserver: `scripts/silero` writes it, and judges what the server answers.

use std::process::Command;

use crate::support::triton::{text, with_triton};
use tempfile::TempDir;

const SILERO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/silero");
/// What the models have to answer: each step alone, and each step beside those of other streams.
const LINES: [&str; 6] = [
    "silero_vad, each stream alone",
    "silero_vad, 8 streams at once",
    "silero_vad_oldest, each stream alone",
    "silero_vad_oldest, 8 streams at once",
    "silero_vad_nobatch, each stream alone",
    "silero_vad_nobatch, 4 streams at once",
];

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn silero_vad_answers_what_one_call_computes() {
    let folder = TempDir::new().expect("a folder");
    let path = |name| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (models, streams) = (path("models"), path("streams.json"));
    let options = [&models, "--inputs", &streams, "--streams", "16", "--frames", "12"];
    let written = Command::new(SILERO).args(options).output().expect("it runs");
    assert!(written.status.success(), "{}", text(&written));
    let judged = with_triton(&["--repository", &models], &[SILERO, "--judge", &streams]).output().expect("it runs");
    let said = text(&judged);
    assert!(judged.status.success(), "{said}");
    for line in LINES {
        assert!(said.contains(line), "no '{line}' in {said}");
    }
}
