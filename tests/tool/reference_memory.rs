//! How much memory the reference server takes, as a process of its own.

use crate::support::request;
use std::{fs, time::Duration};

use crate::support::tool::Serve;
use tokio::{task::JoinSet, time::timeout};
use tonic::transport::Channel;
use wire::proto::{ModelInferRequest, grpc_inference_service_client::GrpcInferenceServiceClient};

const LIMIT: Duration = Duration::from_secs(300);
const MODEL: &str = "custom_sequence_int32";
const STREAMS: i64 = 4;

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

fn start(id: i64, end: bool) -> ModelInferRequest {
    request::step(MODEL, id, &[1], true, end)
}

/// Sends the STARTs of as many sequences, with END or without, over some streams, and awaits all answers.
async fn sequences(client: &GrpcInferenceServiceClient<Channel>, ids: std::ops::Range<i64>, end: bool) {
    let each = (ids.end - ids.start) / STREAMS;
    let mut streams = JoinSet::new();
    for from in (0..STREAMS).map(|stream| ids.start + stream * each) {
        let mut client = client.clone();
        streams.spawn(async move {
            let requests = tokio_stream::iter((from..from + each).map(move |id| start(id, end)));
            let mut answers = client.model_stream_infer(requests).await.expect("a stream").into_inner();
            let mut count = 0;
            while let Some(answer) = answers.message().await.expect("it stays open") {
                assert_eq!(answer.error_message, "");
                count += 1;
            }
            assert_eq!(count, each);
        });
    }
    timeout(LIMIT, streams.join_all()).await.expect("all is answered in time");
}

#[tokio::test]
async fn ten_thousand_live_sequences_take_under_200_mb() {
    let serve = serve(&["--max-batch-size", "16384"]);
    let client = serve.client().await;
    sequences(&client, 1..10_001, false).await;
    let resident = serve.resident();
    assert!(resident * 1024 < 200_000_000, "{resident} KiB");
    // They are all live: none of them wants another START.
    let mut request = start(10_000, true);
    request.parameters.remove("sequence_start");
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
