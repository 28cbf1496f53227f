//! Where every choice of a run comes from.

use std::fmt;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number::Written;

/// The number that fixes a run's plan.
///
/// The generator is `ChaCha` with 8 rounds, keyed by the seed; each worker draws from the stream of its own index, so what
/// one worker sends depends on the seed and on that index alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl From<Seed> for Written {
    fn from(Seed(seed): Seed) -> Self {
        seed.into()
    }
}

impl TryFrom<Written> for Seed {
    type Error = <u64 as TryFrom<Written>>::Error;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        written.try_into().map(Self)
    }
}

impl Seed {
    /// The generator of the worker with this index.
    pub fn generator(self, worker: u32) -> ChaCha8Rng {
        self.keyed(b"", worker.into())
    }

    /// The generator for what the network does to a connection of a worker, the how-manieth it makes; it has nothing to do with
    /// what is sent.
    pub fn of_connection(self, worker: u32, connection: u32) -> ChaCha8Rng {
        self.keyed(b"network", u64::from(worker) << 32 | u64::from(connection))
    }

    /// The generator of the times at which a population's iterations are due, by its index.
    pub fn of_arrivals(self, population: u32) -> ChaCha8Rng {
        self.keyed(b"arrivals", population.into())
    }

    /// The generator of the tracks that a worker draws; without them nothing else that it draws would be another.
    pub fn of_tracks(self, worker: u32) -> ChaCha8Rng {
        self.keyed(b"tracks", worker.into())
    }

    /// The generator of the random inputs of the track with this index, from 0.
    pub fn of_inputs(self, track: u64) -> ChaCha8Rng {
        self.keyed(b"inputs", track)
    }

    /// The generator of a hostile request, by its kind and its number.
    pub fn of_hostile(self, kind: u32, number: u32) -> ChaCha8Rng {
        self.keyed(b"hostile", u64::from(kind) << 32 | u64::from(number))
    }

    /// What decides how long messages are under way in a simulation.
    pub fn of_simulation(self) -> ChaCha8Rng {
        self.keyed(b"simulation", 0)
    }

    /// What decides the runs of a search.
    pub fn of_search(self) -> ChaCha8Rng {
        self.keyed(b"search", 0)
    }

    fn keyed(self, purpose: &[u8], stream: u64) -> ChaCha8Rng {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.0.to_le_bytes());
        key[8..8 + purpose.len()].copy_from_slice(purpose);
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(stream);
        generator
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
