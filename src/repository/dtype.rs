//! The data types of models, as their names have them.

use sequence_stress_formats::element::ElementType;

use crate::{
    number::{Datatype, Number},
    proto::DataType,
};

macro_rules! dtypes {
    ($($dtype:ident $name:literal $data_type:ident $datatype:ident $element:ident;)*) => {
        /// A data type, called as NumPy calls it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "their names say it; of Bool the controls are BOOL and the numbers INT32")]
        pub enum Dtype { $($dtype,)* }

        impl Dtype {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$dtype),*];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$dtype => $name,)* }
            }

            /// The type of the tensors, as configurations have it.
            pub(super) fn data_type(self) -> DataType {
                match self { $(Self::$dtype => DataType::$data_type,)* }
            }

            /// The type of the tensors, as model files have it.
            pub(super) fn element(self) -> ElementType {
                match self { $(Self::$dtype => ElementType::$element,)* }
            }

            /// The type that is computed in.
            pub(super) fn datatype(self) -> Datatype {
                match self { $(Self::$dtype => Datatype::$datatype,)* }
            }
        }
    };
}

dtypes! {
    Int8 "int8" TypeInt8 Int8 Int8;
    Int16 "int16" TypeInt16 Int16 Int16;
    Int32 "int32" TypeInt32 Int32 Int32;
    Int64 "int64" TypeInt64 Int64 Int64;
    Uint8 "uint8" TypeUint8 Uint8 Uint8;
    Uint16 "uint16" TypeUint16 Uint16 Uint16;
    Uint32 "uint32" TypeUint32 Uint32 Uint32;
    Uint64 "uint64" TypeUint64 Uint64 Uint64;
    Float16 "float16" TypeFp16 Fp16 Fp16;
    Float32 "float32" TypeFp32 Fp32 Fp32;
    Float64 "float64" TypeFp64 Fp64 Fp64;
    Object "object" TypeString Bytes Text;
    Bool "bool" TypeInt32 Int32 Int32;
}

impl Dtype {
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
                Err(format!("a state of {name} has to be {}, and the file is {what}", datatype.what()))
            }
            _ => Err(format!("a state of {name} has {}, and the file {size}", datatype.size())),
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
