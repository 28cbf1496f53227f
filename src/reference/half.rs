//! Numbers of FP16, by their bits.

/// A number of FP16: a sign, five bits of an exponent and ten of a fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Half(pub(super) u16);

const SIGN: u16 = 0x8000;
const INFINITE: u16 = 0x7c00;
/// The power of two of the last bit of the smallest numbers.
const LEAST_POWER: i32 = -24;
/// How much greater it is of the largest.
const GREATEST_POWER: i32 = 29;

impl Half {
    /// The number itself.
    pub(super) fn number(self) -> f64 {
        let size = self.0 & !SIGN;
        let sign = if self.0 & SIGN == 0 { 1.0 } else { -1.0 };
        if size >= INFINITE {
            return sign * if size == INFINITE { f64::INFINITY } else { f64::NAN };
        }
        let (exponent, fraction) = (size >> 10, size & 0x3ff);
        let (steps, power) = if exponent == 0 { (fraction, 0) } else { (fraction | 0x400, i32::from(exponent) - 1) };
        sign * f64::from(steps) * 2_f64.powi(LEAST_POWER + power)
    }

    /// The number of FP16 that is nearest to this one; of two that are as near, the one whose last bit is 0.
    pub(super) fn nearest(number: f64) -> Self {
        let sign = if number.is_sign_negative() { SIGN } else { 0 };
        if number.is_nan() {
            return Self(INFINITE | 1);
        }
        let size = number.abs();
        // Steps between neighbours double with each power of two above the smallest numbers.
        let mut power = 0;
        while (size / 2_f64.powi(LEAST_POWER + power)).round_ties_even() >= 2048.0 {
            if power >= GREATEST_POWER {
                return Self(sign | INFINITE);
            }
            power += 1;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "there are fewer than 2048 steps")]
        let steps = (size / 2_f64.powi(LEAST_POWER + power)).round_ties_even() as u16;
        let power = u16::try_from(power).expect("it is small");
        // A step more than the fraction has room for is the next exponent.
        Self(sign | ((power << 10) + steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bits_are_numbers_and_numbers_those_bits() {
        for bits in 0..=u16::MAX {
            let half = Half(bits);
            if !half.number().is_nan() {
                assert_eq!(Half::nearest(half.number()), half, "{bits:#x} is {}", half.number());
            }
        }
        for (bits, number) in
            [(0x3c00, 1.0), (0xc500, -5.0), (0x63d0, 1000.0), (0x7bff, 65504.0), (0x3555, 0.333_251_953_125)]
        {
            assert_eq!(Half(bits).number().to_bits(), f64::to_bits(number), "{bits:#x}");
        }
        assert!(Half(0x7c01).number().is_nan() && Half::nearest(f64::NAN).number().is_nan());
    }

    #[test]
    fn what_lies_between_is_rounded_to_the_nearest_and_to_the_even_of_two() {
        for (number, nearest) in [
            (2049.0, 2048.0),
            (2050.0, 2050.0),
            (2051.0, 2052.0),
            (4098.0, 4096.0),
            (65_519.0, 65_504.0),
            (65_520.0, f64::INFINITY),
            (-1e300, f64::NEG_INFINITY),
            (1e-300, 0.0),
        ] {
            assert_eq!(Half::nearest(number).number().to_bits(), f64::to_bits(nearest), "{number}");
        }
    }
}
