//! Which bytes a server keeps. The process has no other test, as all that it allocates is counted.

use std::{alloc::System, time::Duration};

use models::ModelOptions;
use reference::{
    Options, Server,
    fault::{Fault, Planted},
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::time::sleep;
use tonic::transport::Channel;
use wire::proto::grpc_inference_service_client::GrpcInferenceServiceClient;

#[path = "../../../tests/support/request.rs"]
mod request;
#[path = "../../../tests/support/sequences.rs"]
mod sequences;

use sequences::sequences;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What fills up once: tables that grow, buffers of connections.
const BEFORE: i64 = 20_000;
const SEQUENCES: i64 = 80_000;
/// A pointer kept for each sequence is twice that.
const BYTES_MAX: i64 = SEQUENCES * 4;

/// How many bytes more are kept after [`SEQUENCES`] than before them, at the least of some looks: a stream may still be
/// ending when its client has all answers.
async fn kept(faults: Vec<Planted>) -> i64 {
    let models =
        ModelOptions { execution: Duration::ZERO, idle_limit: Duration::from_secs(3600), ..Default::default() };
    let server = Server::start(Options { models, faults, ..Default::default() }).expect("it starts");
    let endpoint = Channel::from_shared(format!("http://{}", server.address)).expect("an address");
    let client = GrpcInferenceServiceClient::new(endpoint.connect().await.expect("it connects"));
    sequences(&client, 1..BEFORE + 1, true).await;
    let region = Region::new(ALLOCATOR);
    sequences(&client, BEFORE + 1..BEFORE + SEQUENCES + 1, true).await;
    let mut least = i64::MAX;
    for _ in 0..10 {
        let change = region.change();
        let now =
            i64::try_from(change.bytes_allocated).expect("few") - i64::try_from(change.bytes_deallocated).expect("few");
        least = least.min(now);
        sleep(Duration::from_millis(10)).await;
    }
    least
}

#[tokio::test]
async fn a_server_keeps_nothing_of_a_sequence_that_is_over() {
    let correct = kept(Vec::new()).await;
    assert!(correct < BYTES_MAX, "{correct} bytes after {SEQUENCES} sequences");
    let leaking = kept(vec![Planted::once(Fault::LeakMemory, 25_000)]).await;
    assert!(leaking > BYTES_MAX, "{leaking} bytes where a mebibyte was kept");
}
