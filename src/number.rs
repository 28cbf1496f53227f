//! The numbers that steps add and models answer, in the types that tensors have.

use std::{
    fmt,
    hash::{Hash, Hasher},
    num::NonZeroU16,
    str::FromStr,
};

use serde::{Deserialize, Serialize};

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
    #[default] Int32 "INT32" "Whole numbers of 32 bits.";
    Int64 "INT64" "Whole numbers of 64 bits.";
    Uint32 "UINT32" "Whole numbers of 32 bits without a sign.";
    Uint64 "UINT64" "Whole numbers of 64 bits without a sign.";
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
            Self::Fp32 => Some(f32::MANTISSA_DIGITS),
            Self::Fp64 => Some(f64::MANTISSA_DIGITS),
            Self::Int32 | Self::Int64 | Self::Uint32 | Self::Uint64 | Self::Bytes => None,
        }
    }

    /// The most bytes that a number takes on the wire.
    pub const LONGEST: usize = 4 + "-2147483648".len();

    /// How many bytes an element has; the fewest, of texts.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
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
            Self::Int32 | Self::Bytes => i64::from(value as i32),
            Self::Uint32 => i64::from(value as u32),
            Self::Int64 | Self::Uint64 | Self::Fp32 | Self::Fp64 => value,
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
            Self::Int32 => first(bytes, |element| right(i32::from_le_bytes(element).into())),
            Self::Uint32 => first(bytes, |element| right(u32::from_le_bytes(element).into())),
            Self::Int64 | Self::Uint64 => first(bytes, |element| right(i64::from_le_bytes(element))),
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
            Datatype::Int32 | Datatype::Uint32 => bytes.extend_from_slice(&(value as i32).to_le_bytes()),
            Datatype::Int64 | Datatype::Uint64 => bytes.extend_from_slice(&value.to_le_bytes()),
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
mod tests {
    use rand::{RngExt as _, SeedableRng as _, seq::SliceRandom as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::tensor::ELEMENTS_MAX;

    #[test]
    fn each_type_wraps_in_its_own_width_and_reads_what_it_puts() {
        for (datatype, most, next) in [
            (Datatype::Int32, "2147483647", "-2147483648"),
            (Datatype::Bytes, "2147483647", "-2147483648"),
            (Datatype::Uint32, "4294967295", "0"),
            (Datatype::Int64, "9223372036854775807", "-9223372036854775808"),
            (Datatype::Uint64, "18446744073709551615", "0"),
            (Datatype::Fp32, "16777215", "16777216"),
            (Datatype::Fp64, "9007199254740991", "9007199254740992"),
        ] {
            let most = datatype.number(most.parse::<Written>().expect("a number").value());
            let one = datatype.number(1);
            let sum = most.wrapping_add(one);
            assert_eq!((sum.to_string().as_str(), sum.wrapping_sub(one)), (next, most), "{datatype}");
            let bytes = [most.to_bytes(), sum.to_bytes()].concat();
            let (first, rest) = datatype.split(&bytes).expect("two elements");
            assert_eq!((first, datatype.split(rest)), (Ok(most), Some((Ok(sum), &[][..]))), "{datatype}");
            assert_eq!(datatype.split(&rest[..rest.len() - 1]), None, "{datatype}");
            assert_eq!(Datatype::named(datatype.name()), Some(datatype));
        }
        assert_eq!(Datatype::named("FP16"), None);
    }

    #[test]
    fn a_number_is_spread_over_elements_that_add_up_to_it() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for datatype in Datatype::ALL {
            let exact = datatype.exact_bits().map_or(i64::MAX, |bits| 1 << (bits - 8));
            for _ in 0..50 {
                let number = datatype.number(random.random_range(-exact..exact));
                let count = random.random_range(1..=ELEMENTS_MAX);
                let mut bytes = Vec::new();
                number.spread(count).for_each(|part| part.put(&mut bytes));
                let (mut rest, mut parts) = (bytes.as_slice(), Vec::new());
                while let Some((element, behind)) = datatype.split(rest) {
                    rest = behind;
                    parts.push(element.expect("a number"));
                }
                let sum = parts.iter().fold(number.zero(), |sum, part| sum.wrapping_add(*part));
                assert_eq!((sum, parts.len(), rest), (number, count, &[][..]), "{datatype}");
                assert_eq!(number.spread(count).collect::<Vec<_>>(), parts, "{datatype}: the same again");
            }
            let spread = |value| datatype.number(value).spread(16).collect::<Vec<_>>();
            let alike = spread(1000).iter().zip(spread(1001)).filter(|(one, other)| *one == other).count();
            assert!(alike < 8, "{datatype}: other elements for another number");
        }
    }

    #[test]
    fn floating_point_elements_are_added_exactly_in_whatever_order() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        for _ in 0..50 {
            // What a sum may be, and what a value may be of a sequence of the fewest steps.
            let sum: i32 = random.random_range(-1 << 23..1 << 23);
            let value: i32 = random.random_range(-1 << 15..1 << 15);
            let mut parts: Vec<_> =
                Datatype::Fp32.number(value.into()).spread(ELEMENTS_MAX).map(Number::value).collect();
            parts.shuffle(&mut random);
            #[expect(clippy::cast_precision_loss, reason = "that is the test")]
            let added = parts.iter().fold(sum as f32, |sum, part| sum + *part as f32);
            assert_eq!(f64::from(added).to_bits(), f64::from(sum + value).to_bits());
        }
    }

    /// Replays and exported scripts make them again.
    #[test]
    fn the_elements_of_a_number_are_always_the_same() {
        for (datatype, expected) in [
            (Datatype::Int32, "[0, -1557170, -950374, 2508544]"),
            (Datatype::Int64, "[4034587181, -1557170, -950374, -4032078637]"),
            (Datatype::Uint32, "[0, 4293410126, 4294016922, 2508544]"),
            (Datatype::Uint64, "[4034587181, 18446744073707994446, 18446744073708601242, 18446744069677472979]"),
            (Datatype::Fp32, "[328, -81, -431, 1184]"),
            (Datatype::Fp64, "[328, -81, -431, 1184]"),
            (Datatype::Bytes, "[0, -1557170, -950374, 2508544]"),
        ] {
            assert_eq!(format!("{:?}", datatype.number(1000).spread(4).collect::<Vec<_>>()), expected, "{datatype}");
        }
    }

    #[test]
    fn numbers_are_equal_however_many_elements_they_are() {
        let three = NonZeroU16::new(3).expect("not 0");
        let spread = Number::from(7).of_elements(three);
        assert_eq!((spread, spread.elements(), spread.wrapping_add(1.into()).elements().get()), (7.into(), three, 1));
    }

    #[test]
    fn what_is_no_whole_number_is_told() {
        let fp32 = |number: f32| Datatype::Fp32.split(&number.to_le_bytes()).expect("an element").0;
        let fp64 = |number: f64| Datatype::Fp64.split(&number.to_le_bytes()).expect("an element").0;
        assert_eq!(fp32(-0.0), Ok(Datatype::Fp32.number(0)));
        assert_eq!(fp32(f32::NAN), Err("NaN".to_owned()));
        assert_eq!(fp32(f32::INFINITY), Err("inf".to_owned()));
        assert_eq!(fp64(-2.5), Err("-2.5".to_owned()));
        assert_eq!(fp64(1e300), Err("1e300".to_owned()));
        let text = |text: &[u8]| Datatype::Bytes.split(&[&[4, 0, 0, 0], text].concat()).map(|(element, _)| element);
        assert_eq!(text(b"-123"), Some(Ok(Datatype::Bytes.number(-123))));
        assert_eq!(text(b"1.25"), Some(Err("the text \"1.25\"".to_owned())));
        assert_eq!(text(b"123"), None);
    }
}
