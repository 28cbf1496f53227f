//! One direction of a connection: a delay line with a bounded length.

use std::{collections::VecDeque, io, time::Duration};

use rand_chacha::ChaCha8Rng;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    task::yield_now,
    time::{Instant, sleep_until},
};

use super::gate::Gate;
use workload::scenario::{Distribution, LATENCY_MAX, Network};

/// The most that is under way; more is not read, so that who sends it has to wait.
const UNDER_WAY_MAX: usize = 256 << 10;
/// The most slices of what is read at a time; the rest goes in one. A busy machine would be kept from all else by more.
const SLICES_MAX: usize = 64;
/// The most that is read at a time, and what that is where nothing is done to it.
const PIECE: usize = 4096;
const LARGE_PIECE: usize = 32 << 10;

/// How fast a direction is.
#[derive(Debug)]
pub(super) struct Pace {
    latency: Option<Distribution>,
    bytes_per_second: Option<u64>,
    slice: usize,
    generator: ChaCha8Rng,
    /// When all that came so far has passed.
    free_at: Option<Instant>,
}

impl Pace {
    pub(super) fn new(network: &Network, generator: ChaCha8Rng) -> Self {
        Self {
            latency: network.latency_ms.clone(),
            bytes_per_second: network.bandwidth_kib_s.map(|kib| u64::from(kib.get()) << 10),
            slice: network.slice_bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes.get()).unwrap_or(usize::MAX)),
            generator,
            free_at: None,
        }
    }

    /// Whether all passes as soon as it comes.
    fn is_at_once(&self) -> bool {
        self.latency.is_none() && self.bytes_per_second.is_none()
    }

    /// When so many bytes that come now have passed; never before those that came before them.
    fn due(&mut self, bytes: usize) -> Instant {
        let latency = self.latency.as_ref().map_or(Duration::ZERO, |drawn| {
            Duration::from_millis(drawn.draw(&mut self.generator).into()).min(LATENCY_MAX)
        });
        let arrives = Instant::now() + latency;
        let begins = self.free_at.map_or(arrives, |free_at| free_at.max(arrives));
        let takes = self.bytes_per_second.map_or(0, |rate| (bytes as u64).saturating_mul(1_000_000) / rate);
        let due = begins + Duration::from_micros(takes);
        self.free_at = Some(due);
        due
    }
}

/// Passes on what comes until its end, which is passed on too. Where one of the ends is gone, what came before is passed on first.
pub(super) async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    gate: &Gate,
    mut pace: Pace,
) -> io::Result<()> {
    if pace.is_at_once() {
        return pass_at_once(from, to, gate, pace.slice).await;
    }
    let (mut pieces, mut under_way) = (VecDeque::<(Instant, Vec<u8>)>::new(), 0);
    let mut buffer = vec![0; PIECE];
    let mut end = None;
    loop {
        let due = pieces.front().map(|(due, _)| *due);
        match (due, end.take()) {
            (None, Some(Ok(()))) => return to.shutdown().await,
            (None, Some(Err(error))) => return Err(error),
            (_, unchanged) => end = unchanged,
        }
        tokio::select! {
            read = from.read(&mut buffer), if end.is_none() && under_way < UNDER_WAY_MAX => match read {
                Ok(0) => end = Some(Ok(())),
                Ok(bytes) => {
                    under_way += bytes;
                    pieces.push_back((pace.due(bytes), buffer[..bytes].to_vec()));
                }
                Err(error) => end = Some(Err(error)),
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                let (_, piece) = pieces.pop_front().expect("it is due");
                under_way -= piece.len();
                write(to, &piece, gate, pace.slice).await?;
            }
        }
    }
}

/// The same without a timer, whose milliseconds would be a delay.
async fn pass_at_once(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    gate: &Gate,
    slice: usize,
) -> io::Result<()> {
    let mut buffer = vec![0; LARGE_PIECE];
    loop {
        match from.read(&mut buffer).await? {
            0 => return to.shutdown().await,
            bytes => write(to, &buffer[..bytes], gate, slice).await?,
        }
    }
}

async fn write(to: &mut (impl AsyncWrite + Unpin), mut piece: &[u8], gate: &Gate, slice: usize) -> io::Result<()> {
    let mut slices = 0;
    while !piece.is_empty() {
        let most = if slices < SLICES_MAX { slice } else { usize::MAX };
        let bytes = gate.enter(piece.len().min(most)).await;
        to.write_all(&piece[..bytes]).await?;
        piece = &piece[bytes..];
        slices += 1;
        // So that each slice goes out by itself, and no connection keeps the others waiting.
        yield_now().await;
    }
    // What secures the connection may gather.
    to.flush().await
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use tokio::{io::duplex, time::timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_sends_has_to_wait_for_who_reads() {
        const PIPE: usize = 1000;
        for latency in [None, Some(Distribution::Constant(1))] {
            let network = Network { latency_ms: latency, ..Network::default() };
            let pace = Pace::new(&network, ChaCha8Rng::seed_from_u64(0));
            let (mut client, mut near) = duplex(PIPE);
            // Nobody reads at the other end.
            let (mut far, _server) = duplex(PIPE);
            let passing = tokio::spawn(async move { pass(&mut near, &mut far, &Gate::new(&[]), pace).await });
            let mut sent = 0;
            // The paused clock goes on when no task can: the hour passes when the write waits for good.
            while let Ok(written) = timeout(Duration::from_secs(3600), client.write(&[0; PIPE])).await {
                sent += written.expect("a connection");
                assert!(sent < 2 * UNDER_WAY_MAX, "it takes in whatever comes");
            }
            assert!(!passing.is_finished());
            // Both pipes are full; one piece that was read and one that is being written may be beyond the bound.
            assert!(sent < UNDER_WAY_MAX + 2 * (PIECE + PIPE), "{sent}");
            assert!(sent >= UNDER_WAY_MAX || network.latency_ms.is_none(), "{sent}");
        }
    }
}
