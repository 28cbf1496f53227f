//! One stream's way back: answers in the order of its requests.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;
use tonic::Status;

use super::{
    fault::Fault,
    misbehaviour::Misbehaviour,
    scheduler::SequenceId,
    served::{Answers, Served},
};
use wire::proto::{
    InferParameter, ModelInferResponse, ModelStreamInferResponse, infer_parameter::ParameterChoice,
    model_infer_response::InferOutputTensor,
};

/// How many requests of a stream may be unanswered, or answered and not yet read by the client, before no more are taken
/// from it.
const UNREAD_MAX: usize = 16_384;

/// What goes out on a stream.
type Item = Result<ModelStreamInferResponse, Status>;

/// Where it goes out.
pub(super) type Sender = mpsc::UnboundedSender<Item>;

/// Collects a stream's answers and sends them in order.
#[derive(Debug)]
pub(super) struct Outbox {
    line: Mutex<Queue>,
    room: Arc<Semaphore>,
    /// Shared by all the stream's requests.
    pub(super) cancelled: Arc<AtomicBool>,
    /// Whether an error that comes after a request was accepted closes the stream with its code.
    closes_on_error: bool,
    misbehaviour: Arc<Misbehaviour>,
}

#[derive(Debug, Default)]
struct Queue {
    /// The number of the first request that waits.
    first: u64,
    /// The answers of that request and those behind it, where they are there; none or two where a fault says so.
    waiting: VecDeque<Option<Vec<ModelStreamInferResponse>>>,
    half_closed: bool,
    /// Gone when the stream is closed.
    sender: Option<Sender>,
    /// An answer that a fault puts behind the next one.
    held: Option<ModelStreamInferResponse>,
    /// Whom to tell when the client goes.
    models: Vec<Weak<Served>>,
    /// The same for the fault of leaking slots at disconnect alone.
    sequences: Vec<(Weak<Served>, SequenceId)>,
}

impl Outbox {
    pub(super) fn new(closes_on_error: bool, misbehaviour: Arc<Misbehaviour>) -> (Arc<Self>, Responses) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let outbox = Arc::new(Self {
            line: Mutex::new(Queue { sender: Some(sender), ..Queue::default() }),
            room: Arc::new(Semaphore::new(UNREAD_MAX)),
            cancelled: Arc::default(),
            closes_on_error,
            misbehaviour,
        });
        outbox.misbehaviour.opened(&outbox);
        (Arc::clone(&outbox), Responses { receiver, outbox, deadline: None })
    }

    fn line(&self) -> MutexGuard<'_, Queue> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for one more request; returns whether the stream is open then.
    pub(super) async fn room(&self) -> bool {
        let permit = Arc::clone(&self.room).acquire_owned().await;
        permit.map(OwnedSemaphorePermit::forget).is_ok() && self.is_open()
    }

    /// Takes what sends away, so that the stream ends, and nobody waits for room on it any more.
    fn end(&self, line: &mut Queue) -> Option<Sender> {
        self.room.close();
        line.sender.take()
    }

    /// Takes the place of the next request.
    pub(super) fn reserve(&self) -> u64 {
        let mut line = self.line();
        line.waiting.push_back(None);
        line.first + line.waiting.len() as u64 - 1
    }

    /// Answers a request that was accepted.
    pub(super) fn answer(self: &Arc<Self>, place: u64, model: &str, request_id: String, answers: Answers) {
        match answers {
            Ok(responses) => {
                let count = responses.len();
                let answer = |(number, response)| ModelStreamInferResponse {
                    infer_response: Some(with_final_mark(response, number == count)),
                    ..Default::default()
                };
                self.misbehaviour.deliver(self, place, (1..).zip(responses).map(answer).collect());
            }
            // On a stream that an earlier error closed nothing can be done wrong.
            Err(failure)
                if self.closes_on_error && !(self.is_open() && self.misbehaviour.happens(Fault::ErrorWithinStream)) =>
            {
                self.close_with(self.misbehaviour.spoil_code(self.misbehaviour.spoil_error(failure)));
            }
            Err(failure) => {
                let response =
                    ModelInferResponse { model_name: model.to_owned(), id: request_id, ..Default::default() };
                self.send_error(place, failure, with_final_mark(response, true));
            }
        }
    }

    /// Answers a request that was not accepted.
    pub(super) fn reject(self: &Arc<Self>, place: u64, request_id: String, failure: Status) {
        self.send_error(place, failure, ModelInferResponse { id: request_id, ..Default::default() });
    }

    fn send_error(self: &Arc<Self>, place: u64, failure: Status, mut response: ModelInferResponse) {
        if self.misbehaviour.happens(Fault::OutputBesideError) {
            let output = InferOutputTensor {
                name: "OUTPUT".to_owned(),
                datatype: "INT32".to_owned(),
                shape: vec![1, 1],
                ..InferOutputTensor::default()
            };
            response.outputs.push(output);
            response.raw_output_contents.push(vec![0; 4]);
        }
        let error_message = self.misbehaviour.spoil_error(failure).message().to_owned();
        let answer = ModelStreamInferResponse { error_message, infer_response: Some(response) };
        self.misbehaviour.deliver(self, place, vec![answer]);
    }

    /// Puts answers into a request's place, and sends what is next.
    pub(super) fn fill(&self, place: u64, answers: Vec<ModelStreamInferResponse>) {
        let line = &mut *self.line();
        let index = place.checked_sub(line.first).and_then(|index| usize::try_from(index).ok());
        let Some(slot) = index.and_then(|index| line.waiting.get_mut(index)) else { return };
        *slot = Some(answers);
        while let Some(Some(_)) = line.waiting.front() {
            let answers = line.waiting.pop_front().flatten().unwrap_or_default();
            line.first += 1;
            if answers.is_empty() {
                self.room.add_permits(1);
            }
            for answer in answers {
                self.send(line, answer);
            }
        }
        self.close_if_done(line);
    }

    fn send(&self, line: &mut Queue, answer: ModelStreamInferResponse) {
        let Some(sender) = &line.sender else { return };
        if line.held.is_none() && !line.waiting.is_empty() && self.misbehaviour.happens(Fault::SwapResponses) {
            line.held = Some(answer);
            return;
        }
        for answer in [Some(answer), line.held.take()].into_iter().flatten() {
            // The client may be gone.
            let _ = sender.send(Ok(answer));
        }
    }

    /// Sends an answer out of turn, as nobody should.
    pub(super) fn intrude(&self, answer: ModelStreamInferResponse) {
        if let Some(sender) = &self.line().sender {
            let _ = sender.send(Ok(answer));
        }
    }

    fn close_if_done(&self, line: &mut Queue) {
        if line.half_closed
            && line.waiting.is_empty()
            && let Some(sender) = self.end(line)
        {
            if let Some(held) = line.held.take() {
                let _ = sender.send(Ok(held));
            }
            // One that carried nothing only asks whether there are streams.
            if line.first > 0 && self.misbehaviour.happens(Fault::NeverClose) {
                self.misbehaviour.keep_open(sender);
            }
        }
    }

    /// No more requests come.
    pub(super) fn half_close(&self) {
        let mut line = self.line();
        line.half_closed = true;
        if !line.waiting.is_empty() && self.misbehaviour.happens(Fault::LoseFinalResponses) {
            self.end(&mut line);
        }
        self.close_if_done(&mut line);
        let is_over = line.sender.is_none();
        drop(line);
        if is_over {
            self.client_is_gone();
        }
    }

    /// What the stream's client began and did not end has none any more.
    fn client_is_gone(&self) {
        let sequences = std::mem::take(&mut self.line().sequences);
        for (model, sequence) in sequences {
            if let Some(model) = model.upgrade() {
                model.disconnected(&sequence);
            }
        }
    }

    /// Ends the stream at once, in good order.
    pub(super) fn close(&self) {
        self.end(&mut self.line());
    }

    fn close_with(&self, failure: Status) {
        if let Some(sender) = self.end(&mut self.line()) {
            let _ = sender.send(Err(failure));
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.line().sender.is_some()
    }

    /// Remembers a model that the stream's requests go to.
    pub(super) fn uses(&self, model: &Arc<Served>, sequence: &SequenceId) {
        let mut line = self.line();
        if !line.models.iter().any(|known| known.as_ptr() == Arc::as_ptr(model)) {
            line.models.push(Arc::downgrade(model));
        }
        if self.misbehaviour.faults.has(Fault::LeakSlotAtDisconnect) {
            line.sequences.push((Arc::downgrade(model), sequence.clone()));
        }
    }

    /// The client does not want anything any more.
    pub(super) fn cancel(&self) {
        self.close();
        if self.cancelled.swap(true, Relaxed) {
            return;
        }
        self.client_is_gone();
        let models = std::mem::take(&mut self.line().models);
        for model in models.iter().filter_map(Weak::upgrade) {
            model.cancelled();
        }
    }
}

fn with_final_mark(mut response: ModelInferResponse, is_final: bool) -> ModelInferResponse {
    let mark = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(is_final)) };
    response.parameters.insert("triton_final_response".to_owned(), mark);
    response
}

/// A stream's answers, on their way to the client. Dropped before their end they cancel what is queued.
#[derive(Debug)]
pub(super) struct Responses {
    receiver: mpsc::UnboundedReceiver<Item>,
    outbox: Arc<Outbox>,
    /// When the client does not want to wait any longer.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Responses {
    /// Ends them when the stream has taken so long, if it has a deadline.
    pub(super) fn end_within(&mut self, timeout: Option<Duration>) {
        self.deadline = timeout.map(|timeout| Box::pin(sleep(timeout)));
    }
}

impl Stream for Responses {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let next = self.receiver.poll_recv(context);
        if matches!(next, Poll::Ready(Some(_))) {
            self.outbox.room.add_permits(1);
        }
        let is_waiting = next.is_pending();
        let is_late = |deadline: &mut Pin<Box<Sleep>>| deadline.as_mut().poll(context).is_ready();
        if is_waiting && self.deadline.as_mut().is_some_and(is_late) {
            self.deadline = None;
            self.outbox.cancel();
            return Poll::Ready(Some(Err(Status::deadline_exceeded("Deadline Exceeded"))));
        }
        next
    }
}

impl Drop for Responses {
    fn drop(&mut self) {
        if self.outbox.is_open() {
            self.outbox.cancel();
        }
    }
}
