//! The types that the elements of tensors have, and single values of them.

use std::fmt;

use half::{bf16, f16};

macro_rules! elements {
    ($($variant:ident $name:literal $what:literal $row:expr;)*) => {
        /// What the elements of a tensor are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ElementType { $(#[doc = $what] $variant,)* }

        impl ElementType {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub(crate) fn row(self) -> Row {
                match self { $(Self::$variant => $row,)* }
            }
        }
    };
}

/// What a type is like, and what it is called in the files of each format.
pub(crate) struct Row {
    kind: Kind,
    /// Its number in ONNX, in `TensorProto.DataType`.
    pub(crate) onnx: i32,
    /// Its number in TensorFlow, in `DataType`.
    pub(crate) tensorflow: i32,
    /// OpenVINO's name for it in attributes, and in ports; none where OpenVINO computes nothing with it.
    pub(crate) openvino: Option<(&'static str, &'static str)>,
    /// Its number in the code of TorchScript, and the name of a storage of it; none where torch has no such type, or only stores it.
    pub(crate) torch: Option<(u8, &'static str)>,
}

/// What the elements are; numbers by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Truth,
    Signed(u32),
    Unsigned(u32),
    Float(u32),
    Text,
}
use Kind::{Float, Signed, Text, Truth, Unsigned};

elements! {
    Bool "BOOL" "True or false."
        Row { kind: Truth, onnx: 9, tensorflow: 10, openvino: Some(("boolean", "BOOL")), torch: Some((11, "BoolStorage")) };
    Int8 "INT8" "Whole numbers of 8 bits."
        Row { kind: Signed(8), onnx: 3, tensorflow: 6, openvino: Some(("i8", "I8")), torch: Some((1, "CharStorage")) };
    Int16 "INT16" "Whole numbers of 16 bits."
        Row { kind: Signed(16), onnx: 5, tensorflow: 5, openvino: Some(("i16", "I16")), torch: Some((2, "ShortStorage")) };
    Int32 "INT32" "Whole numbers of 32 bits."
        Row { kind: Signed(32), onnx: 6, tensorflow: 3, openvino: Some(("i32", "I32")), torch: Some((3, "IntStorage")) };
    Int64 "INT64" "Whole numbers of 64 bits."
        Row { kind: Signed(64), onnx: 7, tensorflow: 9, openvino: Some(("i64", "I64")), torch: Some((4, "LongStorage")) };
    Uint8 "UINT8" "Whole numbers of 8 bits without a sign."
        Row { kind: Unsigned(8), onnx: 2, tensorflow: 4, openvino: Some(("u8", "U8")), torch: Some((0, "ByteStorage")) };
    Uint16 "UINT16" "Whole numbers of 16 bits without a sign."
        Row { kind: Unsigned(16), onnx: 4, tensorflow: 17, openvino: Some(("u16", "U16")), torch: None };
    Uint32 "UINT32" "Whole numbers of 32 bits without a sign."
        Row { kind: Unsigned(32), onnx: 12, tensorflow: 22, openvino: Some(("u32", "U32")), torch: None };
    Uint64 "UINT64" "Whole numbers of 64 bits without a sign."
        Row { kind: Unsigned(64), onnx: 13, tensorflow: 23, openvino: Some(("u64", "U64")), torch: None };
    Fp16 "FP16" "Floating-point numbers of 16 bits, 10 of them for the fraction."
        Row { kind: Float(16), onnx: 10, tensorflow: 19, openvino: Some(("f16", "FP16")), torch: Some((5, "HalfStorage")) };
    Bf16 "BF16" "Floating-point numbers of 16 bits, 7 of them for the fraction."
        Row { kind: Float(16), onnx: 16, tensorflow: 14, openvino: Some(("bf16", "BF16")), torch: Some((15, "BFloat16Storage")) };
    Fp32 "FP32" "Floating-point numbers of 32 bits."
        Row { kind: Float(32), onnx: 1, tensorflow: 1, openvino: Some(("f32", "FP32")), torch: Some((6, "FloatStorage")) };
    Fp64 "FP64" "Floating-point numbers of 64 bits."
        Row { kind: Float(64), onnx: 11, tensorflow: 2, openvino: Some(("f64", "FP64")), torch: Some((7, "DoubleStorage")) };
    Text "TEXT" "Texts."
        Row { kind: Text, onnx: 8, tensorflow: 7, openvino: None, torch: None };
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ElementType {
    /// It has sums: all but truth values and texts.
    pub fn is_number(self) -> bool {
        !matches!(self.row().kind, Truth | Text)
    }

    /// The least and the greatest whole number of the type; none where it is not of whole numbers.
    pub fn range(self) -> Option<(i128, i128)> {
        match self.row().kind {
            Signed(bits) => Some((-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)),
            Unsigned(bits) => Some((0, (1_i128 << bits) - 1)),
            Truth | Float(_) | Text => None,
        }
    }

    /// FP32 of the smaller floating-point types, else the type itself.
    pub(crate) fn with_wider_floats(self) -> Self {
        if self.row().kind == Float(16) { Self::Fp32 } else { self }
    }

    /// The type that computes its numbers, of INT32, INT64, FP32 and FP64; whole numbers of both wrap alike. Of others the type itself.
    pub(crate) fn widened(self) -> Self {
        match self.row().kind {
            Signed(bits) | Unsigned(bits) if bits < 32 => Self::Int32,
            Unsigned(_) => Self::Int64,
            _ => self.with_wider_floats(),
        }
    }
}

/// One value that stands in a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// True or false.
    Truth(bool),
    /// A whole number, of a type of whole or floating-point numbers.
    Whole(i128),
    /// A text.
    Text(String),
}

impl Scalar {
    /// The bytes of this value as an element of the type, the least significant first; none where the type does not have
    /// exactly this value.
    pub fn bytes(&self, element: ElementType) -> Option<Vec<u8>> {
        match (self, element) {
            (Self::Truth(truth), ElementType::Bool) => Some(vec![u8::from(*truth)]),
            (Self::Text(text), ElementType::Text) => Some(text.clone().into_bytes()),
            (Self::Whole(number), _) => number_bytes(*number, element),
            _ => None,
        }
    }
}

fn number_bytes(number: i128, element: ElementType) -> Option<Vec<u8>> {
    if let Some((least, greatest)) = element.range() {
        let width = usize::try_from((greatest - least).count_ones() / 8).expect("it is at most 8");
        return (least..=greatest).contains(&number).then(|| number.to_le_bytes()[..width].to_vec());
    }
    #[expect(clippy::cast_precision_loss, reason = "what is rounded is seen below")]
    let (near, nearest) = (number as f64, number as f32);
    let (bytes, kept) = match element {
        ElementType::Fp16 => (f16::from_f64(near).to_le_bytes().to_vec(), f16::from_f64(near).into()),
        ElementType::Bf16 => (bf16::from_f64(near).to_le_bytes().to_vec(), bf16::from_f64(near).into()),
        ElementType::Fp32 => (nearest.to_le_bytes().to_vec(), nearest.into()),
        ElementType::Fp64 => (near.to_le_bytes().to_vec(), near),
        _ => return None,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and has no sign, or is infinite"
    )]
    let size = kept.abs() as u128;
    (size == number.unsigned_abs()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{
        ElementType::{Bf16, Bool, Fp16, Fp32, Fp64, Int8, Int32, Text, Uint64},
        Scalar,
    };

    #[test]
    fn values_are_written_as_the_machine_has_them() {
        for number in [0_i16, 1, -1, 3, 1000, -4096, 12345] {
            let whole = Scalar::Whole(number.into());
            assert_eq!(whole.bytes(Int32), Some(i32::from(number).to_le_bytes().to_vec()));
            assert_eq!(whole.bytes(Fp32), Some(f32::from(number).to_le_bytes().to_vec()));
            assert_eq!(whole.bytes(Fp64), Some(f64::from(number).to_le_bytes().to_vec()));
        }
        assert_eq!(Scalar::Whole(1000).bytes(Fp16), Some(0x63d0_u16.to_le_bytes().to_vec()));
        assert_eq!(Scalar::Whole(-3).bytes(Bf16), Some(0xc040_u16.to_le_bytes().to_vec()));
        assert_eq!(Scalar::Whole(u64::MAX.into()).bytes(Uint64), Some(vec![0xff; 8]));
        assert_eq!(Scalar::Truth(true).bytes(Bool), Some(vec![1]));
        assert_eq!(Scalar::Text("7".into()).bytes(Text), Some(b"7".to_vec()));
    }

    #[test]
    fn what_a_type_does_not_have_is_not_rounded() {
        for (number, element) in [(128, Int8), (-1, Uint64), (257, Bf16), (65_536, Fp16), (2049, Fp16), (1, Bool)] {
            assert_eq!(Scalar::Whole(number).bytes(element), None, "{number} as {element}");
        }
        assert_eq!(Scalar::Truth(true).bytes(Int32), None);
        assert_eq!(Scalar::Text("1".into()).bytes(Int32), None);
    }
}
