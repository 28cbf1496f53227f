//! The numbers that steps add and models answer, in the types that tensors have.

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    num::NonZeroU16,
    str::FromStr,
};

use half::f16;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

table! {
    /// A tensor's type, of those that can be added up, in the protocol's spelling.
    #[derive(Default)]
    pub enum Datatype: Row {
        /// Whole numbers of 8 bits.
        Int8 = "INT8", Row(Kind::Signed(8), "UINT8");
        /// Whole numbers of 16 bits.
        Int16 = "INT16", Row(Kind::Signed(16), "UINT16");
        /// Whole numbers of 32 bits.
        #[default]
        Int32 = "INT32", Row(Kind::Signed(32), "FP32");
        /// Whole numbers of 64 bits.
        Int64 = "INT64", Row(Kind::Signed(64), "FP64");
        /// Whole numbers of 8 bits without a sign.
        Uint8 = "UINT8", Row(Kind::Unsigned(8), "INT8");
        /// Whole numbers of 16 bits without a sign.
        Uint16 = "UINT16", Row(Kind::Unsigned(16), "INT16");
        /// Whole numbers of 32 bits without a sign.
        Uint32 = "UINT32", Row(Kind::Unsigned(32), "FP32");
        /// Whole numbers of 64 bits without a sign.
        Uint64 = "UINT64", Row(Kind::Unsigned(64), "FP64");
        /// Floating-point numbers of 16 bits, of which few whole ones are sent.
        Fp16 = "FP16", Row(Kind::Float(16), "INT16");
        /// Floating-point numbers of 32 bits, of which whole ones are sent.
        Fp32 = "FP32", Row(Kind::Float(32), "INT32");
        /// Floating-point numbers of 64 bits, of which whole ones are sent.
        Fp64 = "FP64", Row(Kind::Float(64), "INT64");
        /// Decimal texts of whole numbers of 32 bits.
        Bytes = "BYTES", Row(Kind::Text, "FP32");
        /// No type of the protocol: states of a model without a formula, each a sum of codes.
        State = "STATE", Row(Kind::Signed(64), "INT64");
    }
}

/// What the elements are, and the name of another type that has as many bytes to an element, where there is one.
struct Row(Kind, &'static str);

/// What the elements of a type are; numbers by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Signed(u32),
    /// Whole numbers without a sign.
    Unsigned(u32),
    /// Floating-point numbers.
    Float(u32),
    /// Decimal texts of whole numbers of 32 bits.
    Text,
}

impl Datatype {
    /// Those of the protocol.
    pub fn of_the_protocol() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|datatype| *datatype != Self::State)
    }

    /// What its elements are.
    pub fn kind(self) -> Kind {
        self.row().0
    }

    /// The name of another type, with as many bytes to an element where there is one.
    pub fn other(self) -> &'static str {
        self.row().1
    }

    /// Of floating-point numbers, up to which power of two they have all whole numbers.
    pub fn exact_bits(self) -> Option<u32> {
        match self.kind() {
            Kind::Float(16) => Some(f16::MANTISSA_DIGITS),
            Kind::Float(32) => Some(f32::MANTISSA_DIGITS),
            Kind::Float(_) => Some(f64::MANTISSA_DIGITS),
            Kind::Signed(_) | Kind::Unsigned(_) | Kind::Text => None,
        }
    }

    /// The most bytes that a number takes on the wire.
    pub const LONGEST: usize = 4 + "-2147483648".len();

    /// Whether HTTP has it in JSON, too, and not as bytes alone.
    pub fn is_in_json(self) -> bool {
        self.kind() != Kind::Float(16)
    }

    /// How many bytes an element has; the fewest, of texts.
    pub fn bytes(self) -> usize {
        match self.kind() {
            Kind::Signed(bits) | Kind::Unsigned(bits) | Kind::Float(bits) => bytes_of(bits),
            Kind::Text => 5,
        }
    }

    /// What an element has to be, in words.
    pub fn in_words(self) -> &'static str {
        match self.kind() {
            Kind::Text => "the decimal text of an INT32",
            Kind::Signed(_) | Kind::Unsigned(_) | Kind::Float(_) => "a whole number",
        }
    }

    /// The number that the type has for this one: modulo its width.
    pub fn number(self, value: i64) -> Number {
        let value = match self.kind() {
            Kind::Signed(bits) => with_sign(value, bits),
            Kind::Text => with_sign(value, i32::BITS),
            Kind::Unsigned(bits) => (value.cast_unsigned() << (u64::BITS - bits) >> (u64::BITS - bits)).cast_signed(),
            Kind::Float(_) => value,
        };
        Number { value, datatype: self, others: 0 }
    }

    /// The first element of a tensor's bytes, and the bytes behind it; none where they do not begin with an element.
    pub fn split(self, bytes: &[u8]) -> Option<(Element, &[u8])> {
        fn first<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> Element) -> Option<(Element, &[u8])> {
            bytes.split_first_chunk().map(|(element, rest)| (read(*element), rest))
        }
        match self.kind() {
            Kind::Signed(bits) | Kind::Unsigned(bits) => {
                let (element, rest) = bytes.split_at_checked(bytes_of(bits))?;
                let mut value = [0; size_of::<i64>()];
                value[..element.len()].copy_from_slice(element);
                Some((Ok(self.number(i64::from_le_bytes(value))), rest))
            }
            Kind::Float(16) => first(bytes, |element| self.whole(f16::from_le_bytes(element).into())),
            Kind::Float(32) => first(bytes, |element| self.whole(f32::from_le_bytes(element).into())),
            Kind::Float(_) => first(bytes, |element| self.whole(f64::from_le_bytes(element))),
            Kind::Text => {
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
        Err(NotWhole::Fraction(format!("{number:?}")))
    }

    fn decimal(self, text: &[u8]) -> Element {
        let number = str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
        number
            .map(|number| self.number(number.into()))
            .ok_or_else(|| NotWhole::Text(String::from_utf8_lossy(text).into_owned()))
    }
}

/// An element of a tensor: a number, or what is there in place of a whole one.
pub type Element = Result<Number, NotWhole>;

/// What an element is that is no whole number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotWhole {
    /// A floating-point number, which may be infinite or none at all, in decimal.
    Fraction(String),
    /// A text that is not the decimal text of an INT32.
    Text(String),
}

impl fmt::Display for NotWhole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fraction(number) => f.write_str(number),
            Self::Text(text) => write!(f, "the text {text:?}"),
        }
    }
}

/// How many bytes so many bits are.
fn bytes_of(bits: u32) -> usize {
    (bits / 8) as usize
}

/// The low bits of a value as a number with a sign.
fn with_sign(value: i64, bits: u32) -> i64 {
    value << (i64::BITS - bits) >> (i64::BITS - bits)
}

/// Of floating-point numbers, what elements are below: [`ELEMENTS_MAX`](crate::tensor::ELEMENTS_MAX) of them together are far below
/// what is left of the numbers that FP32 has exactly by [`Arithmetic`](crate::arithmetic::Arithmetic).
const PART_MAX: i64 = 1 << 10;
/// The same of FP16, which has few numbers. By turns elements are above 0 and below it besides, so that half of them at the most add up.
const HALF_PART_MAX: i64 = 2;

/// A whole number of a tensor's type, and how many elements of a tensor it is. Sums and differences wrap around as the type does,
/// and are one element; numbers are equal however many elements they are. A file has the number alone, and it is read back as one of
/// 64 bits.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
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
    pub fn value(self) -> i64 {
        self.value
    }

    /// Nought of the same type.
    pub fn zero(self) -> Self {
        self.datatype.number(0)
    }

    /// Whether it is nought.
    pub fn is_zero(self) -> bool {
        self.value == 0
    }

    /// How far from nought it is, in either direction.
    pub fn magnitude(self) -> u64 {
        match self.datatype.kind() {
            Kind::Unsigned(bits) => with_sign(self.value, bits).unsigned_abs(),
            Kind::Signed(_) | Kind::Float(_) | Kind::Text => self.value.unsigned_abs(),
        }
    }

    /// Its type.
    pub fn datatype(self) -> Datatype {
        self.datatype
    }

    /// The same as so many elements.
    pub fn of_elements(self, elements: NonZeroU16) -> Self {
        Self { others: elements.get() - 1, ..self }
    }

    /// How many elements of a tensor it is, where the tensor's shape leaves that open.
    pub fn elements(self) -> NonZeroU16 {
        NonZeroU16::MIN.saturating_add(self.others)
    }

    /// The sum, of this one's type.
    pub fn wrapping_add(self, other: Self) -> Self {
        self.datatype.number(self.value.wrapping_add(other.value))
    }

    /// The difference, of this one's type.
    pub fn wrapping_sub(self, other: Self) -> Self {
        self.datatype.number(self.value.wrapping_sub(other.value))
    }

    /// So many times the number.
    pub fn wrapping_mul(self, times: u32) -> Self {
        self.datatype.number(self.value.wrapping_mul(times.into()))
    }

    /// How much larger it is than another one, as numbers and not as the type wraps.
    pub fn off_by(self, other: Self) -> i128 {
        self.unwrapped() - other.unwrapped()
    }

    fn unwrapped(self) -> i128 {
        if self.datatype == Datatype::Uint64 { self.value.cast_unsigned().into() } else { self.value.into() }
    }

    /// Appends it as tensors have it.
    pub fn put(self, bytes: &mut Vec<u8>) {
        let value = self.value;
        #[expect(clippy::cast_precision_loss, reason = "numbers fit their types")]
        match self.datatype.kind() {
            Kind::Signed(bits) | Kind::Unsigned(bits) => {
                bytes.extend_from_slice(&value.to_le_bytes()[..bytes_of(bits)]);
            }
            Kind::Float(16) => bytes.extend_from_slice(&f16::from_f32(value as f32).to_le_bytes()),
            Kind::Float(32) => bytes.extend_from_slice(&(value as f32).to_le_bytes()),
            Kind::Float(_) => bytes.extend_from_slice(&(value as f64).to_le_bytes()),
            Kind::Text => {
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
    pub fn strays(datatype: Datatype, elements: usize) -> u64 {
        let others = u64::try_from(elements.saturating_sub(1)).unwrap_or(u64::MAX);
        match datatype.kind() {
            Kind::Float(16) => others.div_ceil(2),
            Kind::Float(_) => others.saturating_mul(PART_MAX.unsigned_abs()),
            Kind::Signed(_) | Kind::Unsigned(_) | Kind::Text => 0,
        }
    }

    /// One of the elements that it is spread over.
    fn part(self, index: u64) -> Self {
        // The finalizer of SplitMix64, which makes numbers that look drawn of such as differ by little.
        let mut bits = self.value.cast_unsigned().wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = (bits ^ (bits >> 31)).cast_signed();
        let width = match self.datatype.kind() {
            Kind::Signed(bits) | Kind::Unsigned(bits) => bits,
            Kind::Text => i32::BITS,
            Kind::Float(16) => {
                let sign = if index.is_multiple_of(2) { 1 } else { -1 };
                return self.datatype.number(sign * drawn.rem_euclid(HALF_PART_MAX));
            }
            Kind::Float(_) => return self.datatype.number(drawn % PART_MAX),
        };
        // The uppermost bits, so that there are small ones and large ones.
        self.datatype.number(drawn >> (u64::from(i64::BITS - width) + bits % u64::from(width)))
    }

    /// As tensors have it.
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
        if self.datatype == Datatype::State {
            // Nobody reads a code: so many digits tell states of one run apart.
            return write!(f, "#{:08x}", self.value.cast_unsigned() >> 32);
        }
        self.unwrapped().fmt(f)
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl JsonSchema for Number {
    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "description": "A whole number of a tensor's type." })
    }
}

/// A whole number of 64 bits with a sign or without, as files have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Written {
    /// One with a sign.
    Signed(i64),
    /// One that is too large for that.
    Unsigned(u64),
}

impl Written {
    /// Its bits.
    pub fn value(self) -> i64 {
        match self {
            Self::Signed(value) => value,
            Self::Unsigned(value) => value.cast_signed(),
        }
    }
}

impl From<Number> for Written {
    fn from(number: Number) -> Self {
        i64::try_from(number.unwrapped()).map_or(Self::Unsigned(number.value.cast_unsigned()), Self::Signed)
    }
}

impl From<u64> for Written {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Unsigned(number), Self::Signed)
    }
}

impl TryFrom<Written> for u64 {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        match written {
            Written::Signed(number) => Self::try_from(number).map_err(|_| "it has to be 0 or more"),
            Written::Unsigned(number) => Ok(number),
        }
    }
}

/// The number in the widest type that has it.
impl From<Written> for Number {
    fn from(written: Written) -> Self {
        let datatype = if matches!(written, Written::Signed(_)) { Datatype::Int64 } else { Datatype::Uint64 };
        datatype.number(written.value())
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
