//! How much memory the reference server takes, as a process of its own.

use std::{fs, time::Duration};

use tokio::time::timeout;
use tonic::transport::Channel;
use wire::proto::grpc_inference_service_client::GrpcInferenceServiceClient;

use crate::support::{
    request,
    sequences::{STREAMS, sequences},
    tool::Serve,
};

const LIMIT: Duration = Duration::from_secs(300);
const MODEL: &str = "custom_sequence_int32";

/// A server that takes no time to execute, and in which nothing goes idle.
fn serve(options: &[&str]) -> Serve {
    Serve::start(&[&["--execution-time", "0ms", "--idle-limit", "1h"], options].concat())
}

impl Serve {
    /// Its resident memory in KiB.
    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it is running");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
    }

    async fn client(&self) -> GrpcInferenceServiceClient<Channel> {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).expect("an address");
        GrpcInferenceServiceClient::new(endpoint.connect().await.expect("it connects"))
    }
}

#[tokio::test]
async fn ten_thousand_live_sequences_take_under_200_mb() {
    let serve = serve(&["--max-batch-size", "16384"]);
    let client = serve.client().await;
    sequences(&client, 1..10_001, false).await;
    let resident = serve.resident();
    assert!(resident * 1024 < 200_000_000, "{resident} KiB");
    // They are all live: none of them wants another START.
    let request = request::step(MODEL, 10_000, &[1], false, true);
    let mut client = client;
    let answer = timeout(LIMIT, client.model_infer(request)).await.expect("it is answered").expect("it is live");
    assert_eq!(answer.into_inner().raw_output_contents, [2_i32.to_le_bytes()]);
}

#[tokio::test]
async fn a_planted_leak_keeps_a_mebibyte_for_each_start() {
    const STARTS: i64 = 100;
    for (options, leaks) in [(&[][..], false), (&["--fault", "leak-memory"], true)] {
        let serve = serve(options);
        let client = serve.client().await;
        sequences(&client, 1..1 + STREAMS, true).await;
        let before = serve.resident();
        sequences(&client, 1 + STREAMS..1 + STREAMS + STARTS, true).await;
        let after = serve.resident();
        let half = STARTS.unsigned_abs() * 1024 / 2;
        assert_eq!(after > before + half, leaks, "{options:?}: {before} KiB, then {after} KiB");
    }
}
