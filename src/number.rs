//! The numbers that steps add and models answer, in the types that tensors have.

use std::{
    fmt,
    hash::{Hash, Hasher},
    num::NonZeroU16,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

mod half;

macro_rules! datatypes {
    ($($(#[$default:ident])? $datatype:ident $name:literal $what:literal;)*) => {
        /// A tensor's type, of those that can be added up.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Datatype {
            $(#[doc = $what] #[serde(rename = $name)] $(#[$default])? $datatype,)*
        }

        impl Datatype {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$datatype),*];

            /// The type in the protocol's spelling.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$datatype => $name,)* }
            }
        }
    };
}

datatypes! {
    Int8 "INT8" "Whole numbers of 8 bits.";
    Int16 "INT16" "Whole numbers of 16 bits.";
    #[default] Int32 "INT32" "Whole numbers of 32 bits.";
    Int64 "INT64" "Whole numbers of 64 bits.";
    Uint8 "UINT8" "Whole numbers of 8 bits without a sign.";
    Uint16 "UINT16" "Whole numbers of 16 bits without a sign.";
    Uint32 "UINT32" "Whole numbers of 32 bits without a sign.";
    Uint64 "UINT64" "Whole numbers of 64 bits without a sign.";
    Fp16 "FP16" "Floating-point numbers of 16 bits, of which few whole ones are sent.";
    Fp32 "FP32" "Floating-point numbers of 32 bits, of which whole ones are sent.";
    Fp64 "FP64" "Floating-point numbers of 64 bits, of which whole ones are sent.";
    Bytes "BYTES" "Decimal texts of whole numbers of 32 bits.";
}

impl Datatype {
    /// The type with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|datatype| datatype.name() == name)
    }

    /// Of floating-point numbers, up to which power of two they have all whole numbers.
    #[must_use]
    pub fn exact_bits(self) -> Option<u32> {
        match self {
            Self::Fp16 => Some(half::EXACT_BITS),
            Self::Fp32 => Some(f32::MANTISSA_DIGITS),
            Self::Fp64 => Some(f64::MANTISSA_DIGITS),
            _ => None,
        }
    }

    /// The most bytes that a number takes on the wire.
    pub const LONGEST: usize = 4 + "-2147483648".len();

    /// Whether HTTP has it in JSON, too, and not as bytes alone.
    #[must_use]
    pub fn is_in_json(self) -> bool {
        self != Self::Fp16
    }

    /// How many bytes an element has; the fewest, of texts.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 | Self::Fp16 => 2,
            Self::Int32 | Self::Uint32 | Self::Fp32 => 4,
            Self::Bytes => 5,
            Self::Int64 | Self::Uint64 | Self::Fp64 => 8,
        }
    }

    /// What an element has to be, in words.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Bytes => "the decimal text of an INT32",
            _ => "a whole number",
        }
    }

    /// How many bytes an element has, in words.
    #[must_use]
    pub fn size(self) -> &'static str {
        match self {
            Self::Int8 | Self::Uint8 => "1 byte",
            Self::Int16 | Self::Uint16 | Self::Fp16 => "2 bytes",
            Self::Int32 | Self::Uint32 | Self::Fp32 => "4 bytes",
            Self::Int64 | Self::Uint64 | Self::Fp64 => "8 bytes",
            Self::Bytes => "a length of 4 bytes and so many bytes",
        }
    }

    /// The number that the type has for this one: modulo its width.
    #[must_use]
    pub fn number(self, value: i64) -> Number {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "that is how these types wrap")]
        let value = match self {
            Self::Int8 => i64::from(value as i8),
            Self::Int16 => i64::from(value as i16),
            Self::Int32 | Self::Bytes => i64::from(value as i32),
            Self::Uint8 => i64::from(value as u8),
            Self::Uint16 => i64::from(value as u16),
            Self::Uint32 => i64::from(value as u32),
            Self::Int64 | Self::Uint64 | Self::Fp16 | Self::Fp32 | Self::Fp64 => value,
        };
        Number { value, datatype: self, others: 0 }
    }

    /// The first element of a tensor's bytes, and the bytes behind it; none where they do not begin with an element.
    #[must_use]
    pub fn split(self, bytes: &[u8]) -> Option<(Element, &[u8])> {
        fn first<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> Element) -> Option<(Element, &[u8])> {
            bytes.split_first_chunk().map(|(element, rest)| (read(*element), rest))
        }
        let right = |value| Ok(self.number(value));
        match self {
            Self::Int8 => first(bytes, |element| right(i8::from_le_bytes(element).into())),
            Self::Int16 => first(bytes, |element| right(i16::from_le_bytes(element).into())),
            Self::Int32 => first(bytes, |element| right(i32::from_le_bytes(element).into())),
            Self::Uint8 => first(bytes, |element| right(u8::from_le_bytes(element).into())),
            Self::Uint16 => first(bytes, |element| right(u16::from_le_bytes(element).into())),
            Self::Uint32 => first(bytes, |element| right(u32::from_le_bytes(element).into())),
            Self::Int64 | Self::Uint64 => first(bytes, |element| right(i64::from_le_bytes(element))),
            Self::Fp16 => first(bytes, |element| self.whole(half::number(u16::from_le_bytes(element)))),
            Self::Fp32 => first(bytes, |element| self.whole(f32::from_le_bytes(element).into())),
            Self::Fp64 => first(bytes, |element| self.whole(f64::from_le_bytes(element))),
            Self::Bytes => {
                let (length, rest) = bytes.split_first_chunk()?;
                let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
                Some((self.decimal(text), rest))
            }
        }
    }

    /// A floating-point number as a whole one, which it is in every right answer.
    fn whole(self, number: f64) -> Element {
        /// Beyond this every such number is whole, and no right answer comes near.
        const FAR: f64 = 4e18;
        if number.fract() == 0.0 && number.abs() < FAR {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole, and near enough to zero")]
            return Ok(self.number(number as i64));
        }
        Err(format!("{number:?}"))
    }

    fn decimal(self, text: &[u8]) -> Element {
        let number = str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
        number
            .map(|number| self.number(number.into()))
            .ok_or_else(|| format!("the text {:?}", String::from_utf8_lossy(text)))
    }
}

/// An element of a tensor: a number, or in words what is there in place of a whole one.
pub type Element = Result<Number, String>;

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Of floating-point numbers, what elements are below: [`ELEMENTS_MAX`](crate::tensor::ELEMENTS_MAX) of them together are far below
/// what is left of the numbers that FP32 has exactly by [`Arithmetic`](crate::arithmetic::Arithmetic).
const PART_MAX: i64 = 1 << 10;
/// The same of FP16, which has few numbers. By turns elements are above 0 and below it besides, so that half of them at the most add up.
const HALF_PART_MAX: i64 = 2;

/// A whole number of a tensor's type, and how many elements of a tensor it is. Sums and differences wrap around as the type does,
/// and are one element; numbers are equal however many elements they are.
#[derive(Clone, Copy, Default)]
pub struct Number {
    /// For UINT64 its bits.
    value: i64,
    datatype: Datatype,
    /// Its elements besides the first.
    others: u16,
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        (self.value, self.datatype) == (other.value, other.datatype)
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.value, self.datatype).hash(state);
    }
}

impl Number {
    /// The number, where it is below 2^63.
    #[must_use]
    pub fn value(self) -> i64 {
        self.value
    }

    /// Nought of the same type.
    #[must_use]
    pub fn zero(self) -> Self {
        self.datatype.number(0)
    }

    /// Whether it is nought.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.value == 0
    }

    /// How far from nought it is, in either direction.
    #[must_use]
    pub fn magnitude(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the type has no more bits")]
        match self.datatype {
            Datatype::Uint8 => (self.value as i8).unsigned_abs().into(),
            Datatype::Uint16 => (self.value as i16).unsigned_abs().into(),
            Datatype::Uint32 => (self.value as i32).unsigned_abs().into(),
            _ => self.value.unsigned_abs(),
        }
    }

    /// Its type.
    #[must_use]
    pub fn datatype(self) -> Datatype {
        self.datatype
    }

    /// The same as so many elements.
    #[must_use]
    pub fn of_elements(self, elements: NonZeroU16) -> Self {
        Self { others: elements.get() - 1, ..self }
    }

    /// How many elements of a tensor it is, where the tensor's shape leaves that open.
    #[must_use]
    pub fn elements(self) -> NonZeroU16 {
        NonZeroU16::MIN.saturating_add(self.others)
    }

    /// The sum, of this one's type.
    #[must_use]
    pub fn wrapping_add(self, other: Self) -> Self {
        self.datatype.number(self.value.wrapping_add(other.value))
    }

    /// The difference, of this one's type.
    #[must_use]
    pub fn wrapping_sub(self, other: Self) -> Self {
        self.datatype.number(self.value.wrapping_sub(other.value))
    }

    /// So many times the number.
    #[must_use]
    pub fn wrapping_mul(self, times: u32) -> Self {
        self.datatype.number(self.value.wrapping_mul(times.into()))
    }

    /// How much larger it is than another one, as numbers and not as the type wraps.
    #[must_use]
    pub fn off_by(self, other: Self) -> i128 {
        self.unwrapped() - other.unwrapped()
    }

    fn unwrapped(self) -> i128 {
        if self.datatype == Datatype::Uint64 { self.value.cast_unsigned().into() } else { self.value.into() }
    }

    /// Appends it as tensors have it.
    pub fn put(self, bytes: &mut Vec<u8>) {
        let value = self.value;
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "numbers fit their types")]
        match self.datatype {
            Datatype::Int8 | Datatype::Uint8 => bytes.extend_from_slice(&(value as i8).to_le_bytes()),
            Datatype::Int16 | Datatype::Uint16 => bytes.extend_from_slice(&(value as i16).to_le_bytes()),
            Datatype::Int32 | Datatype::Uint32 => bytes.extend_from_slice(&(value as i32).to_le_bytes()),
            Datatype::Int64 | Datatype::Uint64 => bytes.extend_from_slice(&value.to_le_bytes()),
            Datatype::Fp16 => bytes.extend_from_slice(&half::of(value).to_le_bytes()),
            Datatype::Fp32 => bytes.extend_from_slice(&(value as f32).to_le_bytes()),
            Datatype::Fp64 => bytes.extend_from_slice(&(value as f64).to_le_bytes()),
            Datatype::Bytes => {
                let mut buffer = itoa::Buffer::new();
                let text = buffer.format(value);
                bytes.extend_from_slice(&u32::try_from(text.len()).expect("a number is short").to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// So many elements that add up to it: always the same ones for a number, and others for another number.
    ///
    /// Whole numbers are of all sizes, and their sums wrap around. Floating-point ones are so small that in whatever order they are
    /// added, to whatever sum a value may be added, nothing is rounded.
    pub fn spread(self, elements: usize) -> impl Iterator<Item = Self> {
        let parts = (1..elements.try_into().unwrap_or(u64::MAX)).map(move |index| self.part(index));
        let rest = parts.clone().fold(self, Self::wrapping_sub);
        parts.chain(std::iter::once(rest))
    }

    /// Of floating-point numbers, how far from it the sum of some of so many elements may be that it is spread over.
    #[must_use]
    pub fn strays(datatype: Datatype, elements: usize) -> u64 {
        let others = u64::try_from(elements.saturating_sub(1)).unwrap_or(u64::MAX);
        match datatype {
            Datatype::Fp16 => others.div_ceil(2),
            Datatype::Fp32 | Datatype::Fp64 => others.saturating_mul(PART_MAX.unsigned_abs()),
            _ => 0,
        }
    }

    /// One of the elements that it is spread over.
    fn part(self, index: u64) -> Self {
        // The finalizer of SplitMix64, which makes numbers that look drawn of such as differ by little.
        let mut bits = self.value.cast_unsigned().wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = (bits ^ (bits >> 31)).cast_signed();
        let width = match self.datatype {
            Datatype::Int64 | Datatype::Uint64 => i64::BITS,
            Datatype::Int32 | Datatype::Uint32 | Datatype::Bytes => i32::BITS,
            Datatype::Int16 | Datatype::Uint16 => i16::BITS,
            Datatype::Int8 | Datatype::Uint8 => i8::BITS,
            Datatype::Fp16 => {
                let sign = if index.is_multiple_of(2) { 1 } else { -1 };
                return self.datatype.number(sign * drawn.rem_euclid(HALF_PART_MAX));
            }
            Datatype::Fp32 | Datatype::Fp64 => return self.datatype.number(drawn % PART_MAX),
        };
        // The uppermost bits, so that there are small ones and large ones.
        self.datatype.number(drawn >> (u64::from(i64::BITS - width) + bits % u64::from(width)))
    }

    /// As tensors have it.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Datatype::LONGEST);
        self.put(&mut bytes);
        bytes
    }
}

impl From<i32> for Number {
    fn from(value: i32) -> Self {
        Datatype::Int32.number(value.into())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unwrapped().fmt(f)
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A whole number of 64 bits with a sign or without, as files have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Written {
    /// One with a sign.
    Signed(i64),
    /// One that is too large for that.
    Unsigned(u64),
}

impl Written {
    /// Its bits.
    #[must_use]
    pub fn value(self) -> i64 {
        match self {
            Self::Signed(value) => value,
            Self::Unsigned(value) => value.cast_signed(),
        }
    }
}

impl FromStr for Written {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::Signed).or_else(|error| text.parse().map(Self::Unsigned).map_err(|_| error))
    }
}

#[cfg(test)]
mod tests;
