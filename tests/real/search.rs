//! A search on the real tritonserver: runs that are drawn are sent and judged, and what they made the server do is known.

use crate::support::triton::{text, with_triton};

const TOOL: &str = env!("CARGO_BIN_EXE_sequence-stress");
/// Patterns that meet what 24.10 itself does wrong (docs/FINDINGS.md), or that cut streams.
const LEFT_OUT: &str = "cancel-queued,cancel-executing,cancel-idle,cancel-restart,half-close,reset,continue-elsewhere,\
    continue-by-neighbour,restart-elsewhere,concurrent,stop-reading,shared-id,timeout,mixed-transports,deadline,shared-stream,burst";

#[test]
#[ignore = "needs the real tritonserver: run scripts/test"]
fn a_correct_server_is_searched_also_while_its_model_is_loaded_anew() {
    let options =
        ["--shape", "1x2", "--idle-limit-ms", "500", "--explicit", "--server-arg=--load-model=custom_sequence_int32"];
    let search = [TOOL, "search", "-r", "3", "--runs", "6", "--reloads", "--without", LEFT_OUT];
    let output = with_triton(&options, &search).output().expect("it runs");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("VALID: 6 runs, no violation; "), "{said}");
    let pairs = said.split_once(" pairs of transitions reached").and_then(|(before, _)| before.split(' ').next_back());
    let pairs = pairs.and_then(|number| number.parse::<u32>().ok());
    assert!(pairs > Some(100), "{said}");
}
