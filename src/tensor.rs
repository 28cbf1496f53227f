//! Tensors on the wire: their types, shapes and bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::number::{Datatype, Element};

/// What a model declares of one of its tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[must_use]
pub fn elements(shape: &[i64]) -> usize {
    shape.iter().map(|size| usize::try_from(*size).unwrap_or(0)).fold(1, usize::saturating_mul)
}

impl TensorSpec {
    /// The shape with the fewest elements: one where the size is open.
    ///
    /// None where it has no dimensions, or more elements than are sent.
    #[must_use]
    pub fn smallest_shape(&self) -> Option<Vec<i64>> {
        let shape: Vec<_> = self.shape.iter().map(|&size| if size == -1 { 1 } else { size }).collect();
        let fits = (1..=ELEMENTS_MAX).contains(&elements(&shape));
        (!shape.is_empty() && fits).then_some(shape)
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
    /// The element of a tensor that holds exactly one of this type.
    #[must_use]
    pub fn single(&self, datatype: Datatype) -> Option<Element> {
        self.alike(datatype, 1)
    }

    /// What all elements of a tensor are that holds exactly so many of this type; where they differ that is told in words.
    #[must_use]
    pub fn alike(&self, datatype: Datatype, count: usize) -> Option<Element> {
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
}

fn alike(mut elements: impl Iterator<Item = Element>, count: usize) -> Option<Element> {
    let first = elements.next()?;
    let mut told = first.clone();
    let mut seen = 1;
    for (number, element) in (2..).zip(elements) {
        seen += 1;
        if let (Ok(one), true) = (&first, element != first && told.is_ok()) {
            let other = element.map_or_else(|words| words, |other| other.to_string());
            told = Err(format!("{one}, and {other} in element {number} of {count}"));
        }
    }
    (seen == count).then_some(told)
}

impl fmt::Display for TensorData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Int32(elements) => write!(f, "{} elements", elements.len()),
            Self::Absent => f.write_str("no elements of its type"),
        }
    }
}
