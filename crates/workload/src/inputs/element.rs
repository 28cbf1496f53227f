//! Elements as bytes of a tensor.

use std::{iter, mem, ops::RangeInclusive};

use half::{bf16, f16};
use serde_json::Value as Json;

use super::ElementType;

/// What an element is before it has a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element<'v> {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Whole(i128),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(&'v str),
}

impl<'v> Element<'v> {
    /// The element that a JSON value is. Lists, objects and null are none.
    pub fn of_json(json: &'v Json) -> Option<Self> {
        match json {
            Json::Bool(element) => Some(Self::Bool(*element)),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Some(Self::Whole(number.into())),
                (None, Some(number)) => Some(Self::Whole(number.into())),
                (None, None) => number.as_f64().map(Self::Float),
            },
            Json::String(text) => Some(Self::Text(text)),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        }
    }
}

impl ElementType {
    /// Whether the protocol has it in JSON and in typed contents, too, and not as bytes alone.
    pub fn is_in_json(self) -> bool {
        !matches!(self, Self::Fp16 | Self::Bf16)
    }

    /// Which numbers it has; none where it has others than whole ones.
    pub fn whole_range(self) -> Option<RangeInclusive<i128>> {
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
    pub fn append(self, element: Element<'_>, data: &mut Vec<u8>) -> bool {
        match (self.whole_range(), element) {
            (Some(range), Element::Whole(number)) => {
                let fits = range.contains(&number);
                if fits {
                    data.extend_from_slice(&number.to_le_bytes()[..self.size().unwrap_or(0)]);
                }
                fits
            }
            (Some(_), Element::Bool(number)) if self == Self::Bool => {
                data.push(number.into());
                true
            }
            #[expect(clippy::cast_precision_loss, reason = "a type of floating-point numbers has the nearest one")]
            (None, Element::Whole(number)) => self.append_float(number as f64, data),
            (None, Element::Float(number)) => self.append_float(number, data),
            (None, Element::Text(text)) if self == Self::Bytes => append_text(text.as_bytes(), data),
            _ => false,
        }
    }

    /// Appends an element as Triton does that reads it from JSON: of a whole number that is too large the last bytes remain, and for FP32
    /// such a number is an infinity. False, and nothing is appended, where Triton takes no such element.
    pub fn append_from_json(self, element: Element<'_>, data: &mut Vec<u8>) -> bool {
        match (self, self.whole_range(), element) {
            (Self::Fp16 | Self::Bf16, ..) | (Self::Bool, _, Element::Whole(_)) => false,
            (_, Some(range), Element::Whole(number)) if number >= 0 || *range.start() < 0 => {
                data.extend_from_slice(&number.to_le_bytes()[..self.size().unwrap_or(0)]);
                true
            }
            #[expect(clippy::cast_possible_truncation, reason = "the nearest number of the type is meant")]
            (Self::Fp32, _, Element::Float(number)) => self.append(Element::Float((number as f32).into()), data),
            _ => self.append(element, data),
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

/// Appends a text with its length before it. False, and nothing is appended, where its length does not fit.
pub fn append_text(text: &[u8], data: &mut Vec<u8>) -> bool {
    let Ok(length) = u32::try_from(text.len()) else { return false };
    data.extend_from_slice(&length.to_le_bytes());
    data.extend_from_slice(text);
    true
}

/// The texts of a tensor's bytes. The last item is `None` where the bytes end within a text.
pub fn texts(mut bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    iter::from_fn(move || {
        let all = mem::take(&mut bytes);
        let first = || {
            let (length, rest) = all.split_first_chunk()?;
            rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
        };
        (!all.is_empty()).then(|| {
            let (text, rest) = first()?;
            bytes = rest;
            Some(text)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(datatype: ElementType, element: Element<'_>) -> Option<Vec<u8>> {
        let mut data = Vec::new();
        datatype.append(element, &mut data).then_some(data)
    }

    #[test]
    fn an_element_has_the_bytes_of_its_type() {
        for (datatype, element, expected) in [
            (ElementType::Bool, Element::Bool(true), &[1][..]),
            (ElementType::Bool, Element::Whole(0), &[0]),
            (ElementType::Uint8, Element::Whole(255), &[255]),
            (ElementType::Int8, Element::Whole(-1), &[255]),
            (ElementType::Int16, Element::Whole(-2), &[254, 255]),
            (ElementType::Uint64, Element::Whole(u64::MAX.into()), &[255; 8]),
            (ElementType::Int64, Element::Whole(i64::MIN.into()), &[0, 0, 0, 0, 0, 0, 0, 128]),
            (ElementType::Fp16, Element::Float(1.5), &[0, 0x3e]),
            (ElementType::Bf16, Element::Float(1.5), &[0xc0, 0x3f]),
            (ElementType::Fp32, Element::Whole(1), &[0, 0, 0x80, 0x3f]),
            (ElementType::Fp64, Element::Float(f64::NEG_INFINITY), &[0, 0, 0, 0, 0, 0, 0xf0, 0xff]),
            (ElementType::Bytes, Element::Text("ab"), b"\x02\0\0\0ab"),
        ] {
            assert_eq!(bytes(datatype, element).as_deref(), Some(expected), "{datatype} {element:?}");
        }
    }

    #[test]
    fn what_a_type_does_not_have_is_no_element() {
        for (datatype, element) in [
            (ElementType::Bool, Element::Whole(2)),
            (ElementType::Uint8, Element::Whole(256)),
            (ElementType::Uint8, Element::Bool(true)),
            (ElementType::Int8, Element::Whole(-129)),
            (ElementType::Int32, Element::Float(1.0)),
            (ElementType::Fp16, Element::Float(70_000.0)),
            (ElementType::Bf16, Element::Float(f64::MAX)),
            (ElementType::Fp32, Element::Float(1e39)),
            (ElementType::Fp32, Element::Text("1")),
            (ElementType::Bytes, Element::Whole(1)),
            (ElementType::Bytes, Element::Float(1.0)),
        ] {
            assert_eq!(bytes(datatype, element), None, "{datatype} {element:?}");
        }
    }

    #[test]
    fn triton_cuts_numbers_in_json() {
        for (datatype, element, expected) in [
            (ElementType::Int8, Element::Whole(300), Some(&[44][..])),
            (ElementType::Int8, Element::Whole(-129), Some(&[127])),
            (ElementType::Uint16, Element::Whole(65_536), Some(&[0, 0])),
            (ElementType::Uint16, Element::Whole(-1), None),
            (ElementType::Fp32, Element::Float(-1e39), Some(&[0, 0, 0x80, 0xff])),
            (ElementType::Fp32, Element::Whole(1), Some(&[0, 0, 0x80, 0x3f])),
            (ElementType::Bool, Element::Bool(true), Some(&[1])),
            (ElementType::Bool, Element::Whole(1), None),
            (ElementType::Fp16, Element::Float(1.0), None),
            (ElementType::Bf16, Element::Whole(1), None),
        ] {
            let mut data = Vec::new();
            let appended = datatype.append_from_json(element, &mut data).then_some(&data[..]);
            assert_eq!(appended, expected, "{datatype} {element:?}");
        }
    }
}
