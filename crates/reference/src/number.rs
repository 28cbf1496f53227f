//! The numbers that models compute with, each in the arithmetic of its type.

use std::fmt;

use half::f16;

use super::tensor::{Datatype, text_element};

/// A number of one of the types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// A whole number that the type has; of BYTES, the INT32 of which an element has the decimal text.
    Whole(Datatype, i128),
    Fp16(f16),
    Fp32(f32),
    Fp64(f64),
}

impl Number {
    /// What these bits are in a type: its low ones in an integer, and their low 32 as an INT32 elsewhere. None where models do
    /// not compute with the type.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the low bits are what is meant")]
    pub(super) fn of_bits(datatype: Datatype, bits: u64) -> Option<Self> {
        let low = bits as i32;
        Some(match datatype {
            Datatype::Bool | Datatype::Bf16 => return None,
            Datatype::Fp16 => Self::Fp16(f16::from_f32(low as f32)),
            Datatype::Fp32 => Self::Fp32(low as f32),
            Datatype::Fp64 => Self::Fp64(low.into()),
            _ => Self::Whole(datatype, wrapped(datatype, bits.into())),
        })
    }

    /// Reads a decimal number; none where it is not one of the type.
    pub(super) fn read(datatype: Datatype, text: &str) -> Option<Self> {
        use Datatype::{Bf16, Bool, Fp16, Fp32, Fp64, Uint8, Uint16, Uint32, Uint64};
        let text = text.trim();
        let whole: i128 = match datatype {
            Bool | Bf16 => return None,
            Fp16 => return text.parse().ok().map(Self::Fp16),
            Fp32 => return text.parse().ok().map(Self::Fp32),
            Fp64 => return text.parse().ok().map(Self::Fp64),
            Uint8 | Uint16 | Uint32 | Uint64 => text.parse::<u64>().ok()?.into(),
            _ => text.parse::<i64>().ok()?.into(),
        };
        (wrapped(datatype, whole) == whole).then_some(Self::Whole(datatype, whole))
    }

    /// The element that these bytes are, of a type whose elements are of one size.
    pub(super) fn from_le_bytes(datatype: Datatype, bytes: &[u8]) -> Option<Self> {
        let size = datatype.size().filter(|size| *size == bytes.len())?;
        match datatype {
            Datatype::Fp16 => bytes.try_into().ok().map(f16::from_le_bytes).map(Self::Fp16),
            Datatype::Fp32 => bytes.try_into().ok().map(f32::from_le_bytes).map(Self::Fp32),
            Datatype::Fp64 => bytes.try_into().ok().map(f64::from_le_bytes).map(Self::Fp64),
            _ => {
                let mut bits = [0; 8];
                bits[..size].copy_from_slice(bytes);
                Self::of_bits(datatype, u64::from_le_bytes(bits))
            }
        }
    }

    /// The element as it stands in a tensor; a text with its length before it.
    pub(super) fn to_le_bytes(self) -> Vec<u8> {
        match self {
            Self::Whole(datatype, number) => match datatype.size() {
                Some(size) => number.to_le_bytes()[..size].to_vec(),
                None => text_element(number.to_string().as_bytes()),
            },
            Self::Fp16(number) => number.to_le_bytes().to_vec(),
            Self::Fp32(number) => number.to_le_bytes().to_vec(),
            Self::Fp64(number) => number.to_le_bytes().to_vec(),
        }
    }

    /// The sum of two numbers of one type: integers wrap around.
    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole(datatype, one), Self::Whole(its, other)) if datatype == its => {
                Self::Whole(datatype, wrapped(datatype, one + other))
            }
            (Self::Fp16(one), Self::Fp16(other)) => Self::Fp16(one + other),
            (Self::Fp32(one), Self::Fp32(other)) => Self::Fp32(one + other),
            (Self::Fp64(one), Self::Fp64(other)) => Self::Fp64(one + other),
            _ => unreachable!("a model has one type: {self:?}, {other:?}"),
        }
    }

    /// The number so many times, in the arithmetic of a type: of what is no whole number the whole part, and of whole ones the low bits.
    #[expect(clippy::cast_possible_truncation, reason = "the whole part is what is meant")]
    pub(super) fn times(self, datatype: Datatype, times: u32) -> Option<Self> {
        let float = match self {
            Self::Whole(..) => None,
            Self::Fp16(number) => Some(number.to_f64()),
            Self::Fp32(number) => Some(number.into()),
            Self::Fp64(number) => Some(number),
        };
        let one = match (datatype, self, float) {
            (Datatype::Fp16, _, Some(number)) => Self::Fp16(f16::from_f32(number as f32)),
            (Datatype::Fp32, _, Some(number)) => Self::Fp32(number as f32),
            (Datatype::Fp64, _, Some(number)) => Self::Fp64(number),
            (_, Self::Whole(_, number), _) => Self::of_bits(datatype, (number as i64).cast_unsigned())?,
            (_, _, number) => Self::of_bits(datatype, (number.unwrap_or(0.0) as i64).cast_unsigned())?,
        };
        Some((1..times).fold(one, |sum, _| sum.plus(one)))
    }

    /// Whether adding it changes nothing.
    pub(super) fn is_zero(self) -> bool {
        match self {
            Self::Whole(_, number) => number == 0,
            Self::Fp16(number) => number == f16::ZERO,
            Self::Fp32(number) => number == 0.0,
            Self::Fp64(number) => number == 0.0,
        }
    }
}

/// The number of the type that has the low bits of this one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low bits are what is meant")]
fn wrapped(datatype: Datatype, number: i128) -> i128 {
    match datatype {
        Datatype::Int8 => (number as i8).into(),
        Datatype::Int16 => (number as i16).into(),
        Datatype::Int64 => (number as i64).into(),
        Datatype::Uint8 => (number as u8).into(),
        Datatype::Uint16 => (number as u16).into(),
        Datatype::Uint32 => (number as u32).into(),
        Datatype::Uint64 => (number as u64).into(),
        _ => (number as i32).into(),
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(_, number) => number.fmt(f),
            Self::Fp16(number) => number.to_f64().fmt(f),
            Self::Fp32(number) => number.fmt(f),
            Self::Fp64(number) => number.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [Datatype; 12] = [
        Datatype::Int8,
        Datatype::Int16,
        Datatype::Int32,
        Datatype::Int64,
        Datatype::Uint8,
        Datatype::Uint16,
        Datatype::Uint32,
        Datatype::Uint64,
        Datatype::Fp16,
        Datatype::Fp32,
        Datatype::Fp64,
        Datatype::Bytes,
    ];

    #[test]
    fn each_type_has_its_own_arithmetic() {
        for (datatype, one, other, sum) in [
            (Datatype::Int8, "127", "1", "-128"),
            (Datatype::Int16, "32767", "1", "-32768"),
            (Datatype::Uint8, "255", "2", "1"),
            (Datatype::Uint16, "65535", "2", "1"),
            (Datatype::Int32, "2147483647", "1", "-2147483648"),
            (Datatype::Int64, "9223372036854775807", "1", "-9223372036854775808"),
            (Datatype::Uint32, "4294967295", "2", "1"),
            (Datatype::Uint64, "18446744073709551615", "2", "1"),
            (Datatype::Fp16, "2048", "1", "2048"),
            (Datatype::Fp16, "2047", "1", "2048"),
            (Datatype::Fp16, "2048", "3", "2052"),
            (Datatype::Fp16, "2048", "1.0009765625", "2050"),
            (Datatype::Fp16, "65504", "65504", "inf"),
            (Datatype::Fp32, "16777216", "1", "16777216"),
            (Datatype::Fp32, "3e38", "3e38", "inf"),
            (Datatype::Fp64, "16777216", "1", "16777217"),
            (Datatype::Bytes, "2147483647", "1", "-2147483648"),
        ] {
            let read = |text| Number::read(datatype, text).expect("a number");
            assert_eq!(read(one).plus(read(other)), read(sum), "{datatype:?}");
        }
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for datatype in TYPES {
            let number = Number::read(datatype, " 42 ").expect("a number");
            assert_eq!(Number::of_bits(datatype, 42), Some(number));
            let bytes = number.to_le_bytes();
            let back = if datatype == Datatype::Bytes { None } else { Some(number) };
            assert_eq!(Number::from_le_bytes(datatype, &bytes), back, "{datatype:?}");
            assert_eq!(Number::from_le_bytes(datatype, &bytes[1..]), None);
            assert!(!number.is_zero() && Number::of_bits(datatype, 0).is_some_and(Number::is_zero));
            for text in ["", "x", "1 2", "0x10", "99999999999999999999999x"] {
                assert_eq!(Number::read(datatype, text), None, "{datatype:?} {text}");
            }
        }
        assert_eq!(Number::Whole(Datatype::Bytes, -12).to_le_bytes(), *b"\x03\0\0\0-12");
        assert_eq!((Number::read(Datatype::Uint32, "-1"), Number::read(Datatype::Int32, "1.5")), (None, None));
        assert_eq!(Number::read(Datatype::Bytes, "2147483648"), None);
        assert_eq!((Number::read(Datatype::Int8, "128"), Number::read(Datatype::Uint16, "-1")), (None, None));
    }

    #[test]
    fn of_an_id_a_type_has_the_bits_that_it_holds() {
        let id = 0x1234_5678_ffff_fffe;
        for (datatype, is) in [
            (Datatype::Int8, Number::Whole(Datatype::Int8, -2)),
            (Datatype::Int16, Number::Whole(Datatype::Int16, -2)),
            (Datatype::Uint8, Number::Whole(Datatype::Uint8, 0xfe)),
            (Datatype::Uint16, Number::Whole(Datatype::Uint16, 0xfffe)),
            (Datatype::Fp16, Number::Fp16(f16::from_f32(-2.0))),
            (Datatype::Int32, Number::Whole(Datatype::Int32, -2)),
            (Datatype::Int64, Number::Whole(Datatype::Int64, 0x1234_5678_ffff_fffe)),
            (Datatype::Uint32, Number::Whole(Datatype::Uint32, 0xffff_fffe)),
            (Datatype::Uint64, Number::Whole(Datatype::Uint64, id.into())),
            (Datatype::Fp32, Number::Fp32(-2.0)),
            (Datatype::Fp64, Number::Fp64(-2.0)),
            (Datatype::Bytes, Number::Whole(Datatype::Bytes, -2)),
        ] {
            assert_eq!(Number::of_bits(datatype, id), Some(is));
        }
        assert_eq!(Number::of_bits(Datatype::Bool, id), None);
    }
}
