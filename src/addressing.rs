//! To which request a message belongs.

use oracle::Words;
use wire::transport::Message;
use workload::{event::Received, sequence::RequestId};

/// What a server that calls itself so sent, as a message of the request that it belongs to, of those that are under way.
///
/// The protocol does not say that an error over a stream has to name its request. Triton does name it. Of a server that nobody compared with
/// Triton, the error belongs to the only request under way. Of several nobody knows which, so that it is the end of the stream.
pub(crate) fn addressed(server: Option<&str>, received: Received, under_way: &[RequestId]) -> Message {
    if !received.id.is_empty() || Words::of_server(server).are_known() {
        return Message::Received(received);
    }
    match (&received.result, under_way) {
        (Err(_), [request]) => Message::Received(Received { id: request.to_string(), ..received }),
        (Err(text), [_, _, ..]) => Message::Lapsed(text.clone()),
        _ => Message::Received(received),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_a_request_belongs_to_the_only_one_under_way() {
        let request = |step| RequestId { worker: 0, context: 0, sequence: 0, step };
        let error = |id: &str| Received { id: id.to_owned(), result: Err("no".to_owned()), code: None, outputs: 0 };
        let id_of = |message| match message {
            Message::Received(received) => Some(received.id),
            _ => None,
        };
        let others = Some("other 1.0");
        let one = request(3).to_string();
        assert_eq!(id_of(addressed(others, error(""), &[request(3)])), Some(one));
        assert!(
            matches!(addressed(others, error(""), &[request(3), request(4)]), Message::Lapsed(text) if text == "no")
        );
        // Triton names it, and nothing else is what no request of the stream got.
        for (server, id, under_way) in [
            (Some("triton 2.51.0"), "", &[request(3)][..]),
            (Some("triton 2.39.0"), "", &[request(3)]),
            (others, "0-0-0-9", &[request(3)]),
            (others, "", &[]),
        ] {
            assert_eq!(id_of(addressed(server, error(id), under_way)), Some(id.to_owned()), "{server:?}");
        }
    }
}
