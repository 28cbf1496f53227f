//! The types that the elements of tensors have, and single values of them.

use std::fmt;

macro_rules! elements {
    ($($variant:ident $name:literal $what:literal;)*) => {
        /// What the elements of a tensor are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ElementType { $(#[doc = $what] $variant,)* }

        impl ElementType {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

elements! {
    Bool "BOOL" "True or false.";
    Int8 "INT8" "Whole numbers of 8 bits.";
    Int16 "INT16" "Whole numbers of 16 bits.";
    Int32 "INT32" "Whole numbers of 32 bits.";
    Int64 "INT64" "Whole numbers of 64 bits.";
    Uint8 "UINT8" "Whole numbers of 8 bits without a sign.";
    Uint16 "UINT16" "Whole numbers of 16 bits without a sign.";
    Uint32 "UINT32" "Whole numbers of 32 bits without a sign.";
    Uint64 "UINT64" "Whole numbers of 64 bits without a sign.";
    Fp16 "FP16" "Floating-point numbers of 16 bits, 10 of them for the fraction.";
    Bf16 "BF16" "Floating-point numbers of 16 bits, 7 of them for the fraction.";
    Fp32 "FP32" "Floating-point numbers of 32 bits.";
    Fp64 "FP64" "Floating-point numbers of 64 bits.";
    Text "TEXT" "Texts.";
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ElementType {
    /// It has sums: all but truth values and texts.
    #[must_use]
    pub fn is_number(self) -> bool {
        !matches!(self, Self::Bool | Self::Text)
    }

    /// The least and the greatest whole number of the type; none where it is not of whole numbers.
    #[must_use]
    pub fn range(self) -> Option<(i128, i128)> {
        let (bits, signed) = match self {
            Self::Int8 => (8, true),
            Self::Int16 => (16, true),
            Self::Int32 => (32, true),
            Self::Int64 => (64, true),
            Self::Uint8 => (8, false),
            Self::Uint16 => (16, false),
            Self::Uint32 => (32, false),
            Self::Uint64 => (64, false),
            Self::Bool | Self::Fp16 | Self::Bf16 | Self::Fp32 | Self::Fp64 | Self::Text => return None,
        };
        let values = 1_i128 << bits;
        Some(if signed { (-values / 2, values / 2 - 1) } else { (0, values - 1) })
    }

    /// The bits of the exponent and of the fraction of a floating-point type.
    fn float(self) -> Option<(u32, u32)> {
        match self {
            Self::Fp16 => Some((5, 10)),
            Self::Bf16 => Some((8, 7)),
            Self::Fp32 => Some((8, 23)),
            Self::Fp64 => Some((11, 52)),
            _ => None,
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
    #[must_use]
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
    let (bits, width) = if let Some((least, greatest)) = element.range() {
        (number, (greatest - least).count_ones() / 8)
    } else {
        let (exponent, fraction) = element.float()?;
        (i128::from(float_bits(number, exponent, fraction)?), (1 + exponent + fraction) / 8)
    };
    let fits = element.range().is_none_or(|(least, greatest)| (least..=greatest).contains(&number));
    let width = usize::try_from(width).expect("it is at most 8");
    fits.then(|| bits.to_le_bytes()[..width].to_vec())
}

/// A whole number in a binary floating-point form of IEEE 754; none where it would have to be rounded.
fn float_bits(number: i128, exponent: u32, fraction: u32) -> Option<u64> {
    let size = number.unsigned_abs();
    if size == 0 {
        return Some(0);
    }
    let power = size.ilog2();
    let bias = (1 << (exponent - 1)) - 1;
    let rest = size - (1 << power);
    let kept = if power <= fraction {
        rest << (fraction - power)
    } else {
        let dropped = power - fraction;
        if rest.trailing_zeros() < dropped {
            return None;
        }
        rest >> dropped
    };
    let sign = u64::from(number < 0) << (exponent + fraction);
    let kept = u64::try_from(kept).expect("a fraction has at most 52 bits");
    (power <= bias).then_some(sign | (u64::from(power + bias) << fraction) | kept)
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
