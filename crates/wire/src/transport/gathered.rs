//! The responses of a decoupled model, gathered until the answer to a request is whole.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use tokio::time::Instant;

use super::{codec::Piece, lock};
use workload::{
    event::{Received, Response},
    sequence::RequestId,
};

/// How many responses more than a request should have are kept: enough to be seen, and no more.
const SURPLUS_KEPT: usize = 4;

/// The requests of a stream that are sent and not answered as a whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Outstanding(Arc<Mutex<HashSet<RequestId>>>);

impl Outstanding {
    pub(super) fn sent(&self, request: RequestId) {
        lock(&self.0).insert(request);
    }
}

/// What has come for requests whose last response has not.
#[derive(Debug)]
pub(super) struct Gathered {
    /// How many responses a request should have.
    count: usize,
    /// Whether the server marks responses; older ones do not, and then the count tells which is the last.
    marks: bool,
    /// By the request's ID, in no order; as many as are under way on one stream. When the first response came.
    open: Vec<(String, Response, Instant)>,
    outstanding: Outstanding,
}

impl Gathered {
    /// For a model that answers a request so often.
    pub(super) fn new(count: u32, outstanding: Outstanding) -> Self {
        Self { count: count as usize, marks: false, open: Vec::new(), outstanding }
    }

    /// Takes a message in; returns the answer that it makes whole. An error ends its request, whatever came before; what belongs to
    /// no request that waits is handed on as it is, because it is one too many.
    pub(super) fn take(&mut self, Piece { received, is_last }: Piece) -> Option<Received> {
        let request = received.request();
        if !request.is_some_and(|request| lock(&self.outstanding.0).contains(&request)) {
            return Some(received);
        }
        let place = self.open.iter().position(|(of, ..)| *of == received.id);
        let Ok(response) = received.result else {
            place.map(|place| self.open.swap_remove(place));
            self.is_answered(request);
            return Some(received);
        };
        self.marks |= is_last.is_some();
        let ends = response.outputs.is_empty() && is_last == Some(true);
        let place = match place {
            None => {
                self.open.push((received.id, response, Instant::now()));
                self.open.len() - 1
            }
            Some(place) => {
                let further = &mut self.open[place].1.series.further;
                // Nothing but the end is in an empty last one.
                if !ends && further.len() < self.count + SURPLUS_KEPT {
                    further.push(response);
                }
                place
            }
        };
        let came = self.open[place].1.series.further.len() + 1;
        let is_whole = is_last.unwrap_or(!self.marks && came == self.count);
        is_whole.then(|| {
            let (id, mut response, began) = self.open.swap_remove(place);
            response.series.spread = Some(began.elapsed());
            self.is_answered(request);
            Received { id, result: Ok(response), code: None, outputs: 0 }
        })
    }

    fn is_answered(&self, request: Option<RequestId>) {
        request.map(|request| lock(&self.outstanding.0).remove(&request));
    }

    /// Something that is left when nothing else comes: a part of an answer.
    pub(super) fn left(&mut self) -> Option<Received> {
        let request = self.open.first()?.0.parse().ok()?;
        self.give_up(request)
    }

    /// What has come for a request whose last response is not waited for any longer.
    pub(super) fn give_up(&mut self, request: RequestId) -> Option<Received> {
        self.is_answered(Some(request));
        let place = self.open.iter().position(|(id, ..)| id.parse() == Ok(request))?;
        let (id, mut response, _) = self.open.swap_remove(place);
        response.series.is_unfinished = true;
        Some(Received { id, result: Ok(response), code: None, outputs: 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use workload::tensor::Tensor;

    fn piece(id: &str, output: Option<&str>, is_last: Option<bool>) -> Piece {
        Piece {
            received: Received { id: id.to_owned(), result: Ok(response(output)), code: None, outputs: 0 },
            is_last,
        }
    }

    fn response(output: Option<&str>) -> Response {
        let outputs = output.map(|name| Tensor { name: name.to_owned(), ..Tensor::default() });
        Response { model: "m".to_owned(), outputs: outputs.into_iter().collect(), ..Response::default() }
    }

    /// The request, and the outputs of its responses.
    fn outputs(received: Option<Received>) -> Option<(String, Vec<String>)> {
        let Received { id, result, .. } = received?;
        let first = result.expect("no error");
        let all = std::iter::once(&first).chain(&first.series.further);
        Some((id, all.flat_map(|response| &response.outputs).map(|output| output.name.clone()).collect()))
    }

    fn whole(id: &str, names: &[&str]) -> (String, Vec<String>) {
        (id.to_owned(), names.iter().map(ToString::to_string).collect())
    }

    /// Of a stream with these requests, each so often to be answered.
    fn gathered(count: u32, steps: u32) -> Gathered {
        let outstanding = Outstanding::default();
        (0..steps).for_each(|step| outstanding.sent(RequestId { worker: 1, context: 0, sequence: 0, step }));
        Gathered::new(count, outstanding)
    }

    #[test]
    fn an_answer_is_whole_with_the_response_that_says_so() {
        let mut gathered = gathered(2, 3);
        // Those to several requests may come in between each other.
        assert_eq!(outputs(gathered.take(piece("1-0-0-0", Some("a"), Some(false)))), None);
        assert_eq!(outputs(gathered.take(piece("1-0-0-1", Some("b"), Some(false)))), None);
        assert_eq!(
            outputs(gathered.take(piece("1-0-0-1", Some("c"), Some(true)))),
            Some(whole("1-0-0-1", &["b", "c"]))
        );
        // More than there should be, and a last one with nothing in it.
        for name in ["d", "e"] {
            assert_eq!(outputs(gathered.take(piece("1-0-0-0", Some(name), Some(false)))), None);
        }
        assert_eq!(
            outputs(gathered.take(piece("1-0-0-0", None, Some(true)))),
            Some(whole("1-0-0-0", &["a", "d", "e"]))
        );
        assert_eq!(outputs(gathered.take(piece("1-0-0-2", None, Some(true)))), Some(whole("1-0-0-2", &[])));
        assert!(gathered.open.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_known_how_long_after_the_first_response_the_last_one_came() {
        let mut gathered = gathered(2, 2);
        let spread = |received: Option<Received>| received.and_then(|its| its.result.ok()?.series.spread);
        assert_eq!(gathered.take(piece("1-0-0-0", Some("a"), Some(false))), None);
        tokio::time::advance(Duration::from_millis(30)).await;
        assert_eq!(spread(gathered.take(piece("1-0-0-1", Some("a"), Some(true)))), Some(Duration::ZERO));
        assert_eq!(spread(gathered.take(piece("1-0-0-0", Some("b"), Some(true)))), Some(Duration::from_millis(30)));
    }

    #[test]
    fn a_server_without_marks_is_told_by_the_count() {
        let mut gathered = gathered(2, 3);
        assert_eq!(outputs(gathered.take(piece("1-0-0-0", Some("a"), None))), None);
        assert_eq!(outputs(gathered.take(piece("1-0-0-0", Some("b"), None))), Some(whole("1-0-0-0", &["a", "b"])));
        // One that marks has to mark the last.
        assert_eq!(outputs(gathered.take(piece("1-0-0-1", Some("a"), Some(false)))), None);
        assert_eq!(outputs(gathered.take(piece("1-0-0-1", Some("b"), None))), None);
        let request = RequestId { worker: 1, context: 0, sequence: 0, step: 1 };
        let given_up = gathered.give_up(request).expect("a part has come");
        assert!(given_up.result.as_ref().is_ok_and(|response| response.series.is_unfinished));
        assert_eq!(outputs(Some(given_up)), Some(whole("1-0-0-1", &["a", "b"])));
        assert!(gathered.give_up(request).is_none());
    }

    #[test]
    fn an_error_ends_its_request_and_no_surplus_grows_without_a_bound() {
        let mut gathered = gathered(3, 1);
        for _ in 0..100 {
            assert_eq!(outputs(gathered.take(piece("1-0-0-0", Some("a"), Some(false)))), None);
        }
        assert_eq!(gathered.open[0].1.series.further.len(), 3 + SURPLUS_KEPT);
        let error = Received { id: "1-0-0-0".to_owned(), result: Err("no".to_owned()), code: None, outputs: 0 };
        assert_eq!(gathered.take(Piece { received: error.clone(), is_last: None }), Some(error));
        assert!(gathered.open.is_empty());
    }
    #[test]
    fn what_belongs_to_no_request_that_waits_is_handed_on_at_once() {
        let mut gathered = gathered(1, 1);
        let stray = |id: &str, mark| outputs(gathered_stray(id, mark)).is_some();
        assert!(stray("7777-0-0-0", Some(false)) && stray("nonsense", None));
        assert_eq!(outputs(gathered.take(piece("1-0-0-0", Some("a"), Some(true)))), Some(whole("1-0-0-0", &["a"])));
        // One more to a request that is answered.
        assert_eq!(outputs(gathered.take(piece("1-0-0-0", Some("b"), Some(false)))), Some(whole("1-0-0-0", &["b"])));
        assert!(gathered.open.is_empty());
    }

    fn gathered_stray(id: &str, mark: Option<bool>) -> Option<Received> {
        gathered(1, 1).take(piece(id, Some("a"), mark))
    }
}
