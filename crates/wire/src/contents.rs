//! Typed contents of tensors, which the protocol has in place of raw contents.

use crate::proto::InferTensorContents;
use workload::inputs::{ElementType, append_text};

/// Raw contents of the elements in the list of this type. Of the smaller types the first bytes of each element count, as on the server. None
/// where the protocol has no list for the type.
pub(crate) fn raw_of(datatype: ElementType, contents: &InferTensorContents) -> Option<Vec<u8>> {
    use ElementType::{Bf16, Bool, Bytes, Fp16, Fp32, Fp64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64};
    /// The first bytes of each element, which has to be as wide as it needs.
    fn bytes<const N: usize>(elements: impl Iterator<Item = [u8; N]>, size: usize) -> Vec<u8> {
        elements.flat_map(|element| element.into_iter().take(size)).collect()
    }
    let size = datatype.size().unwrap_or_default();
    Some(match datatype {
        Bool => contents.bool_contents.iter().map(|value| u8::from(*value)).collect(),
        Int8 | Int16 | Int32 => bytes(contents.int_contents.iter().map(|value| value.to_le_bytes()), size),
        Int64 => bytes(contents.int64_contents.iter().map(|value| value.to_le_bytes()), size),
        Uint8 | Uint16 | Uint32 => bytes(contents.uint_contents.iter().map(|value| value.to_le_bytes()), size),
        Uint64 => bytes(contents.uint64_contents.iter().map(|value| value.to_le_bytes()), size),
        Fp32 => bytes(contents.fp32_contents.iter().map(|value| value.to_le_bytes()), size),
        Fp64 => bytes(contents.fp64_contents.iter().map(|value| value.to_le_bytes()), size),
        Bytes => {
            let mut out = Vec::new();
            if !contents.bytes_contents.iter().all(|text| append_text(text, &mut out)) {
                return None;
            }
            out
        }
        Fp16 | Bf16 => return None,
    })
}
