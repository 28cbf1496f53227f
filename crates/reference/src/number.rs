//! The numbers that models compute with, each in the arithmetic of its type.

use std::fmt;

use half::f16;

use super::tensor::Datatype;

/// A number of one of the types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    Uint8(u8),
    Uint16(u16),
    Uint32(u32),
    Uint64(u64),
    Fp16(f16),
    Fp32(f32),
    Fp64(f64),
    /// The decimal text of an INT32, as an element of BYTES has it.
    Text(i32),
}

impl Number {
    /// What these bits are in a type: its low ones in an integer, and their low 32 as an INT32 elsewhere. None where models do
    /// not compute with the type.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the low bits are what is meant")]
    pub(super) fn of_bits(datatype: Datatype, bits: u64) -> Option<Self> {
        let low = bits as i32;
        Some(match datatype {
            Datatype::Bool => return None,
            Datatype::Int8 => Self::Int8(bits as i8),
            Datatype::Int16 => Self::Int16(bits as i16),
            Datatype::Int32 => Self::Int32(low),
            Datatype::Int64 => Self::Int64(bits.cast_signed()),
            Datatype::Uint8 => Self::Uint8(bits as u8),
            Datatype::Uint16 => Self::Uint16(bits as u16),
            Datatype::Uint32 => Self::Uint32(bits as u32),
            Datatype::Uint64 => Self::Uint64(bits),
            Datatype::Fp16 => Self::Fp16(f16::from_f32(low as f32)),
            Datatype::Fp32 => Self::Fp32(low as f32),
            Datatype::Fp64 => Self::Fp64(low.into()),
            Datatype::Bytes => Self::Text(low),
        })
    }

    /// Reads a decimal number; none where it is not one of the type.
    pub(super) fn read(datatype: Datatype, text: &str) -> Option<Self> {
        let text = text.trim();
        Some(match datatype {
            Datatype::Bool => return None,
            Datatype::Int8 => Self::Int8(text.parse().ok()?),
            Datatype::Int16 => Self::Int16(text.parse().ok()?),
            Datatype::Int32 => Self::Int32(text.parse().ok()?),
            Datatype::Int64 => Self::Int64(text.parse().ok()?),
            Datatype::Uint8 => Self::Uint8(text.parse().ok()?),
            Datatype::Uint16 => Self::Uint16(text.parse().ok()?),
            Datatype::Uint32 => Self::Uint32(text.parse().ok()?),
            Datatype::Uint64 => Self::Uint64(text.parse().ok()?),
            Datatype::Fp16 => Self::Fp16(text.parse().ok()?),
            Datatype::Fp32 => Self::Fp32(text.parse().ok()?),
            Datatype::Fp64 => Self::Fp64(text.parse().ok()?),
            Datatype::Bytes => Self::Text(text.parse().ok()?),
        })
    }

    /// The element that these bytes are, of a type whose elements are of one size.
    pub(super) fn from_le_bytes(datatype: Datatype, bytes: &[u8]) -> Option<Self> {
        Some(match datatype {
            Datatype::Bool | Datatype::Bytes => return None,
            Datatype::Int8 => Self::Int8(i8::from_le_bytes(bytes.try_into().ok()?)),
            Datatype::Int16 => Self::Int16(i16::from_le_bytes(bytes.try_into().ok()?)),
            Datatype::Uint8 => Self::Uint8(u8::from_le_bytes(bytes.try_into().ok()?)),
            Datatype::Uint16 => Self::Uint16(u16::from_le_bytes(bytes.try_into().ok()?)),
            Datatype::Int32 => Self::Int32(i32::from_le_bytes(bytes.try_into().ok()?)),
            Datatype::Int64 => Self::Int64(i64::from_le_bytes(bytes.try_into().ok()?)),
            Datatype::Uint32 => Self::Uint32(u32::from_le_bytes(bytes.try_into().ok()?)),
            Datatype::Uint64 => Self::Uint64(u64::from_le_bytes(bytes.try_into().ok()?)),
            Datatype::Fp16 => Self::Fp16(f16::from_le_bytes(bytes.try_into().ok()?)),
            Datatype::Fp32 => Self::Fp32(f32::from_le_bytes(bytes.try_into().ok()?)),
            Datatype::Fp64 => Self::Fp64(f64::from_le_bytes(bytes.try_into().ok()?)),
        })
    }

    /// The element as it stands in a tensor; a text with its length before it.
    pub(super) fn to_le_bytes(self) -> Vec<u8> {
        match self {
            Self::Int8(number) => number.to_le_bytes().to_vec(),
            Self::Int16(number) => number.to_le_bytes().to_vec(),
            Self::Uint8(number) => number.to_le_bytes().to_vec(),
            Self::Uint16(number) => number.to_le_bytes().to_vec(),
            Self::Int32(number) => number.to_le_bytes().to_vec(),
            Self::Int64(number) => number.to_le_bytes().to_vec(),
            Self::Uint32(number) => number.to_le_bytes().to_vec(),
            Self::Uint64(number) => number.to_le_bytes().to_vec(),
            Self::Fp16(number) => number.to_le_bytes().to_vec(),
            Self::Fp32(number) => number.to_le_bytes().to_vec(),
            Self::Fp64(number) => number.to_le_bytes().to_vec(),
            Self::Text(number) => {
                let text = number.to_string();
                let length = u32::try_from(text.len()).expect("at most eleven bytes");
                length.to_le_bytes().into_iter().chain(text.into_bytes()).collect()
            }
        }
    }

    /// The sum of two numbers of one type: integers wrap around.
    pub(super) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Int8(one), Self::Int8(other)) => Self::Int8(one.wrapping_add(other)),
            (Self::Int16(one), Self::Int16(other)) => Self::Int16(one.wrapping_add(other)),
            (Self::Uint8(one), Self::Uint8(other)) => Self::Uint8(one.wrapping_add(other)),
            (Self::Uint16(one), Self::Uint16(other)) => Self::Uint16(one.wrapping_add(other)),
            (Self::Int32(one), Self::Int32(other)) => Self::Int32(one.wrapping_add(other)),
            (Self::Int64(one), Self::Int64(other)) => Self::Int64(one.wrapping_add(other)),
            (Self::Uint32(one), Self::Uint32(other)) => Self::Uint32(one.wrapping_add(other)),
            (Self::Uint64(one), Self::Uint64(other)) => Self::Uint64(one.wrapping_add(other)),
            (Self::Fp16(one), Self::Fp16(other)) => Self::Fp16(one + other),
            (Self::Fp32(one), Self::Fp32(other)) => Self::Fp32(one + other),
            (Self::Fp64(one), Self::Fp64(other)) => Self::Fp64(one + other),
            (Self::Text(one), Self::Text(other)) => Self::Text(one.wrapping_add(other)),
            _ => unreachable!("a model has one type: {self:?}, {other:?}"),
        }
    }

    /// Whether adding it changes nothing.
    pub(super) fn is_zero(self) -> bool {
        match self {
            Self::Int8(number) => number == 0,
            Self::Int16(number) => number == 0,
            Self::Uint8(number) => number == 0,
            Self::Uint16(number) => number == 0,
            Self::Int32(number) | Self::Text(number) => number == 0,
            Self::Int64(number) => number == 0,
            Self::Uint32(number) => number == 0,
            Self::Uint64(number) => number == 0,
            Self::Fp16(number) => number == f16::ZERO,
            Self::Fp32(number) => number == 0.0,
            Self::Fp64(number) => number == 0.0,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int8(number) => number.fmt(f),
            Self::Int16(number) => number.fmt(f),
            Self::Uint8(number) => number.fmt(f),
            Self::Uint16(number) => number.fmt(f),
            Self::Int32(number) | Self::Text(number) => number.fmt(f),
            Self::Int64(number) => number.fmt(f),
            Self::Uint32(number) => number.fmt(f),
            Self::Uint64(number) => number.fmt(f),
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
        assert_eq!(Number::Text(-12).to_le_bytes(), *b"\x03\0\0\0-12");
        assert_eq!((Number::read(Datatype::Uint32, "-1"), Number::read(Datatype::Int32, "1.5")), (None, None));
        assert_eq!(Number::read(Datatype::Bytes, "2147483648"), None);
        assert_eq!((Number::read(Datatype::Int8, "128"), Number::read(Datatype::Uint16, "-1")), (None, None));
    }

    #[test]
    fn of_an_id_a_type_has_the_bits_that_it_holds() {
        let id = 0x1234_5678_ffff_fffe;
        for (datatype, is) in [
            (Datatype::Int8, Number::Int8(-2)),
            (Datatype::Int16, Number::Int16(-2)),
            (Datatype::Uint8, Number::Uint8(0xfe)),
            (Datatype::Uint16, Number::Uint16(0xfffe)),
            (Datatype::Fp16, Number::Fp16(f16::from_f32(-2.0))),
            (Datatype::Int32, Number::Int32(-2)),
            (Datatype::Int64, Number::Int64(0x1234_5678_ffff_fffe)),
            (Datatype::Uint32, Number::Uint32(0xffff_fffe)),
            (Datatype::Uint64, Number::Uint64(id)),
            (Datatype::Fp32, Number::Fp32(-2.0)),
            (Datatype::Fp64, Number::Fp64(-2.0)),
            (Datatype::Bytes, Number::Text(-2)),
        ] {
            assert_eq!(Number::of_bits(datatype, id), Some(is));
        }
        assert_eq!(Number::of_bits(Datatype::Bool, id), None);
    }
}
