//! Many sequences of one request, over some streams.

#![allow(unreachable_pub, reason = "it is a module of tests")]

use std::{ops::Range, time::Duration};

use tokio::{task::JoinSet, time::timeout};
use tonic::transport::Channel;
use wire::proto::grpc_inference_service_client::GrpcInferenceServiceClient;

use super::request;

const MODEL: &str = "custom_sequence_int32";
const LIMIT: Duration = Duration::from_secs(300);
/// How many streams there are; the number of sequences is a multiple of it.
pub const STREAMS: i64 = 4;

/// Sends a START for each of these IDs, with END or without, and awaits all responses.
pub async fn sequences(client: &GrpcInferenceServiceClient<Channel>, ids: Range<i64>, end: bool) {
    let each = (ids.end - ids.start) / STREAMS;
    let mut streams = JoinSet::new();
    for from in (0..STREAMS).map(|stream| ids.start + stream * each) {
        let mut client = client.clone();
        streams.spawn(async move {
            let requests = (from..from + each).map(move |id| request::step(MODEL, id, &[1], true, end));
            let responses = client.model_stream_infer(tokio_stream::iter(requests)).await;
            let mut responses = responses.expect("a stream").into_inner();
            let mut count = 0;
            while let Some(response) = responses.message().await.expect("it stays open") {
                assert_eq!(response.error_message, "");
                count += 1;
            }
            assert_eq!(count, each);
        });
    }
    timeout(LIMIT, streams.join_all()).await.expect("all is answered in time");
}
