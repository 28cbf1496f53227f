//! Floating-point numbers of 16 bits: a sign, 5 bits of an exponent and 10 of a fraction.

/// Up to which power of two all whole numbers are among them.
pub(super) const EXACT_BITS: u32 = FRACTION_BITS + 1;
const FRACTION_BITS: u32 = 10;
const FRACTION: u16 = (1 << FRACTION_BITS) - 1;
const BIAS: u16 = 15;
/// The exponent of what is infinite or no number.
const NO_NUMBER: u16 = 31;

/// The number that these bits are.
pub(super) fn number(bits: u16) -> f64 {
    let (exponent, fraction) = (bits >> FRACTION_BITS & NO_NUMBER, f64::from(bits & FRACTION));
    // How much the last bit counts, which is the same below the least exponent as in it.
    let unit = f64::from(exponent.max(1)) - f64::from(BIAS) - f64::from(FRACTION_BITS);
    let size = match exponent {
        NO_NUMBER if fraction > 0.0 => f64::NAN,
        NO_NUMBER => f64::INFINITY,
        0 => fraction * unit.exp2(),
        _ => (f64::from(FRACTION + 1) + fraction) * unit.exp2(),
    };
    if bits >> 15 == 0 { size } else { -size }
}

/// The bits of a whole number. One that needs more bits than there are loses the last ones, and one that is too large is infinite.
pub(super) fn of(number: i64) -> u16 {
    let sign = u16::from(number < 0) << 15;
    let size = number.unsigned_abs();
    let Some(power) = size.checked_ilog2() else { return 0 };
    if power > BIAS.into() {
        return sign | NO_NUMBER << FRACTION_BITS;
    }
    let kept = if power > FRACTION_BITS { size >> (power - FRACTION_BITS) } else { size << (FRACTION_BITS - power) };
    #[expect(clippy::cast_possible_truncation, reason = "both are of few bits")]
    let (exponent, fraction) = (power as u16 + BIAS, kept as u16 & FRACTION);
    sign | exponent << FRACTION_BITS | fraction
}

#[cfg(test)]
mod tests {
    use super::{number, of};

    #[test]
    fn bits_are_numbers() {
        for (bits, is) in [
            (0x0000, 0.0),
            (0x0001, 1.0 / 16_777_216.0),
            (0x03ff, 1023.0 / 16_777_216.0),
            (0x0400, 1.0 / 16_384.0),
            (0x3800, 0.5),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x63d0, 1000.0),
            (0x7bff, 65_504.0),
            (0x7c00, f64::INFINITY),
            (0xfc00, f64::NEG_INFINITY),
        ] {
            assert_eq!(number(bits).to_bits(), f64::to_bits(is), "{bits:#x}");
        }
        assert_eq!(number(0x8000).to_bits(), f64::to_bits(-0.0));
        assert!(number(0x7c01).is_nan() && number(0xffff).is_nan());
    }

    #[test]
    fn whole_numbers_are_exact_up_to_2048_and_beyond_where_they_can_be() {
        for whole in -2048_i64..=2048 {
            assert_eq!(
                number(of(whole)).to_bits(),
                f64::from(i32::try_from(whole).expect("small")).to_bits(),
                "{whole}"
            );
        }
        for (whole, is) in [(2049, 2048.0), (4098, 4096.0), (-4100, -4100.0), (65_504, 65_504.0), (65_535, 65_504.0)] {
            assert_eq!(number(of(whole)).to_bits(), f64::to_bits(is), "{whole}");
        }
        assert_eq!((number(of(65_536)), number(of(i64::MIN))), (f64::INFINITY, f64::NEG_INFINITY));
    }
}
