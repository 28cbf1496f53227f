//! The steps of one stream on their way out, kept until it is certain that the server takes the stream in.
//!
//! A channel of the runtime has room for 32 steps in each block, which takes kilobytes for each of thousands of streams. This queue takes
//! memory for the steps that wait.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll, Waker},
};

use tokio_stream::Stream;

use super::{gathered::Outstanding, lock};
use workload::{burst, sequence::Step};

/// How many steps may be handed over and not be on the wire yet; more wait.
const ROOM: usize = 128;

/// The end of a stream that takes steps; dropping it says that no further step follows.
#[derive(Debug)]
pub struct Outgoing(Weak<Mutex<Steps>>);

/// Room for one step.
#[derive(Debug)]
pub struct Room(Arc<Mutex<Steps>>);

/// The steps of a stream, for as many tries to open it as it takes.
#[derive(Debug)]
pub(super) struct Queue(Arc<Mutex<Steps>>);

/// The steps as one try sends them.
#[derive(Debug)]
pub(super) struct Sending {
    steps: Arc<Mutex<Steps>>,
    /// Which try it is.
    number: u32,
    /// How many of the steps that are kept it has sent.
    sent: usize,
}

#[derive(Debug, Default)]
struct Steps {
    waiting: VecDeque<Step>,
    /// No further step follows.
    is_over: bool,
    /// The task that waits for a step, and the task that waits for room.
    taker: Option<Waker>,
    giver: Option<Waker>,
    /// Where a request has several answers.
    outstanding: Option<Outstanding>,
    /// Those that a try has sent, until the stream is taken in.
    kept: Vec<Step>,
    is_taken_in: bool,
    tries: u32,
}

impl Outgoing {
    /// Room for one step more, if there is some now: none where the stream is broken.
    pub fn room_now(&self) -> Option<Room> {
        let steps = self.0.upgrade()?;
        let has_room = lock(&steps).waiting.len() < ROOM;
        has_room.then_some(Room(steps))
    }

    /// Waits until there is room. Why a stream broke is for the other end to tell.
    ///
    /// Cancel safe.
    pub async fn room(&self) {
        poll_fn(|context| match self.0.upgrade() {
            Some(steps) => lock(&steps).poll_room(context),
            None => Poll::Pending,
        })
        .await;
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let Some(steps) = self.0.upgrade() else { return };
        let taker = {
            let mut steps = lock(&steps);
            steps.is_over = true;
            steps.taker.take()
        };
        taker.inspect(Waker::wake_by_ref);
    }
}

impl Room {
    /// Hands a step over.
    pub fn send(self, step: Step) {
        let taker = {
            let mut steps = lock(&self.0);
            steps.waiting.push_back(step);
            steps.taker.take()
        };
        taker.inspect(Waker::wake_by_ref);
    }
}

impl Queue {
    /// A queue, and the end that takes steps.
    pub(super) fn new(outstanding: Option<Outstanding>) -> (Outgoing, Self) {
        let steps = Arc::new(Mutex::new(Steps { outstanding, ..Steps::default() }));
        (Outgoing(Arc::downgrade(&steps)), Self(steps))
    }

    /// Another try, which sends all steps; those before it send nothing more.
    pub(super) fn sending(&self) -> Sending {
        let mut steps = lock(&self.0);
        steps.tries += 1;
        Sending { steps: Arc::clone(&self.0), number: steps.tries, sent: 0 }
    }

    /// The only try: nothing is kept for another one.
    pub(super) fn sent_once(self) -> Sending {
        self.are_taken_in();
        self.sending()
    }

    /// The server takes in what the last try sends: nothing is sent again.
    pub(super) fn are_taken_in(&self) {
        lock(&self.0).is_taken_in = true;
    }
}

impl Steps {
    fn poll_room(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.waiting.len() < ROOM {
            return Poll::Ready(());
        }
        self.giver = Some(context.waker().clone());
        Poll::Pending
    }

    /// The next step, and who now has room for one.
    fn poll_next(&mut self, context: &Context<'_>) -> (Poll<Option<Step>>, Option<Waker>) {
        let Some(step) = self.waiting.pop_front() else {
            if self.is_over {
                return (Poll::Ready(None), None);
            }
            self.taker = Some(context.waker().clone());
            return (Poll::Pending, None);
        };
        burst::forget(&mut self.waiting);
        (Poll::Ready(Some(step)), self.giver.take())
    }
}

impl Stream for Sending {
    type Item = Step;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Step>> {
        let Self { steps, number, sent } = self.get_mut();
        let mut steps = lock(steps);
        if steps.tries != *number {
            return Poll::Ready(None);
        }
        if let Some(step) = steps.kept.get(*sent).copied() {
            *sent += 1;
            return Poll::Ready(Some(step));
        }
        let (next, giver) = steps.poll_next(context);
        if let Poll::Ready(next) = next {
            if let (Some(step), Some(outstanding)) = (next, &steps.outstanding) {
                outstanding.sent(step.request);
            }
            if steps.is_taken_in {
                steps.kept = Vec::new();
            } else if let Some(step) = next {
                steps.kept.push(step);
                *sent += 1;
            }
        }
        drop(steps);
        giver.inspect(Waker::wake_by_ref);
        next
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio_stream::StreamExt as _;

    use super::*;
    use workload::sequence::{Pattern, RequestId};

    fn step(number: u32) -> Step {
        let request = RequestId { worker: 0, context: 0, sequence: 0, step: number };
        let (value, of) = (1.into(), 9);
        Step { request, pattern: Pattern::Valid, start: false, end: false, value, of, special: None }
    }

    fn hand_over(outgoing: &Outgoing, number: u32) {
        outgoing.room_now().expect("there is room").send(step(number));
    }

    async fn next(sending: &mut Sending) -> Option<u32> {
        sending.next().await.map(|step| step.request.step)
    }

    #[tokio::test]
    async fn another_try_sends_all_steps_and_the_one_before_it_none() {
        let (outgoing, queue) = Queue::new(None);
        let mut first = queue.sending();
        for number in 0..3 {
            hand_over(&outgoing, number);
        }
        assert_eq!((next(&mut first).await, next(&mut first).await), (Some(0), Some(1)));
        let mut second = queue.sending();
        assert_eq!(next(&mut first).await, None, "it takes nothing from the second");
        // The server answers before all that was kept is sent again.
        assert_eq!(next(&mut second).await, Some(0));
        queue.are_taken_in();
        assert_eq!((next(&mut second).await, next(&mut second).await), (Some(1), Some(2)));
        hand_over(&outgoing, 3);
        drop(outgoing);
        assert_eq!((next(&mut second).await, next(&mut second).await), (Some(3), None));
        assert!(lock(&queue.0).kept.is_empty(), "nothing is kept any more");
    }

    #[tokio::test]
    async fn a_step_waits_for_room_and_is_waited_for() {
        let (outgoing, queue) = Queue::new(None);
        let mut sending = queue.sending();
        for number in 0..u32::try_from(ROOM).expect("few") {
            hand_over(&outgoing, number);
        }
        assert!(outgoing.room_now().is_none());
        // Each waits for the other.
        let (room, first) = tokio::join!(outgoing.room(), async {
            tokio::task::yield_now().await;
            next(&mut sending).await
        });
        assert_eq!((room, first), ((), Some(0)));
        hand_over(&outgoing, 777);
        while next(&mut sending).await != Some(777) {}
        let handed_over = async {
            tokio::task::yield_now().await;
            hand_over(&outgoing, 8);
            tokio::task::yield_now().await;
            drop(outgoing);
        };
        let taken = async { (next(&mut sending).await, next(&mut sending).await) };
        assert_eq!(tokio::join!(taken, handed_over).0, (Some(8), None));
    }

    #[tokio::test]
    async fn nothing_is_kept_of_what_is_not_sent_again() {
        let (outgoing, queue) = Queue::new(None);
        let mut sending = queue.sent_once();
        for number in 0..1000 {
            hand_over(&outgoing, number);
            assert_eq!(next(&mut sending).await, Some(number));
        }
        let steps = lock(&sending.steps);
        assert_eq!((steps.kept.capacity(), steps.waiting.capacity() <= burst::KEPT), (0, true));
    }

    #[tokio::test]
    async fn where_nobody_takes_steps_there_is_no_room() {
        let (outgoing, queue) = Queue::new(None);
        let sending = queue.sending();
        drop(queue);
        assert!(outgoing.room_now().is_some());
        drop(sending);
        assert!(outgoing.room_now().is_none());
        assert!(outgoing.room().now_or_never().is_none());
    }
}
