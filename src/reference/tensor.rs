//! Tensors as models get and give them.

use crate::proto::DataType;

/// The types that the reference server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Datatype {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Fp32,
    Bytes,
}

impl Datatype {
    /// A configuration's type.
    pub(super) fn of(datatype: DataType) -> Option<Self> {
        Some(match datatype {
            DataType::TypeBool => Self::Bool,
            DataType::TypeInt32 => Self::Int32,
            DataType::TypeInt64 => Self::Int64,
            DataType::TypeUint32 => Self::Uint32,
            DataType::TypeUint64 => Self::Uint64,
            DataType::TypeFp32 => Self::Fp32,
            DataType::TypeString => Self::Bytes,
            _ => return None,
        })
    }

    /// The type as the protocol spells it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Int32 => "INT32",
            Self::Int64 => "INT64",
            Self::Uint32 => "UINT32",
            Self::Uint64 => "UINT64",
            Self::Fp32 => "FP32",
            Self::Bytes => "BYTES",
        }
    }
}

/// A tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) datatype: Datatype,
    pub(super) shape: Vec<i64>,
    /// The elements, little-endian; BYTES have their lengths before them.
    pub(super) data: Vec<u8>,
}

impl Tensor {
    /// A tensor of INT32.
    pub(super) fn int32(shape: Vec<i64>, values: impl IntoIterator<Item = i32>) -> Self {
        Self { datatype: Datatype::Int32, shape, data: values.into_iter().flat_map(i32::to_le_bytes).collect() }
    }

    /// A tensor of INT64.
    pub(super) fn int64(shape: Vec<i64>, values: impl IntoIterator<Item = i64>) -> Self {
        Self { datatype: Datatype::Int64, shape, data: values.into_iter().flat_map(i64::to_le_bytes).collect() }
    }

    /// The elements of a tensor of INT32.
    pub(super) fn int32s(&self) -> impl Iterator<Item = i32> {
        self.data.chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }
}
