//! FP16: numbers of 16 bits, of which 5 are an exponent and 10 a fraction.

#![forbid(unsafe_code)]

/// The bits of the fraction, here and in an `f64`.
const FRACTION: u32 = 10;
const FRACTION_64: u32 = f64::MANTISSA_DIGITS - 1;
const INFINITY: u16 = 0x7c00;
/// The exponent of the smallest number whose first bit is not written down.
const LEAST_EXPONENT: i32 = -14;

/// The number of these bits.
pub(crate) fn from_bits(bits: u16) -> f64 {
    let sign = u32::from(bits & 0x8000) << 16;
    let rest = u32::from(bits & 0x7fff);
    let size = match bits & INFINITY {
        // Without an exponent they count the smallest steps.
        0 => f32::from(bits & 0x03ff) / 16_777_216.0,
        INFINITY => f32::from_bits(0x7f80_0000 | rest << 13),
        // An f32 has a longer fraction, and an exponent that begins 112 lower.
        _ => f32::from_bits((rest << 13) + (112 << 23)),
    };
    f32::from_bits(size.to_bits() | sign).into()
}

/// The bits of the nearest number, of two the even one.
pub(crate) fn to_bits(number: f64) -> u16 {
    let bits = number.to_bits();
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    if number.is_nan() {
        return sign | INFINITY | 1;
    }
    let exponent = (bits >> FRACTION_64 & 0x7ff) as i32 - 1023;
    if exponent > 15 {
        return sign | INFINITY;
    }
    let significand = bits & ((1 << FRACTION_64) - 1) | 1 << FRACTION_64;
    let dropped = FRACTION_64 - FRACTION + (LEAST_EXPONENT - exponent).max(0).unsigned_abs();
    // Then it is below half of the smallest number.
    if dropped > FRACTION_64 + 1 {
        return sign;
    }
    let (kept, rest, half) = (significand >> dropped, significand & ((1 << dropped) - 1), 1 << (dropped - 1));
    let is_up = rest > half || rest == half && kept & 1 == 1;
    // The first bit of what is kept counts as one exponent more, and so does a fraction that becomes too long.
    let exponent = u64::from((exponent - LEAST_EXPONENT).max(0).unsigned_abs());
    let size = (exponent << FRACTION) + kept + u64::from(is_up);
    sign | u16::try_from(size).map_or(INFINITY, |size| size.min(INFINITY))
}

#[cfg(test)]
mod tests {
    use super::{from_bits, to_bits};

    #[test]
    fn each_number_has_its_bits_back() {
        for bits in 0..=u16::MAX {
            let number = from_bits(bits);
            if number.is_nan() {
                assert!(from_bits(to_bits(number)).is_nan(), "{bits:#x}");
            } else {
                assert_eq!(to_bits(number), bits, "{number}");
            }
        }
        for (bits, number) in
            [(0x3c00, 1.0), (0xc500, -5.0), (0x63d0, 1000.0), (0x7bff, 65504.0), (0x0001, 1.0 / 16_777_216.0)]
        {
            assert_eq!(from_bits(bits).to_bits(), f64::to_bits(number), "{bits:#x}");
        }
    }

    /// Between each two neighbours the middle goes to the even one, and what is beside the middle to the nearer one.
    #[test]
    fn what_lies_between_two_is_rounded() {
        for bits in 0..0x7bff_u16 {
            let middle = f64::midpoint(from_bits(bits), from_bits(bits + 1));
            assert_eq!(to_bits(middle), bits + (bits & 1), "{middle}");
            assert_eq!((to_bits(middle.next_down()), to_bits(middle.next_up())), (bits, bits + 1), "{middle}");
            assert_eq!(to_bits(-middle), (bits + (bits & 1)) | 0x8000, "-{middle}");
        }
        assert_eq!((to_bits(65519.9), to_bits(65520.0), to_bits(-1e300)), (0x7bff, 0x7c00, 0xfc00));
        assert_eq!((to_bits(1e-300), to_bits(f64::MIN_POSITIVE)), (0, 0));
    }
}
