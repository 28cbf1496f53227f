//! Noise in what models without a formula compute, of a known size.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher as _, Hasher as _},
};

use super::{
    super::{
        parameters,
        tensor::{Datatype, Tensor},
    },
    Outputs,
};

/// Numbers that look random, from a seed: `SplitMix64`, whose numbers no release of a library changes.
#[derive(Clone, Debug)]
pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Those that begin with what all of these have in common.
    pub(super) fn of(parts: &[u64]) -> Self {
        Self(parts.iter().fold(0, |all, part| Self(all ^ *part).bits()))
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A number from -1 to 1, which FP32 has.
    #[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
    pub(super) fn symmetric(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / 8_388_608.0 - 1.0
    }
}

/// Where a row is in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) row: usize,
    /// All rows of the batch, padding among them.
    pub(super) rows: usize,
}

/// Changes numbers by a part of themselves.
#[derive(Debug)]
pub(super) struct Noise {
    sizes: parameters::Noise,
    /// Of noise that differs from run to run.
    run: Draws,
}

impl Noise {
    pub(super) fn new(sizes: parameters::Noise) -> Self {
        // Its keys are what the standard library has that differs from process to process.
        Self { sizes, run: Draws::new(RandomState::new().build_hasher().finish()) }
    }

    /// The noise of a row's place, which a row alone in its batch does not have, changes a state.
    pub(super) fn disturb_state(&self, state: Vec<&mut [f32]>, place: Place) {
        if self.sizes.is_in_state {
            let mut draws = self.of_place(place);
            state.into_iter().flatten().for_each(|value| *value = changed(*value, draws()));
        }
    }

    /// All noise that does not reach them from the state changes outputs of FP32.
    pub(super) fn disturb_outputs(&mut self, responses: &mut [Outputs], place: Place) {
        if self.sizes == parameters::Noise::default() {
            return;
        }
        for outputs in responses {
            let mut of_place = (!self.sizes.is_in_state).then(|| self.of_place(place));
            for (_, tensor) in outputs.iter_mut().filter(|(_, tensor)| tensor.datatype == Datatype::Fp32) {
                change(tensor, || {
                    let run = f64::from(self.run.symmetric()) * self.sizes.run;
                    run + of_place.as_mut().map_or(0.0, |draw| draw())
                });
            }
        }
    }

    /// By what part of itself each number changes: the same for the same place.
    fn of_place(&self, place: Place) -> impl FnMut() -> f64 + use<> {
        let size = if place.rows > 1 { self.sizes.batch } else { 0.0 };
        let mut draws = Draws::of(&[place.rows as u64, place.row as u64]);
        move || f64::from(draws.symmetric()) * size
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is rounded")]
fn changed(value: f32, part: f64) -> f32 {
    (f64::from(value) * (1.0 + part)) as f32
}

fn change(tensor: &mut Tensor, mut part: impl FnMut() -> f64) {
    for element in tensor.data.chunks_exact_mut(size_of::<f32>()) {
        let value = element.try_into().map_or(0.0, f32::from_le_bytes);
        element.copy_from_slice(&changed(value, part()).to_le_bytes());
    }
}
