//! Tensors on the wire: their types, shapes and bytes.

use std::{fmt, num::NonZeroU16};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number::{Datatype, Element, NotWhole, Number};

/// What a model declares of one of its tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TensorSpec {
    /// The tensor's name.
    pub name: String,
    /// The type in the protocol's spelling, such as `INT32`.
    pub datatype: String,
    /// The shape, with the batch dimension where the model batches; -1 is any size.
    pub shape: Vec<i64>,
}

/// The most elements of a tensor that is sent.
pub const ELEMENTS_MAX: usize = 1024;

/// How many elements a shape has; none where a size is unknown.
pub fn elements(shape: &[i64]) -> usize {
    shape.iter().map(|size| usize::try_from(*size).unwrap_or(0)).fold(1, usize::saturating_mul)
}

impl TensorSpec {
    /// The shape with the fewest elements: one where the size is open.
    ///
    /// None where it has no dimensions, or more elements than are sent.
    pub fn smallest_shape(&self) -> Option<Vec<i64>> {
        let shape: Vec<_> = self.shape.iter().map(|&size| if size == -1 { 1 } else { size }).collect();
        let fits = (1..=ELEMENTS_MAX).contains(&elements(&shape));
        (!shape.is_empty() && fits).then_some(shape)
    }
}

/// The shape of what is sent and answered: fixed, or with one dimension whose size each number gives. In files that one is -1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<i64>", into = "Vec<i64>")]
pub struct Shape {
    /// With the size 1 where it is open.
    smallest: Vec<i64>,
    /// Which dimension may have any size.
    open: Option<usize>,
}

impl Shape {
    /// The dimension whose size is open.
    const OPEN: i64 = -1;

    /// What both tensors of a model take, where the first dimension is the batch's or not; the last open one stays open.
    ///
    /// None where they take nothing in common, or more elements than are sent.
    pub fn common(input: &TensorSpec, output: &TensorSpec, batches: bool) -> Option<Self> {
        let smallest = input.smallest_shape().filter(|shape| output.smallest_shape().as_ref() == Some(shape))?;
        let is_open = |place: &usize| [input, output].iter().all(|tensor| tensor.shape[*place] == Self::OPEN);
        let open = (usize::from(batches)..smallest.len()).rev().find(is_open);
        Some(Self { smallest, open })
    }

    /// Whether a dimension is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// How many elements a tensor has whose open dimension has this size.
    pub fn elements(&self, size: NonZeroU16) -> usize {
        let size = self.open.map_or(1, |_| size.get().into());
        elements(&self.smallest).saturating_mul(size)
    }

    /// The shape of a tensor whose open dimension has this size.
    pub fn of(&self, size: NonZeroU16) -> Vec<i64> {
        let mut shape = self.smallest.clone();
        if let Some(open) = self.open {
            shape[open] = size.get().into();
        }
        shape
    }

    /// The size that the open dimension has in a shape that is one of these; of a fixed one, 1.
    pub fn size_in(&self, shape: &[i64]) -> Option<NonZeroU16> {
        let size = match self.open {
            Some(open) => NonZeroU16::new(u16::try_from(*shape.get(open)?).ok()?)?,
            None => NonZeroU16::MIN,
        };
        let is_as = |(place, (one, other)): (usize, (&i64, &i64))| one == other || self.open == Some(place);
        let is_right = shape.len() == self.smallest.len() && shape.iter().zip(&self.smallest).enumerate().all(is_as);
        is_right.then_some(size)
    }

    /// The elements of a tensor that is this number.
    pub fn spread(&self, number: Number) -> impl Iterator<Item = Number> + use<> {
        number.spread(self.elements(number.elements()))
    }
}

impl From<Vec<i64>> for Shape {
    fn from(mut shape: Vec<i64>) -> Self {
        let open = shape.iter().position(|size| *size == Self::OPEN);
        if let Some(open) = open {
            shape[open] = 1;
        }
        Self { smallest: shape, open }
    }
}

impl From<Shape> for Vec<i64> {
    fn from(shape: Shape) -> Self {
        let Shape { mut smallest, open } = shape;
        if let Some(open) = open {
            smallest[open] = Shape::OPEN;
        }
        smallest
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{:?}", self.name, self.datatype, self.shape)
    }
}

/// One output of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tensor {
    /// The tensor's name.
    pub name: String,
    /// The type in the protocol's spelling.
    pub datatype: String,
    /// The shape, with the batch dimension where the model batches.
    pub shape: Vec<i64>,
    /// The elements.
    pub data: TensorData,
}

/// A tensor's elements, in either of the two ways that the protocol has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TensorData {
    /// Little-endian bytes.
    Raw(Vec<u8>),
    /// Numbers of type INT32.
    Int32(Vec<i32>),
    /// Nothing came, or only elements of another type.
    #[default]
    Absent,
}

impl TensorData {
    /// The number that all elements of a tensor are that holds exactly so many of this type.
    pub fn alike(&self, datatype: Datatype, count: usize) -> Option<Result<Number, Unlike>> {
        match self {
            Self::Raw(bytes) => {
                let mut rest = bytes.as_slice();
                let next = || {
                    let (element, behind) = datatype.split(rest)?;
                    rest = behind;
                    Some(element)
                };
                let alike = alike(std::iter::from_fn(next), count);
                alike.filter(|_| rest.is_empty())
            }
            Self::Int32(elements) if datatype == Datatype::Int32 => {
                alike(elements.iter().map(|element| Ok((*element).into())), count)
            }
            Self::Int32(_) | Self::Absent => None,
        }
    }

    /// What it holds.
    pub fn held(&self) -> Held {
        match self {
            Self::Raw(bytes) => Held::Bytes(bytes.len()),
            Self::Int32(elements) => Held::Elements(elements.len()),
            Self::Absent => Held::Nothing,
        }
    }
}

fn alike(mut elements: impl Iterator<Item = Element>, count: usize) -> Option<Result<Number, Unlike>> {
    let first = elements.next()?;
    let mut other = None;
    let mut seen = 1;
    for (element, content) in (2..).zip(elements) {
        seen += 1;
        if first.is_ok() && other.is_none() && content != first {
            other = Some(Other { content: content.into(), element, of: count });
        }
    }
    let alike = match (first, other) {
        (Ok(number), None) => Ok(number),
        (first, other) => Err(Unlike { first: first.into(), other }),
    };
    (seen == count).then_some(alike)
}

/// The elements of a tensor that are not one whole number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unlike {
    /// The first one.
    pub first: Content,
    /// The first one that is unlike the first of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Other>,
}

/// An element that is unlike the first one of its tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Other {
    /// What it is.
    pub content: Content,
    /// Its number, from 1.
    pub element: usize,
    /// How many elements the tensor has.
    pub of: usize,
}

/// What an element is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// A whole number.
    Whole(Number),
    /// Anything else.
    NotWhole(NotWhole),
}

impl From<Element> for Content {
    fn from(element: Element) -> Self {
        element.map_or_else(Self::NotWhole, Self::Whole)
    }
}

/// What a tensor holds, as far as it can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// So many bytes.
    Bytes(usize),
    /// So many elements.
    Elements(usize),
    /// No elements of its type.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(size: u16) -> NonZeroU16 {
        NonZeroU16::new(size).expect("not 0")
    }

    fn common(input: &[i64], output: &[i64], batches: bool) -> Option<Vec<i64>> {
        let tensor = |shape: &[i64]| TensorSpec { name: "T".into(), datatype: "INT32".into(), shape: shape.to_vec() };
        Shape::common(&tensor(input), &tensor(output), batches).map(Vec::from)
    }

    #[test]
    fn the_last_dimension_that_is_open_in_both_tensors_and_is_no_batch_has_any_size() {
        for (input, output, batches, expected) in [
            (&[-1, -1][..], &[-1, -1][..], true, Some(&[1, -1][..])),
            (&[-1], &[-1], false, Some(&[-1])),
            (&[-1], &[-1], true, Some(&[1])),
            (&[-1, 4], &[-1, 4], true, Some(&[1, 4])),
            (&[-1, -1, 3], &[-1, -1, 3], true, Some(&[1, -1, 3])),
            (&[-1, -1], &[-1, 1], true, Some(&[1, 1])),
            (&[-1, 2], &[-1, 3], true, None),
            (&[-1, 1025], &[-1, 1025], true, None),
            (&[], &[], false, None),
        ] {
            assert_eq!(common(input, output, batches).as_deref(), expected, "{input:?} {output:?} {batches}");
        }
    }

    #[test]
    fn a_shape_has_the_size_of_its_number_and_reads_it_back() {
        let open = Shape::from(vec![1, -1, 3]);
        let fixed = Shape::from(vec![1, 4]);
        assert_eq!((open.of(size(5)), open.elements(size(5)), open.is_open()), (vec![1, 5, 3], 15, true));
        assert_eq!((fixed.of(size(5)), fixed.elements(size(5)), fixed.is_open()), (vec![1, 4], 4, false));
        for (shape, seen, expected) in [
            (&open, &[1, 5, 3][..], Some(5)),
            (&open, &[1, 5, 4], None),
            (&open, &[1, 0, 3], None),
            (&open, &[1, -1, 3], None),
            (&open, &[1, 5], None),
            (&open, &[1], None),
            (&fixed, &[1, 4], Some(1)),
            (&fixed, &[1, 5], None),
            (&fixed, &[1, 4, 1], None),
        ] {
            assert_eq!(shape.size_in(seen).map(NonZeroU16::get), expected, "{shape:?} {seen:?}");
        }
        let text = serde_json::to_string(&open).expect("JSON");
        assert_eq!((text.as_str(), serde_json::from_str(&text).ok()), ("[1,-1,3]", Some(open)));
    }
}
