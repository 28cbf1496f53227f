//! The data types of models, as their names have them.

use formats::element::ElementType;

use wire::proto::DataType;
use workload::number::{Datatype, Number};

workload::table! {
    /// A data type, called as NumPy calls it.
    pub enum Dtype: Row {
        /// Whole numbers of 8 bits.
        Int8 = "int8", Row(DataType::TypeInt8, Datatype::Int8, ElementType::Int8);
        /// Whole numbers of 16 bits.
        Int16 = "int16", Row(DataType::TypeInt16, Datatype::Int16, ElementType::Int16);
        /// Whole numbers of 32 bits.
        Int32 = "int32", Row(DataType::TypeInt32, Datatype::Int32, ElementType::Int32);
        /// Whole numbers of 64 bits.
        Int64 = "int64", Row(DataType::TypeInt64, Datatype::Int64, ElementType::Int64);
        /// Whole numbers of 8 bits without a sign.
        Uint8 = "uint8", Row(DataType::TypeUint8, Datatype::Uint8, ElementType::Uint8);
        /// Whole numbers of 16 bits without a sign.
        Uint16 = "uint16", Row(DataType::TypeUint16, Datatype::Uint16, ElementType::Uint16);
        /// Whole numbers of 32 bits without a sign.
        Uint32 = "uint32", Row(DataType::TypeUint32, Datatype::Uint32, ElementType::Uint32);
        /// Whole numbers of 64 bits without a sign.
        Uint64 = "uint64", Row(DataType::TypeUint64, Datatype::Uint64, ElementType::Uint64);
        /// Floating-point numbers of 16 bits.
        Float16 = "float16", Row(DataType::TypeFp16, Datatype::Fp16, ElementType::Fp16);
        /// Floating-point numbers of 32 bits.
        Float32 = "float32", Row(DataType::TypeFp32, Datatype::Fp32, ElementType::Fp32);
        /// Floating-point numbers of 64 bits.
        Float64 = "float64", Row(DataType::TypeFp64, Datatype::Fp64, ElementType::Fp64);
        /// Decimal texts of whole numbers.
        Object = "object", Row(DataType::TypeString, Datatype::Bytes, ElementType::Text);
        /// Controls are BOOL, and numbers INT32.
        Bool = "bool", Row(DataType::TypeInt32, Datatype::Int32, ElementType::Int32);
    }
}

/// The type of the tensors as configurations have it, the type that is computed in, and that of the tensors as model files have it.
struct Row(DataType, Datatype, ElementType);

impl Dtype {
    /// The type of the tensors, as configurations have it.
    pub(super) fn data_type(self) -> DataType {
        self.row().0
    }

    /// The type that is computed in.
    pub(super) fn datatype(self) -> Datatype {
        self.row().1
    }

    /// The type of the tensors, as model files have it.
    pub(super) fn element(self) -> ElementType {
        self.row().2
    }

    /// A number of the type.
    pub(super) fn number(self, value: i64) -> Number {
        self.datatype().number(value)
    }

    /// The number that a tensor of one element is.
    ///
    /// # Errors
    /// What the bytes are instead.
    pub(super) fn read(self, bytes: &[u8]) -> Result<Number, String> {
        let (name, size, datatype) = (self.name(), bytes.len(), self.datatype());
        match datatype.split(bytes) {
            Some((Ok(number), [])) => Ok(number),
            Some((Err(what), [])) => {
                Err(format!("a state of {name} has to be {}, and the file is {what}", datatype.in_words()))
            }
            _ => Err(format!(
                "a state of {name} has {}, and the file {size}",
                workload::inputs::ElementType::from(datatype).size_in_words()
            )),
        }
    }

    /// A number that the type has and that models which begin with nothing do not come by easily.
    pub(super) fn remarkable(self) -> i64 {
        match self {
            Self::Int8 | Self::Uint8 | Self::Float16 => 100,
            _ => 1000,
        }
    }
}
