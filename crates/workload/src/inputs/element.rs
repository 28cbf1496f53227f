//! Elements as bytes of a tensor.

use std::ops::RangeInclusive;

use half::{bf16, f16};

use super::ElementType;

/// What an element is before it has a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'v> {
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text(&'v str),
}

impl ElementType {
    /// Which numbers it has; none where it has others than whole ones.
    pub(super) fn whole_range(self) -> Option<RangeInclusive<i128>> {
        match self {
            Self::Bool => Some(0..=1),
            Self::Uint8 => Some(0..=u8::MAX.into()),
            Self::Uint16 => Some(0..=u16::MAX.into()),
            Self::Uint32 => Some(0..=u32::MAX.into()),
            Self::Uint64 => Some(0..=u64::MAX.into()),
            Self::Int8 => Some(i8::MIN.into()..=i8::MAX.into()),
            Self::Int16 => Some(i16::MIN.into()..=i16::MAX.into()),
            Self::Int32 => Some(i32::MIN.into()..=i32::MAX.into()),
            Self::Int64 => Some(i64::MIN.into()..=i64::MAX.into()),
            Self::Fp16 | Self::Fp32 | Self::Fp64 | Self::Bf16 | Self::Bytes => None,
        }
    }

    /// Appends an element to a tensor's bytes. False, and nothing is appended, where the type has no such element.
    pub(super) fn append(self, value: Value<'_>, data: &mut Vec<u8>) -> bool {
        match (self.whole_range(), value) {
            (Some(range), Value::Whole(number)) => {
                let fits = range.contains(&number);
                if fits {
                    data.extend_from_slice(&number.to_le_bytes()[..self.size().unwrap_or(0)]);
                }
                fits
            }
            (Some(_), Value::Bool(number)) if self == Self::Bool => {
                data.push(number.into());
                true
            }
            #[expect(clippy::cast_precision_loss, reason = "a type of floating-point numbers has the nearest one")]
            (None, Value::Whole(number)) => self.append_float(number as f64, data),
            (None, Value::Float(number)) => self.append_float(number, data),
            (None, Value::Text(text)) if self == Self::Bytes => append_text(text.as_bytes(), data),
            _ => false,
        }
    }

    fn append_float(self, number: f64, data: &mut Vec<u8>) -> bool {
        #[expect(clippy::cast_possible_truncation, reason = "the nearest number of the type is meant")]
        let single = number as f32;
        let (half, brain) = (f16::from_f64(number), bf16::from_f64(number));
        let is_finite = match self {
            Self::Fp16 => half.is_finite(),
            Self::Bf16 => brain.is_finite(),
            Self::Fp32 => single.is_finite(),
            _ => number.is_finite(),
        };
        // A number that is too large for the type is no infinity.
        if number.is_finite() && !is_finite {
            return false;
        }
        match self {
            Self::Fp16 => data.extend_from_slice(&half.to_le_bytes()),
            Self::Bf16 => data.extend_from_slice(&brain.to_le_bytes()),
            Self::Fp32 => data.extend_from_slice(&single.to_le_bytes()),
            Self::Fp64 => data.extend_from_slice(&number.to_le_bytes()),
            _ => return false,
        }
        true
    }
}

/// Appends a text with its length before it. False where its length does not fit.
pub(super) fn append_text(text: &[u8], data: &mut Vec<u8>) -> bool {
    let Ok(length) = u32::try_from(text.len()) else { return false };
    data.extend_from_slice(&length.to_le_bytes());
    data.extend_from_slice(text);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(datatype: ElementType, value: Value<'_>) -> Option<Vec<u8>> {
        let mut data = Vec::new();
        datatype.append(value, &mut data).then_some(data)
    }

    #[test]
    fn an_element_has_the_bytes_of_its_type() {
        for (datatype, value, expected) in [
            (ElementType::Bool, Value::Bool(true), &[1][..]),
            (ElementType::Bool, Value::Whole(0), &[0]),
            (ElementType::Uint8, Value::Whole(255), &[255]),
            (ElementType::Int8, Value::Whole(-1), &[255]),
            (ElementType::Int16, Value::Whole(-2), &[254, 255]),
            (ElementType::Uint64, Value::Whole(u64::MAX.into()), &[255; 8]),
            (ElementType::Int64, Value::Whole(i64::MIN.into()), &[0, 0, 0, 0, 0, 0, 0, 128]),
            (ElementType::Fp16, Value::Float(1.5), &[0, 0x3e]),
            (ElementType::Bf16, Value::Float(1.5), &[0xc0, 0x3f]),
            (ElementType::Fp32, Value::Whole(1), &[0, 0, 0x80, 0x3f]),
            (ElementType::Fp64, Value::Float(f64::NEG_INFINITY), &[0, 0, 0, 0, 0, 0, 0xf0, 0xff]),
            (ElementType::Bytes, Value::Text("ab"), b"\x02\0\0\0ab"),
        ] {
            assert_eq!(bytes(datatype, value).as_deref(), Some(expected), "{datatype} {value:?}");
        }
    }

    #[test]
    fn what_a_type_does_not_have_is_no_element() {
        for (datatype, value) in [
            (ElementType::Bool, Value::Whole(2)),
            (ElementType::Uint8, Value::Whole(256)),
            (ElementType::Uint8, Value::Bool(true)),
            (ElementType::Int8, Value::Whole(-129)),
            (ElementType::Int32, Value::Float(1.0)),
            (ElementType::Fp16, Value::Float(70_000.0)),
            (ElementType::Bf16, Value::Float(f64::MAX)),
            (ElementType::Fp32, Value::Float(1e39)),
            (ElementType::Fp32, Value::Text("1")),
            (ElementType::Bytes, Value::Whole(1)),
            (ElementType::Bytes, Value::Float(1.0)),
        ] {
            assert_eq!(bytes(datatype, value), None, "{datatype} {value:?}");
        }
    }
}
