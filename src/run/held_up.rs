//! How long a thread could not run although it was to: a stopped process, or cores that others want.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// How often a thread looks whether it is woken in time.
const LOOK: Duration = Duration::from_millis(20);
/// By how much a thread that nothing holds up may wake too late.
const USUAL: Duration = Duration::from_millis(10);

/// The time that a thread was held up for, since it began to be measured.
///
/// What waits for the server's answer within a limit waits for so much longer: where this process gets no share of the machine,
/// its server, the network between them, or what it itself has to read first may not have had one either.
#[derive(Debug, Default)]
pub(super) struct HeldUp(AtomicU64);

impl HeldUp {
    pub(super) fn so_far(&self) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }

    /// Measures the thread that this runs in, for as long as it is polled.
    pub(super) async fn measure(&self) -> Infallible {
        loop {
            let due = Instant::now() + LOOK;
            sleep_until(due).await;
            let late = due.elapsed();
            if late > USUAL {
                self.0.fetch_add(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX), Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_is_woken_in_time_is_not_held_up() {
        let held_up = HeldUp::default();
        let _ = tokio::time::timeout(Duration::from_secs(10), held_up.measure()).await;
        assert_eq!(held_up.so_far(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_was_kept_from_running_is_held_up() {
        let held_up = HeldUp::default();
        let kept = async {
            tokio::time::sleep(LOOK / 2).await;
            // No task is woken meanwhile.
            tokio::time::advance(LOOK * 5).await;
            tokio::time::sleep(LOOK * 2).await;
        };
        tokio::select! {
            _ = held_up.measure() => {}
            () = kept => {}
        }
        // The first look was due when half a LOOK had passed.
        let late = held_up.so_far();
        assert!((LOOK * 4..LOOK * 5).contains(&late), "{late:?}");
    }
}
