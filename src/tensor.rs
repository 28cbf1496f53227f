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

impl TensorSpec {
    /// The shape of one element, of the same rank.
    ///
    /// None where the tensor cannot hold exactly one element.
    #[must_use]
    pub fn single_element_shape(&self) -> Option<Vec<i64>> {
        let fits = !self.shape.is_empty() && self.shape.iter().all(|&size| size == -1 || size == 1);
        fits.then(|| vec![1; self.shape.len()])
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
        match self {
            Self::Raw(bytes) => datatype.split(bytes).filter(|(_, rest)| rest.is_empty()).map(|(element, _)| element),
            Self::Int32(elements) if datatype == Datatype::Int32 => {
                <[i32; 1]>::try_from(elements.as_slice()).ok().map(|[element]| Ok(element.into()))
            }
            Self::Int32(_) | Self::Absent => None,
        }
    }
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
