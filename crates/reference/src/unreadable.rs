//! Messages that are no protobuf message: what the real server says to them.

use tonic::{Code, Status, codegen::http::Response};

/// The words of the layer that reads messages.
const CANNOT_DECODE: &str = "failed to decode Protobuf message";

/// Whether a message could not be read, which says nothing of the connection.
pub(super) fn is_unreadable(status: &Status) -> bool {
    status.code() == Code::Internal && status.message().starts_with(CANNOT_DECODE)
}

/// Tells of an unreadable message in the real server's words.
pub(super) fn tell<A: Default>(answer: Response<A>) -> Response<A> {
    let status = Status::from_header_map(answer.headers());
    let is_unreadable = status.is_some_and(|status| is_unreadable(&status));
    if is_unreadable { Status::internal("Unable to parse request").into_http() } else { answer }
}
