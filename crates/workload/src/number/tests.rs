use rand::{RngExt as _, SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::tensor::ELEMENTS_MAX;

#[test]
fn each_type_wraps_in_its_own_width_and_reads_what_it_puts() {
    for (datatype, most, next) in [
        (Datatype::Int8, "127", "-128"),
        (Datatype::Int16, "32767", "-32768"),
        (Datatype::Uint8, "255", "0"),
        (Datatype::Uint16, "65535", "0"),
        (Datatype::Int32, "2147483647", "-2147483648"),
        (Datatype::Bytes, "2147483647", "-2147483648"),
        (Datatype::Uint32, "4294967295", "0"),
        (Datatype::Int64, "9223372036854775807", "-9223372036854775808"),
        (Datatype::Uint64, "18446744073709551615", "0"),
        (Datatype::Fp16, "2047", "2048"),
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
    assert_eq!(Datatype::named("BF16"), None);
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
        // Of FP16 there are three elements only.
        let most = if datatype == Datatype::Fp16 { 12 } else { 8 };
        assert!(alike < most, "{datatype}: other elements for another number");
    }
}

#[test]
fn few_elements_of_fp16_are_added_exactly_in_whatever_order() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    for count in [1, 2, 3, 16, ELEMENTS_MAX] {
        let most = i64::try_from(Number::strays(Datatype::Fp16, count)).expect("small");
        for value in -8_i64..8 {
            // What a sum may be, with this value in it or not.
            let mut sum: i64 = random.random_range(most + 8 - 2048..=2048 - 8 - most);
            let mut parts: Vec<_> = Datatype::Fp16.number(value).spread(count).map(Number::value).collect();
            parts.shuffle(&mut random);
            // At its worst, all that are above 0 come first.
            if value % 2 == 0 {
                parts.sort_unstable();
            }
            for part in parts {
                sum += part;
                assert!(sum.abs() <= 2048, "{value} as {count} elements comes to {sum}");
            }
        }
    }
}

#[test]
fn floating_point_elements_are_added_exactly_in_whatever_order() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    for _ in 0..50 {
        // What a sum may be, and what a value may be of a sequence of the fewest steps.
        let sum: i32 = random.random_range(-1 << 23..1 << 23);
        let value: i32 = random.random_range(-1 << 15..1 << 15);
        let mut parts: Vec<_> = Datatype::Fp32.number(value.into()).spread(ELEMENTS_MAX).map(Number::value).collect();
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
        (Datatype::Int8, "[-3, 0, 1, -22]"),
        (Datatype::Int16, "[0, -24, -15, 1039]"),
        (Datatype::Uint8, "[26, 12, 200, 250]"),
        (Datatype::Uint16, "[0, 65512, 65521, 1039]"),
        (Datatype::Fp16, "[0, 1, -1, 1000]"),
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
    let fraction = |number: &str| Err(NotWhole::Fraction(number.to_owned()));
    let fp16 = |bits: u16| Datatype::Fp16.split(&bits.to_le_bytes()).expect("an element").0;
    assert_eq!((fp16(0x8000), fp16(0xc500)), (Ok(Datatype::Fp16.number(0)), Ok(Datatype::Fp16.number(-5))));
    assert_eq!((fp16(0x7c00), fp16(0x3e00)), (fraction("inf"), fraction("1.5")));
    let fp32 = |number: f32| Datatype::Fp32.split(&number.to_le_bytes()).expect("an element").0;
    let fp64 = |number: f64| Datatype::Fp64.split(&number.to_le_bytes()).expect("an element").0;
    assert_eq!(fp32(-0.0), Ok(Datatype::Fp32.number(0)));
    assert_eq!(fp32(f32::NAN), fraction("NaN"));
    assert_eq!(fp32(f32::INFINITY), fraction("inf"));
    assert_eq!(fp64(-2.5), fraction("-2.5"));
    assert_eq!(fp64(1e300), fraction("1e300"));
    let text = |text: &[u8]| Datatype::Bytes.split(&[&[4, 0, 0, 0], text].concat()).map(|(element, _)| element);
    assert_eq!(text(b"-123"), Some(Ok(Datatype::Bytes.number(-123))));
    assert_eq!(text(b"1.25"), Some(Err(NotWhole::Text("1.25".to_owned()))));
    assert_eq!(text(b"123"), None);
}
