//! How far two tensors are apart.

use std::{fmt, str::FromStr};

use half::{bf16, f16};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use workload::inputs::ElementType;

/// How an output is compared with the golden one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Numbers may be apart by as much as the calibration measured, and some more; all else is equal.
    #[default]
    Measured,
    /// All elements are equal.
    Exact,
    /// Elements may be apart by so much, relative to the larger one.
    Rtol(f64),
    /// Elements may be apart by so much.
    Atol(f64),
    /// One less the cosine between the two, taken as vectors, is not more than this.
    Cosine(f64),
    /// The output is not asked for.
    Ignore,
}

impl FromStr for Compare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "'{text}' is no way to compare: there are measured, exact, ignore, rtol:X, atol:X and cosine:X, with X from 0 up"
            )
        };
        let (name, bound) = text.split_once(':').map_or((text, None), |(name, bound)| (name, Some(bound)));
        let bound = match bound {
            None => None,
            Some(bound) => {
                let bound: f64 = bound.parse().map_err(|_| unknown())?;
                Some(bound).filter(|bound| bound.is_finite() && *bound >= 0.0).ok_or_else(unknown).map(Some)?
            }
        };
        match (name, bound) {
            ("measured", None) => Ok(Self::Measured),
            ("exact", None) => Ok(Self::Exact),
            ("ignore", None) => Ok(Self::Ignore),
            ("rtol", Some(bound)) => Ok(Self::Rtol(bound)),
            ("atol", Some(bound)) => Ok(Self::Atol(bound)),
            ("cosine", Some(bound)) => Ok(Self::Cosine(bound)),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Compare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured => f.write_str("measured"),
            Self::Exact => f.write_str("exact"),
            Self::Rtol(bound) => write!(f, "rtol:{bound:e}"),
            Self::Atol(bound) => write!(f, "atol:{bound:e}"),
            Self::Cosine(bound) => write!(f, "cosine:{bound:e}"),
            Self::Ignore => f.write_str("ignore"),
        }
    }
}

impl Compare {
    /// How far two tensors are apart by the rule's measure: infinite where no number says it, as of texts that differ. NaN is equal to NaN.
    pub fn distance(self, datatype: ElementType, expected: &[u8], seen: &[u8]) -> f64 {
        if expected == seen {
            return 0.0;
        }
        if expected.len() != seen.len() {
            return f64::INFINITY;
        }
        if matches!(self, Self::Cosine(_)) && is_number(datatype) {
            return cosine(datatype, expected, seen);
        }
        // The usual case at the speed of memory; what is no number goes the long way.
        if datatype == ElementType::Fp32 && matches!(self, Self::Measured | Self::Atol(_)) {
            let by = fp32(expected, seen);
            if by.is_finite() {
                return by;
            }
        }
        self.of_elements(datatype, expected, seen).fold(0.0, f64::max)
    }

    /// The element, from 0, that is the farthest apart, and how many are by more than this; none where they are not compared one by one.
    pub(super) fn worst(
        self,
        datatype: ElementType,
        expected: &[u8],
        seen: &[u8],
        tolerance: f64,
    ) -> Option<(usize, usize)> {
        if matches!(self, Self::Cosine(_)) || expected.len() != seen.len() {
            return None;
        }
        let (mut worst, mut most, mut differing) = (0, 0.0, 0);
        for (element, by) in self.of_elements(datatype, expected, seen).enumerate() {
            differing += usize::from(by > tolerance);
            if by > most {
                (worst, most) = (element, by);
            }
        }
        Some((worst, differing))
    }

    /// How far each element is from the one that it should be. Texts are one element.
    fn of_elements<'b>(
        self,
        datatype: ElementType,
        expected: &'b [u8],
        seen: &'b [u8],
    ) -> impl Iterator<Item = f64> + use<'b> {
        let size = datatype.size().unwrap_or(expected.len().max(1));
        let pairs = expected.chunks(size).zip(seen.chunks(size));
        pairs.map(move |(one, other)| if one == other { 0.0 } else { self.of_element(datatype, one, other) })
    }

    /// How far two elements are apart whose bytes differ.
    #[expect(clippy::float_cmp, reason = "what is equal is no distance apart, whatever it is")]
    fn of_element(self, datatype: ElementType, expected: &[u8], seen: &[u8]) -> f64 {
        let (Some(one), Some(other)) = (numbers(datatype, expected).next(), numbers(datatype, seen).next()) else {
            return f64::INFINITY;
        };
        let is_equal = is_float(datatype) && (one == other || (one.is_nan() && other.is_nan()));
        match self {
            _ if is_equal => 0.0,
            Self::Exact => f64::INFINITY,
            _ if !one.is_finite() || !other.is_finite() => f64::INFINITY,
            Self::Rtol(_) => (one - other).abs() / one.abs().max(other.abs()),
            // Large whole numbers that differ can be one floating-point number.
            _ if !is_float(datatype) => (one - other).abs().max(1.0),
            _ => (one - other).abs(),
        }
    }
}

/// Whether elements of the type are numbers.
pub(super) fn is_number(datatype: ElementType) -> bool {
    !matches!(datatype, ElementType::Bool | ElementType::Bytes)
}

/// Whether elements of the type are floating-point numbers.
pub(super) fn is_float(datatype: ElementType) -> bool {
    matches!(datatype, ElementType::Fp16 | ElementType::Bf16 | ElementType::Fp32 | ElementType::Fp64)
}

/// How far the elements of two tensors of FP32 are apart at the most; no number where some are none.
fn fp32(expected: &[u8], seen: &[u8]) -> f64 {
    let (expected, seen) = (expected.as_chunks::<4>().0, seen.as_chunks::<4>().0);
    let mut worst = 0.0_f32;
    let mut sum = 0.0_f32;
    for (one, other) in expected.iter().zip(seen) {
        let apart = (f32::from_le_bytes(*one) - f32::from_le_bytes(*other)).abs();
        worst = worst.max(apart);
        // What is no number stays none in a sum, and a maximum passes it over.
        sum += apart;
    }
    if sum.is_finite() { worst.into() } else { f64::NAN }
}

#[expect(clippy::float_cmp, reason = "infinite numbers are equal, or they are not")]
fn cosine(datatype: ElementType, expected: &[u8], seen: &[u8]) -> f64 {
    let mut dot = 0.0;
    let (mut one, mut other) = (0.0, 0.0);
    for (a, b) in numbers(datatype, expected).zip(numbers(datatype, seen)) {
        if a.is_nan() && b.is_nan() || a == b && a.is_infinite() {
            continue;
        }
        if !a.is_finite() || !b.is_finite() {
            return f64::INFINITY;
        }
        dot += a * b;
        one += a * a;
        other += b * b;
    }
    if one == 0.0 && other == 0.0 {
        0.0
    } else if one == 0.0 || other == 0.0 {
        1.0
    } else {
        let apart = 1.0 - dot / (one.sqrt() * other.sqrt());
        // Squares of large numbers are infinite: then nobody knows.
        if apart.is_nan() { f64::INFINITY } else { apart.max(0.0) }
    }
}

/// The elements as numbers; nothing of types that are none.
#[expect(
    clippy::cast_precision_loss,
    reason = "far apart they are so as this, too, and equal ones are compared as bytes first"
)]
pub(super) fn numbers(datatype: ElementType, bytes: &[u8]) -> Box<dyn Iterator<Item = f64> + '_> {
    fn of<'b, const N: usize>(
        bytes: &'b [u8],
        number: impl Fn([u8; N]) -> f64 + 'b,
    ) -> Box<dyn Iterator<Item = f64> + 'b> {
        Box::new(bytes.as_chunks::<N>().0.iter().map(move |element| number(*element)))
    }
    match datatype {
        ElementType::Bool | ElementType::Bytes => Box::new(std::iter::empty()),
        ElementType::Uint8 => of(bytes, |b| u8::from_le_bytes(b).into()),
        ElementType::Uint16 => of(bytes, |b| u16::from_le_bytes(b).into()),
        ElementType::Uint32 => of(bytes, |b| u32::from_le_bytes(b).into()),
        ElementType::Uint64 => of(bytes, |b| u64::from_le_bytes(b) as f64),
        ElementType::Int8 => of(bytes, |b| i8::from_le_bytes(b).into()),
        ElementType::Int16 => of(bytes, |b| i16::from_le_bytes(b).into()),
        ElementType::Int32 => of(bytes, |b| i32::from_le_bytes(b).into()),
        ElementType::Int64 => of(bytes, |b| i64::from_le_bytes(b) as f64),
        ElementType::Fp16 => of(bytes, |b| f16::from_le_bytes(b).into()),
        ElementType::Bf16 => of(bytes, |b| bf16::from_le_bytes(b).into()),
        ElementType::Fp32 => of(bytes, |b| f32::from_le_bytes(b).into()),
        ElementType::Fp64 => of(bytes, f64::from_le_bytes),
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "distances that are exact")]
mod tests {
    use super::*;

    fn fp32s(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn apart(rule: Compare, one: &[f32], other: &[f32]) -> (f64, usize) {
        let (one, other) = (fp32s(one), fp32s(other));
        let worst = rule.worst(ElementType::Fp32, &one, &other, 0.0);
        (rule.distance(ElementType::Fp32, &one, &other), worst.map_or(0, |(element, _)| element))
    }

    #[test]
    fn each_rule_has_its_measure() {
        let (one, other) = ([1.0, 2.0, -4.0], [1.0, 2.5, -4.0]);
        assert_eq!(apart(Compare::Measured, &one, &other), (0.5, 1));
        assert_eq!(apart(Compare::Atol(0.1), &one, &other), (0.5, 1));
        assert_eq!(apart(Compare::Rtol(0.1), &one, &other), (0.2, 1));
        assert_eq!(apart(Compare::Exact, &one, &other), (f64::INFINITY, 1));
        assert!((apart(Compare::Cosine(0.1), &[1.0, 0.0], &[0.0, 1.0]).0 - 1.0).abs() < 1e-12);
        assert!(apart(Compare::Cosine(0.1), &[1.0, 2.0], &[2.0, 4.0]).0 < 1e-12);
        let of_large = |scale: f64, other: f64| {
            let bytes = |numbers: [f64; 2]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
            Compare::Cosine(0.1).distance(ElementType::Fp64, &bytes([scale, scale]), &bytes([scale, other * scale]))
        };
        assert!(of_large(1e80, 1.000_001) < 1e-6 && of_large(1e80, -1.0) > 0.9);
        assert_eq!(of_large(1e160, 1.000_001), f64::INFINITY);
        for rule in [Compare::Measured, Compare::Exact, Compare::Rtol(0.0), Compare::Cosine(0.0)] {
            assert_eq!(apart(rule, &one, &one), (0.0, 0));
        }
    }

    #[test]
    fn what_is_no_number_is_equal_to_the_same_alone() {
        let (nan, infinite) = (f32::NAN, f32::INFINITY);
        let other_nan = f32::from_bits(nan.to_bits() ^ 1);
        for rule in [Compare::Measured, Compare::Exact, Compare::Rtol(1.0), Compare::Atol(1.0), Compare::Cosine(1.0)] {
            assert_eq!(apart(rule, &[nan, infinite, 1.0], &[other_nan, infinite, 1.0]).0, 0.0, "{rule:?}");
            for other in [[nan, nan, 1.0], [1.0, infinite, 1.0], [nan, -infinite, 1.0], [nan, 3.0, 1.0]] {
                assert_eq!(apart(rule, &[nan, infinite, 1.0], &other).0, f64::INFINITY, "{rule:?} {other:?}");
            }
        }
        assert_eq!(apart(Compare::Measured, &[nan, 1.0], &[nan, 1.5]), (0.5, 1));
    }

    #[test]
    fn every_type_is_compared_and_other_lengths_are_never_equal() {
        for datatype in ElementType::ALL {
            let size = datatype.size().unwrap_or(1);
            let (one, mut other) = (vec![0; 3 * size], vec![0; 3 * size]);
            assert_eq!(Compare::Measured.distance(datatype, &one, &other), 0.0);
            other[size + size - 1] = 1;
            let worst = Compare::Measured.worst(datatype, &one, &other, 0.0);
            let element = usize::from(datatype != ElementType::Bytes);
            assert_eq!(worst, Some((element, 1)), "{datatype}");
            assert!(Compare::Measured.distance(datatype, &one, &other) > 0.0, "{datatype}");
            assert_eq!(Compare::Atol(1e300).distance(datatype, &one, &other[..size]), f64::INFINITY);
        }
        let apart = |one: i64, other: i64| {
            Compare::Measured.distance(ElementType::Int64, &one.to_le_bytes(), &other.to_le_bytes()).to_string()
        };
        assert_eq!(apart(3, 5), "2");
        // As floating-point numbers they are the same.
        assert_eq!(apart(i64::MAX, i64::MAX - 1), "1");
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        for (text, rule) in [
            ("measured", Compare::Measured),
            ("exact", Compare::Exact),
            ("ignore", Compare::Ignore),
            ("rtol:1e-3", Compare::Rtol(1e-3)),
            ("atol:0", Compare::Atol(0.0)),
            ("cosine:0.5", Compare::Cosine(0.5)),
        ] {
            assert_eq!((text.parse(), rule.to_string().parse()), (Ok(rule), Ok(rule)));
        }
        for text in ["", "rtol", "rtol:", "rtol:-1", "atol:nan", "exact:1", "l2:1"] {
            let why = text.parse::<Compare>().expect_err("none");
            assert!(why.starts_with(&format!("'{text}' is no way to compare")), "{why}");
        }
    }
}
