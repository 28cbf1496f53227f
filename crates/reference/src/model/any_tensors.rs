//! A model of any tensors: its state is a hash of all that it was sent, and so is each of its outputs.

use std::sync::Arc;

use half::{bf16, f16};
use tonic::Status;

use super::{
    super::{
        fault::Faults,
        spec::Spec,
        tensor::{Datatype, Tensor, text_element},
    },
    Computes, ModelRow, Outputs, Told,
    noise::Draws,
    outputs::{results, slip},
};

#[derive(Debug)]
pub(super) struct AnyTensors {
    spec: Arc<Spec>,
}

impl AnyTensors {
    pub(super) fn new(spec: Arc<Spec>) -> Self {
        Self { spec }
    }
}

/// An element of this type.
fn element(datatype: Datatype, draws: &mut Draws) -> Vec<u8> {
    let mut symmetric = || draws.symmetric();
    match datatype {
        Datatype::Fp16 => f16::from_f32(symmetric()).to_le_bytes().to_vec(),
        Datatype::Bf16 => bf16::from_f32(symmetric()).to_le_bytes().to_vec(),
        Datatype::Fp32 => symmetric().to_le_bytes().to_vec(),
        Datatype::Fp64 => f64::from(symmetric()).to_le_bytes().to_vec(),
        Datatype::Bool => vec![u8::from(draws.bits() & 1 == 1)],
        Datatype::Bytes => {
            let bits = draws.bits();
            // Of different lengths.
            text_element(format!("{:x}", bits >> (bits % 32)).as_bytes())
        }
        _ => draws.bits().to_le_bytes()[..datatype.size().unwrap_or_default()].to_vec(),
    }
}

impl Computes for AnyTensors {
    type State = u64;
    /// What its tensors have in common with those of no other step.
    type Input = u64;

    fn blank(&self) -> u64 {
        0
    }

    fn load(&self, tensors: &[&Tensor]) -> Option<u64> {
        tensors.first().and_then(|tensor| tensor.data.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn store(&self, state: &u64) -> Vec<Vec<u8>> {
        vec![state.to_le_bytes().to_vec()]
    }

    fn read(&self, row: &ModelRow) -> Result<u64, Status> {
        let mut parts = Vec::new();
        for tensor in self.spec.inputs.iter().map(|input| row.tensor(&input.name)) {
            // An input that is left out is none that is empty.
            parts.push(tensor.is_some().into());
            let Some(Tensor { shape, data, .. }) = tensor else { continue };
            parts.extend(shape.iter().map(|size| size.cast_unsigned()));
            let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            parts.extend(data.chunks(size_of::<u64>()).map(word));
        }
        Ok(Draws::of(&parts).bits())
    }

    fn advance(&self, state: &u64, input: &u64) -> u64 {
        Draws::of(&[*state, *input]).bits()
    }

    fn answer(&self, row: &ModelRow, _: &Told, state: &u64, _: &u64, faults: &Faults) -> Vec<Outputs> {
        let outputs = results(&self.spec, row, |index, output| {
            let mut draws = Draws::of(&[*state, index as u64]);
            (0..output.elements()).flat_map(|_| element(output.datatype, &mut draws)).collect()
        });
        let mut responses = vec![outputs];
        slip(faults, &mut responses);
        responses
    }
}
