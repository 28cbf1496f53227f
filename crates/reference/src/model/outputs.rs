//! Inputs and outputs of the models without a formula.

use half::{bf16, f16};

use super::{
    super::{
        fault::{Fault, Faults},
        spec::{Spec, Tells, TensorSpec},
        tensor::{Datatype, Tensor, text_element, texts},
    },
    ModelRow, Outputs,
};

/// By how much a fault changes a floating-point number.
const SLIP: f32 = 0.05;

/// The first numbers of an input; zeros where it has fewer, or is not there.
pub(super) fn floats(row: &ModelRow, name: &str, count: usize) -> Vec<f32> {
    let mut floats = row.tensor(name).map(|tensor| to_floats(&tensor.data)).unwrap_or_default();
    floats.resize(count, 0.0);
    floats
}

pub(super) fn to_floats(data: &[u8]) -> Vec<f32> {
    data.chunks_exact(size_of::<f32>()).map(|bytes| bytes.try_into().map_or(0.0, f32::from_le_bytes)).collect()
}

pub(super) fn to_bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_le_bytes()).collect()
}

/// The results that a row asks for, each with the bytes that are made for it. A request of several elements in one batch, which no
/// correct server executes, has the same for each.
pub(super) fn results(spec: &Spec, row: &ModelRow, data: impl Fn(usize, &TensorSpec) -> Vec<u8>) -> Outputs {
    let input = spec.inputs.iter().find_map(|input| row.tensor(&input.name));
    let batch = input.and_then(|input| input.shape.first().copied()).filter(|_| spec.batches()).unwrap_or(1);
    let outputs = spec.outputs.iter().zip(&spec.tells).enumerate();
    let asked = outputs.filter(|(index, (_, tells))| row.wants.has(*index) && **tells == Tells::Result);
    let result = |(index, (output, _)): (usize, (&TensorSpec, _))| {
        let data = data(index, output).repeat(usize::try_from(batch).unwrap_or(1));
        let shape = spec.shape(batch, &output.dims);
        (output.name.clone(), Tensor { datatype: output.datatype, shape, data })
    };
    asked.map(result).collect()
}

/// Commits the faults of single elements.
pub(super) fn slip(faults: &Faults, responses: &mut [Outputs]) {
    let has_element = responses.iter().flatten().any(|(_, tensor)| !tensor.data.is_empty());
    if has_element && faults.happens(Fault::OffByOne) {
        responses.iter_mut().filter_map(|outputs| outputs.first_mut()).for_each(|(_, tensor)| change(tensor, 0));
    }
    for outputs in responses {
        let several = outputs.iter_mut().map(|(_, tensor)| (elements(tensor), tensor)).find(|(count, _)| *count > 1);
        if let Some((count, tensor)) = several.filter(|_| faults.happens(Fault::WrongElement)) {
            change(tensor, count - 1);
        }
    }
}

fn elements(tensor: &Tensor) -> usize {
    tensor.datatype.size().map_or_else(|| texts(&tensor.data).count(), |size| tensor.data.len() / size)
}

/// Changes an element a little, and clearly.
fn change(tensor: &mut Tensor, index: usize) {
    let Some(size) = tensor.datatype.size() else {
        let each = texts(&tensor.data).map(Option::unwrap_or_default).enumerate();
        let changed = |(at, text)| if at == index { [text, &b"!"[..]].concat() } else { text.to_vec() };
        tensor.data = each.flat_map(|each| text_element(&changed(each))).collect();
        return;
    };
    let Some(element) = tensor.data.chunks_exact_mut(size).nth(index) else { return };
    match (tensor.datatype, &mut *element) {
        (Datatype::Bool, [value]) => *value ^= 1,
        (Datatype::Fp16, &mut [low, high]) => {
            element.copy_from_slice(&(f16::from_le_bytes([low, high]) + f16::from_f32(SLIP)).to_le_bytes());
        }
        (Datatype::Bf16, &mut [low, high]) => {
            element.copy_from_slice(&(bf16::from_le_bytes([low, high]) + bf16::from_f32(SLIP)).to_le_bytes());
        }
        (Datatype::Fp32, &mut [a, b, c, d]) => {
            element.copy_from_slice(&(f32::from_le_bytes([a, b, c, d]) + SLIP).to_le_bytes());
        }
        (Datatype::Fp64, bytes) => {
            let value = (&*bytes).try_into().map_or(0.0, f64::from_le_bytes);
            element.copy_from_slice(&(value + f64::from(SLIP)).to_le_bytes());
        }
        (_, whole) => whole[0] = whole[0].wrapping_add(1),
    }
}
