//! What the network does to one connection, drawn when it is made.

use std::{future::pending, time::Duration};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::time::sleep;

use super::{direction::Pace, gate::Gate};
use crate::net::Mark;
use workload::scenario::{BLACK_HOLE_MAX, CutBy, Distribution, Network};

/// What is done to a connection.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) cut: Option<Cut>,
    pub(super) hole: Option<Hole>,
    pub(super) up: Pace,
    pub(super) down: Pace,
}

/// When something comes: so long after the connection was made or after so many bytes, whichever is first.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    time: Option<Duration>,
    pub(super) bytes: Option<u64>,
}

/// The end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) when: When,
    pub(super) by: CutBy,
}

/// A while in which nothing passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    pub(super) when: When,
    lasts: Option<Duration>,
    /// How long until the connection is given up where the hole has no end.
    patience: Option<Duration>,
}

impl Course {
    pub(super) fn draw(network: &Network, patience: Option<Duration>, generator: &mut ChaCha8Rng) -> Self {
        let cut = network.cut.as_ref().map(|cut| {
            let when = When::draw(cut.after_ms.as_ref(), cut.after_bytes.as_ref(), generator);
            Cut { when, by: cut.by }
        });
        let hole = network.black_hole.as_ref().map(|hole| Hole {
            when: When::draw(hole.after_ms.as_ref(), hole.after_bytes.as_ref(), generator),
            lasts: hole.for_ms.as_ref().map(|drawn| milliseconds(drawn, generator).min(BLACK_HOLE_MAX)),
            patience,
        });
        // Each direction has draws of its own, because which of them is first depends on the time.
        let mut pace = || Pace::new(network, ChaCha8Rng::seed_from_u64(generator.random()));
        Self { cut, hole, up: pace(), down: pace() }
    }
}

impl When {
    fn draw(time: Option<&Distribution>, bytes: Option<&Distribution>, generator: &mut ChaCha8Rng) -> Self {
        let time = time.map(|drawn| milliseconds(drawn, generator));
        Self { time, bytes: bytes.map(|drawn| drawn.draw(generator).into()) }
    }

    /// Waits until it comes.
    pub(super) async fn comes(&self, gate: &Gate) {
        tokio::select! {
            () = sleep(self.time.unwrap_or_default()), if self.time.is_some() => {}
            () = gate.passed(self.bytes.unwrap_or_default()), if self.bytes.is_some() => {}
            else => pending().await,
        }
    }
}

impl Hole {
    /// Lets nothing pass when it comes; done when the connection is given up.
    pub(super) async fn swallow(self, gate: &Gate, mark: &Mark) {
        self.when.comes(gate).await;
        gate.close();
        if let Some(lasts) = self.lasts {
            sleep(lasts).await;
            gate.open(self.when.bytes);
            return pending().await;
        }
        mark.set();
        match self.patience {
            Some(patience) => sleep(patience).await,
            None => pending().await,
        }
    }
}

fn milliseconds(drawn: &Distribution, generator: &mut ChaCha8Rng) -> Duration {
    Duration::from_millis(drawn.draw(generator).into())
}
