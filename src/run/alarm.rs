//! Waking at a time: to the microsecond, where the system can do that, because tokio's own timer has a millisecond.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::sync::Notify;

use crate::probe::site::Clock;
use wire::simulation;
use workload::event::Nanos;

/// The alarms of one thread, which [`Alarms::ring`] rings.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    /// The waker of each alarm, by its time and its number.
    waiting: RefCell<BTreeMap<(Nanos, u64), Waker>>,
    set: Cell<u64>,
    /// Notified when an alarm is earlier than the time that the timer is set to.
    earlier: Notify,
}

impl Alarms {
    /// Waits until this time since the run began.
    pub(super) fn at<'a>(&'a self, at: Nanos, clock: &'a Clock) -> Alarm<'a> {
        let number = self.set.get();
        self.set.set(number + 1);
        Alarm { alarms: self, clock, key: (at, number) }
    }

    /// Rings each alarm in time, for as long as it is polled.
    pub(super) async fn ring(&self, clock: &Clock) -> Infallible {
        let timer = Timer::new();
        loop {
            let next = self.waiting.borrow().first_key_value().map(|((at, _), _)| *at);
            let set_earlier = self.earlier.notified();
            let Some(at) = next else {
                set_earlier.await;
                continue;
            };
            let left = at.saturating_sub(clock.now());
            if left > 0 {
                tokio::select! {
                    () = timer.wait(Duration::from_nanos(left)) => {}
                    () = set_earlier => continue,
                }
            }
            let now = clock.now();
            let mut waiting = self.waiting.borrow_mut();
            while let Some(entry) = waiting.first_entry().filter(|entry| entry.key().0 <= now) {
                entry.remove().wake();
            }
        }
    }
}

/// A time that is waited for.
#[derive(Debug)]
pub(super) struct Alarm<'a> {
    alarms: &'a Alarms,
    clock: &'a Clock,
    key: (Nanos, u64),
}

impl Future for Alarm<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (at, _) = self.key;
        if self.clock.now() >= at {
            return Poll::Ready(());
        }
        let mut waiting = self.alarms.waiting.borrow_mut();
        let is_first = waiting.first_key_value().is_none_or(|(first, _)| self.key < *first);
        waiting.insert(self.key, context.waker().clone());
        if is_first {
            self.alarms.earlier.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.alarms.waiting.borrow_mut().remove(&self.key);
    }
}

/// What waits for a time.
struct Timer {
    /// None where the system has none, or has no file for it, and in a simulation, whose time is not the system's.
    #[cfg(target_os = "linux")]
    exact: Option<exact::Timer>,
}

impl Timer {
    fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            exact: if simulation::is_on() { None } else { exact::Timer::new().ok() },
        }
    }

    async fn wait(&self, time: Duration) {
        #[cfg(target_os = "linux")]
        if let Some(exact) = &self.exact
            && exact.wait(time).await.is_ok()
        {
            return;
        }
        tokio::time::sleep(time).await;
    }
}

#[cfg(target_os = "linux")]
mod exact {
    //! A timer of the kernel, which wakes its thread as a message of the network does.

    use std::{io, os::fd::AsFd as _, time::Duration};

    use nix::sys::{
        time::TimeSpec,
        timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    };
    use tokio::net::unix::pipe::Receiver;

    pub(super) struct Timer {
        timer: TimerFd,
        /// The same file as a pipe: it is waited for and read in the same way, and tokio takes no other file without unsafe code.
        expirations: Receiver,
    }

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
            let expirations = Receiver::from_owned_fd_unchecked(timer.as_fd().try_clone_to_owned()?)?;
            Ok(Self { timer, expirations })
        }

        /// Waits for so long.
        pub(super) async fn wait(&self, time: Duration) -> io::Result<()> {
            // None is no time: it would stop the timer.
            let time = TimeSpec::from_duration(time.max(Duration::from_nanos(1)));
            self.timer.set(Expiration::OneShot(time), TimerSetTimeFlags::empty())?;
            loop {
                self.expirations.readable().await?;
                match self.expirations.try_read(&mut [0; size_of::<u64>()]) {
                    // A timer that was set anew has nothing to read.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read.map(drop),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// The alarms in the order in which they rang, set so long before the first of them; none where that one was due before all were set.
    async fn rung(before: Duration) -> Option<Vec<u64>> {
        let (alarms, clock) = (Rc::new(Alarms::default()), Rc::new(Clock::started()));
        let rung = Rc::new(RefCell::new(Vec::new()));
        let local = tokio::task::LocalSet::new();
        let first = clock.now() + u64::try_from(before.as_nanos()).expect("it is short");
        for ms in [9_u64, 3, 6, 3, 0] {
            let (alarms, clock, rung) = (Rc::clone(&alarms), Rc::clone(&clock), Rc::clone(&rung));
            local.spawn_local(async move {
                let at = first + ms * 1_000_000;
                alarms.at(at, &clock).await;
                assert!(clock.now() >= at);
                rung.borrow_mut().push(ms);
            });
        }
        // One that nobody waits for any more rings for nobody.
        drop(alarms.at(first + 1_000_000, &clock));
        let is_set = || alarms.waiting.borrow().len() == 5;
        local
            .run_until(async {
                while !is_set() && rung.borrow().is_empty() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        if !is_set() {
            return None;
        }
        let ringing = local.run_until(async {
            tokio::select! {
                never = alarms.ring(&clock) => match never {},
                () = async { while rung.borrow().len() < 5 { tokio::task::yield_now().await } } => {}
            }
        });
        ringing.await;
        assert!(alarms.waiting.borrow().is_empty());
        Some(rung.take())
    }

    #[tokio::test(flavor = "current_thread")]
    async fn alarms_ring_in_the_order_of_their_times_and_never_early() {
        for before in [20, 200, 2000, 20_000] {
            if let Some(rung) = rung(Duration::from_millis(before)).await {
                return assert_eq!(rung, [0, 3, 3, 6, 9]);
            }
        }
        panic!("five alarms could not be set within 20 s");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_earlier_alarm_does_not_wait_for_a_later_one() {
        let (alarms, clock) = (Alarms::default(), Clock::started());
        let both = async {
            let late = alarms.at(3_600_000_000_000, &clock);
            let early = async {
                tokio::task::yield_now().await;
                alarms.at(2_000_000, &clock).await;
            };
            tokio::select! {
                () = late => panic!("it is an hour later"),
                () = early => {}
            }
        };
        tokio::select! {
            never = alarms.ring(&clock) => match never {},
            () = both => {}
        }
    }
}
