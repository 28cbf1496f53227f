//! Tensors and their numbers.

#![forbid(unsafe_code)]

use std::{ffi::c_uint, fmt};

use half::f16;

use crate::name::Name;

macro_rules! datatypes {
    ($($variant:ident $code:literal $name:literal;)*) => {
        /// The data types that the backend knows, with the server's numbers for them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Datatype { $($variant,)* }

        impl Datatype {
            /// By the server's number.
            pub(crate) fn of_code(code: c_uint) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// The server's number.
            pub(crate) fn code(self) -> c_uint {
                match self { $(Self::$variant => $code,)* }
            }

            /// By its name in a configuration.
            pub(crate) fn of_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }

        impl fmt::Display for Datatype {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name,)* })
            }
        }
    };
}

datatypes! {
    Bool 1 "TYPE_BOOL";
    Uint8 2 "TYPE_UINT8";
    Uint16 3 "TYPE_UINT16";
    Uint32 4 "TYPE_UINT32";
    Uint64 5 "TYPE_UINT64";
    Int8 6 "TYPE_INT8";
    Int16 7 "TYPE_INT16";
    Int32 8 "TYPE_INT32";
    Int64 9 "TYPE_INT64";
    Fp16 10 "TYPE_FP16";
    Fp32 11 "TYPE_FP32";
    Fp64 12 "TYPE_FP64";
    Bytes 13 "TYPE_STRING";
}

/// A tensor, whose bytes need not fit its shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) datatype: Datatype,
    pub(crate) shape: Vec<i64>,
    /// Little-endian; elements of BYTES have their length, a `u32`, before them.
    pub(crate) data: Vec<u8>,
}

/// A tensor to be answered with, by its name.
pub(crate) type Output = (Name, Tensor);

/// A number of a sum. Integers wrap at their type's width and are kept as the 64-bit number of the same value or, of UINT64, of
/// the same bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
        }
    }
}

/// The arithmetic of one data type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arithmetic(Datatype);

impl Arithmetic {
    /// Of this type, where it has one.
    pub(crate) fn of(datatype: Datatype) -> Option<Self> {
        (datatype != Datatype::Bool).then_some(Self(datatype))
    }

    pub(crate) fn datatype(self) -> Datatype {
        self.0
    }

    pub(crate) fn zero(self) -> Number {
        self.integer(0)
    }

    /// A whole number.
    pub(crate) fn integer(self, number: i64) -> Number {
        match self.0 {
            #[expect(clippy::cast_precision_loss, reason = "that is what a float does")]
            Datatype::Fp16 | Datatype::Fp32 | Datatype::Fp64 => Number::Float(self.round(number as f64)),
            _ => Number::Integer(self.wrap(number)),
        }
    }

    /// What a correlation ID is in this type: all of its bits where there is room for them, else the low 32 as an INT32.
    #[expect(clippy::cast_possible_truncation, reason = "that is what the low bits are")]
    pub(crate) fn id(self, id: i64) -> Number {
        match self.0 {
            Datatype::Int64 | Datatype::Uint64 => Number::Integer(id),
            _ => self.integer(i64::from(id as i32)),
        }
    }

    /// The sum of these, in their order.
    pub(crate) fn sum(self, numbers: &[Number]) -> Number {
        numbers.iter().fold(self.zero(), |sum, number| self.add(sum, *number))
    }

    /// A sum, in this type's arithmetic.
    pub(crate) fn add(self, one: Number, other: Number) -> Number {
        match (one, other) {
            (Number::Integer(one), Number::Integer(other)) => Number::Integer(self.wrap(one.wrapping_add(other))),
            (Number::Float(one), Number::Float(other)) => Number::Float(self.round(one + other)),
            // Numbers of one arithmetic are of one kind.
            (one, _) => one,
        }
    }

    /// A number of any type so many times, in this type's arithmetic: of a whole number the low bits, and of another one the whole part.
    #[expect(clippy::cast_possible_truncation, reason = "that is what the whole part is")]
    pub(crate) fn times(self, number: Number, times: usize) -> Number {
        let is_float = matches!(self.zero(), Number::Float(_));
        let one = match number {
            Number::Float(number) if is_float => Number::Float(self.round(number)),
            Number::Float(number) => self.integer(number as i64),
            Number::Integer(number) => self.integer(number),
        };
        (1..times).fold(one, |sum, _| self.add(sum, one))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "that is what wrapping is")]
    fn wrap(self, number: i64) -> i64 {
        match self.0 {
            // Texts are of INT32.
            Datatype::Int8 => i64::from(number as i8),
            Datatype::Int16 => i64::from(number as i16),
            Datatype::Int32 | Datatype::Bytes => i64::from(number as i32),
            Datatype::Uint8 => i64::from(number as u8),
            Datatype::Uint16 => i64::from(number as u16),
            Datatype::Uint32 => i64::from(number as u32),
            _ => number,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "that is what rounding is")]
    fn round(self, number: f64) -> f64 {
        match self.0 {
            Datatype::Fp16 => to_half(number).into(),
            Datatype::Fp32 => f64::from(number as f32),
            _ => number,
        }
    }

    /// Reads one number that is written down.
    pub(crate) fn parse(self, text: &str) -> Option<Number> {
        let text = text.trim();
        match self.0 {
            Datatype::Fp16 | Datatype::Fp32 | Datatype::Fp64 => text
                .parse()
                .ok()
                .map(|number| self.round(number))
                .filter(|number| number.is_finite())
                .map(Number::Float),
            Datatype::Uint64 => text.parse::<u64>().ok().map(|number| Number::Integer(number.cast_signed())),
            _ => text.parse().ok().filter(|number| self.wrap(*number) == *number).map(Number::Integer),
        }
    }

    /// The elements of a tensor.
    ///
    /// # Errors
    /// When its type, or the number of its bytes, is not what it should be.
    pub(crate) fn elements(self, tensor: &Tensor) -> Result<Vec<Number>, String> {
        if tensor.datatype != self.0 {
            return Err(format!("it is {} and not {}", tensor.datatype, self.0));
        }
        let data = &tensor.data;
        let elements = match self.0 {
            Datatype::Fp16 => chunks(data, |bytes| Number::Float(f16::from_le_bytes(bytes).into())),
            Datatype::Fp32 => chunks(data, |bytes| Number::Float(f32::from_le_bytes(bytes).into())),
            Datatype::Fp64 => chunks(data, |bytes| Number::Float(f64::from_le_bytes(bytes))),
            Datatype::Bytes => self.texts(data)?,
            // Wrapping gives numbers that are narrower than this one their sign.
            _ => data.chunks_exact(self.width()).map(|bytes| self.integer(i64::from_le_bytes(padded(bytes)))).collect(),
        };
        let said = tensor.shape.iter().try_fold(1_i64, |count, size| count.checked_mul(*size)).unwrap_or(-1);
        let is_whole = data.len().is_multiple_of(self.width());
        if !is_whole || usize::try_from(said) != Ok(elements.len()) {
            return Err(format!("its shape {:?} and its {} bytes do not agree", tensor.shape, data.len()));
        }
        Ok(elements)
    }

    /// The elements of a state that the server keeps. Of texts, it begins with empty ones, which stand for 0.
    ///
    /// # Errors
    /// As with [`Self::elements`].
    pub(crate) fn kept(self, tensor: &Tensor) -> Result<Vec<Number>, String> {
        if tensor.datatype != Datatype::Bytes || tensor.data.iter().any(|byte| *byte != 0) {
            return self.elements(tensor);
        }
        let data = tensor.data.as_chunks::<4>().0.iter().flat_map(|_| text_element("0")).collect();
        self.elements(&Tensor { data, ..tensor.clone() })
    }

    fn texts(self, data: &[u8]) -> Result<Vec<Number>, String> {
        let mut elements = Vec::new();
        let mut rest = data;
        while !rest.is_empty() {
            let text;
            (text, rest) = split_text(rest).ok_or("an element of it is cut off")?;
            let number = std::str::from_utf8(text).ok().and_then(|text| self.parse(text));
            elements.push(number.ok_or_else(|| format!("'{}' is no INT32 in decimal", String::from_utf8_lossy(text)))?);
        }
        Ok(elements)
    }

    /// Bytes of an element; texts have any number of them.
    fn width(self) -> usize {
        match self.0 {
            Datatype::Bool | Datatype::Int8 | Datatype::Uint8 | Datatype::Bytes => 1,
            Datatype::Int16 | Datatype::Uint16 | Datatype::Fp16 => 2,
            Datatype::Int32 | Datatype::Uint32 | Datatype::Fp32 => 4,
            Datatype::Int64 | Datatype::Uint64 | Datatype::Fp64 => 8,
        }
    }

    /// So many elements of this number.
    pub(crate) fn repeat(self, number: Number, count: usize) -> Vec<u8> {
        self.bytes(number).repeat(count)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a number is within its type's width")]
    fn bytes(self, number: Number) -> Vec<u8> {
        match number {
            Number::Integer(number) if self.0 == Datatype::Bytes => text_element(&number.to_string()),
            Number::Integer(number) => number.to_le_bytes()[..self.width()].into(),
            Number::Float(number) if self.0 == Datatype::Fp16 => to_half(number).to_le_bytes().into(),
            Number::Float(number) if self.0 == Datatype::Fp32 => (number as f32).to_le_bytes().into(),
            Number::Float(number) => number.to_le_bytes().into(),
        }
    }
}

/// The number of FP16 that is nearest to this one. The way over `f32` does not change the sum of two numbers of FP16, because an `f32`
/// has more than twice their bits. `f16::from_f64` may ignore the low 32 bits of an `f64`: it rounds 2049 and a little more down.
#[expect(clippy::cast_possible_truncation, reason = "that is what rounding is")]
fn to_half(number: f64) -> f16 {
    f16::from_f32(number as f32)
}

fn chunks<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> Number) -> Vec<Number> {
    data.as_chunks().0.iter().map(|chunk| read(*chunk)).collect()
}

/// An element of at most 8 bytes, with zeros behind it.
pub(crate) fn padded(element: &[u8]) -> [u8; 8] {
    std::array::from_fn(|place| element.get(place).copied().unwrap_or_default())
}

/// The first text of a tensor of BYTES, and the rest.
pub(crate) fn split_text(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}

/// A text as an element of BYTES.
pub(crate) fn text_element(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("texts are short").to_le_bytes();
    length.into_iter().chain(text.bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arithmetic(name: &str) -> Arithmetic {
        Datatype::of_name(name).and_then(Arithmetic::of).expect("a type of numbers")
    }

    fn sum(name: &str, one: &str, other: &str) -> Vec<u8> {
        let arithmetic = arithmetic(name);
        let number = |text| arithmetic.parse(text).expect("a number");
        arithmetic.repeat(arithmetic.add(number(one), number(other)), 1)
    }

    #[test]
    fn sums_wrap_or_round_as_their_type_does() {
        assert_eq!(sum("TYPE_INT8", "127", "2"), (-127_i8).to_le_bytes());
        assert_eq!(sum("TYPE_INT16", "32767", "2"), (-32767_i16).to_le_bytes());
        assert_eq!(sum("TYPE_UINT8", "255", "2"), [1]);
        assert_eq!(sum("TYPE_UINT16", "65535", "2"), [1, 0]);
        assert_eq!(sum("TYPE_FP16", "2048", "1"), 0x6800_u16.to_le_bytes());
        assert_eq!(sum("TYPE_FP16", "2048", "3"), 0x6802_u16.to_le_bytes());
        assert_eq!(sum("TYPE_FP16", "2048", "1.0009765625"), 0x6801_u16.to_le_bytes());
        assert_eq!(sum("TYPE_FP16", "1000", "-995"), 0x4500_u16.to_le_bytes());
        assert_eq!(sum("TYPE_INT32", "2147483647", "2"), (-2_147_483_647_i32).to_le_bytes());
        assert_eq!(sum("TYPE_UINT32", "4294967295", "2"), 1_u32.to_le_bytes());
        assert_eq!(sum("TYPE_INT64", "9223372036854775807", "1"), i64::MIN.to_le_bytes());
        assert_eq!(sum("TYPE_UINT64", "18446744073709551615", "2"), 1_u64.to_le_bytes());
        assert_eq!(sum("TYPE_FP32", "16777216", "1"), 16_777_216_f32.to_le_bytes());
        assert_eq!(sum("TYPE_FP64", "16777216", "1"), 16_777_217_f64.to_le_bytes());
        assert_eq!(sum("TYPE_STRING", "-12", "5"), [2, 0, 0, 0, b'-', b'7']);
        assert_eq!(sum("TYPE_STRING", "2147483647", "2"), text_element("-2147483647"));
    }

    #[test]
    fn an_id_is_as_many_of_its_bits_as_there_is_room_for() {
        let id = (3_i64 << 32) + 0x8000_0001;
        for (name, number) in [
            ("TYPE_INT8", Number::Integer(1)),
            ("TYPE_INT16", Number::Integer(1)),
            ("TYPE_UINT8", Number::Integer(1)),
            ("TYPE_UINT16", Number::Integer(1)),
            ("TYPE_FP16", Number::Float(f64::NEG_INFINITY)),
            ("TYPE_INT32", Number::Integer(-0x7fff_ffff)),
            ("TYPE_UINT32", Number::Integer(0x8000_0001)),
            ("TYPE_INT64", Number::Integer(id)),
            ("TYPE_UINT64", Number::Integer(id)),
            ("TYPE_FP32", Number::Float(-2_147_483_648.0)),
            ("TYPE_FP64", Number::Float(-2_147_483_647.0)),
            ("TYPE_STRING", Number::Integer(-0x7fff_ffff)),
        ] {
            assert_eq!(arithmetic(name).id(id), number, "{name}");
        }
    }

    #[test]
    fn a_sum_is_kept_as_the_number_that_it_is() {
        for (name, one, other, sum) in [
            ("TYPE_INT8", "127", "2", "-127"),
            ("TYPE_UINT16", "65535", "2", "1"),
            ("TYPE_FP16", "2048", "1", "2048"),
            ("TYPE_INT32", "2147483647", "2", "-2147483647"),
            ("TYPE_UINT32", "4294967295", "2", "1"),
            ("TYPE_UINT64", "18446744073709551615", "2", "1"),
            ("TYPE_FP32", "16777216", "1", "16777216"),
        ] {
            let arithmetic = arithmetic(name);
            let number = |text| arithmetic.parse(text).expect("a number");
            assert_eq!(arithmetic.add(number(one), number(other)), number(sum), "{name}");
        }
    }

    #[test]
    fn a_number_that_its_type_does_not_have_is_none() {
        for (name, text) in [
            ("TYPE_INT8", "128"),
            ("TYPE_INT16", "-32769"),
            ("TYPE_UINT8", "256"),
            ("TYPE_UINT16", "-1"),
            ("TYPE_FP16", "65520"),
            ("TYPE_INT32", "2147483648"),
            ("TYPE_UINT32", "-1"),
            ("TYPE_UINT32", "4294967296"),
            ("TYPE_INT64", "9223372036854775808"),
            ("TYPE_UINT64", "-1"),
            ("TYPE_FP32", "one"),
            ("TYPE_STRING", "1.0"),
            ("TYPE_STRING", "2147483648"),
            ("TYPE_STRING", ""),
        ] {
            assert_eq!(arithmetic(name).parse(text), None, "{name}: {text}");
        }
    }

    #[test]
    fn what_does_not_fit_its_shape_or_type_is_rejected() {
        let tensor = |name: &str, shape: &[i64], data: &[u8]| Tensor {
            datatype: Datatype::of_name(name).expect("a type"),
            shape: shape.into(),
            data: data.into(),
        };
        let int32 = arithmetic("TYPE_INT32");
        assert_eq!(int32.elements(&tensor("TYPE_INT32", &[1, 1], &[7, 0, 0, 0])), Ok(vec![Number::Integer(7)]));
        for wrong in [
            tensor("TYPE_INT32", &[1, 2], &[7, 0, 0, 0]),
            tensor("TYPE_INT32", &[1, 1], &[7, 0, 0, 0, 0]),
            tensor("TYPE_INT32", &[i64::MAX, 4], &[7, 0, 0, 0]),
            tensor("TYPE_FP32", &[1, 1], &[7, 0, 0, 0]),
        ] {
            int32.elements(&wrong).expect_err("it does not fit");
        }
        let texts = arithmetic("TYPE_STRING");
        let two = [1, 0, 0, 0, b'4', 2, 0, 0, 0, b'-', b'5'];
        let numbers = vec![Number::Integer(4), Number::Integer(-5)];
        assert_eq!(texts.elements(&tensor("TYPE_STRING", &[2], &two)), Ok(numbers));
        for wrong in [&two[..10], &two[..3], &[1, 0, 0, 0, b'x'], &[255, 255, 255, 255]] {
            texts.elements(&tensor("TYPE_STRING", &[1], wrong)).expect_err("it is no number");
        }
    }
}
