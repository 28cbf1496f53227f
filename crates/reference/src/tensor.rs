//! Tensors as models get and give them.

use super::number::Number;
use wire::proto::DataType;

workload::table! {
    /// The types of tensors, as the protocol spells them.
    pub(super) enum Datatype: Row {
        /// True or false; no model adds them up.
        Bool = "BOOL", Row(DataType::TypeBool, Some(1), true);
        /// Whole numbers of 8 bits.
        Int8 = "INT8", Row(DataType::TypeInt8, Some(1), true);
        /// Whole numbers of 16 bits.
        Int16 = "INT16", Row(DataType::TypeInt16, Some(2), true);
        /// Whole numbers of 32 bits.
        Int32 = "INT32", Row(DataType::TypeInt32, Some(4), true);
        /// Whole numbers of 64 bits.
        Int64 = "INT64", Row(DataType::TypeInt64, Some(8), true);
        /// Whole numbers of 8 bits without a sign.
        Uint8 = "UINT8", Row(DataType::TypeUint8, Some(1), true);
        /// Whole numbers of 16 bits without a sign.
        Uint16 = "UINT16", Row(DataType::TypeUint16, Some(2), true);
        /// Whole numbers of 32 bits without a sign.
        Uint32 = "UINT32", Row(DataType::TypeUint32, Some(4), true);
        /// Whole numbers of 64 bits without a sign.
        Uint64 = "UINT64", Row(DataType::TypeUint64, Some(8), true);
        /// Floating-point numbers of 16 bits.
        Fp16 = "FP16", Row(DataType::TypeFp16, Some(2), false);
        /// Floating-point numbers of 16 bits with the exponents of FP32; no model adds them up.
        Bf16 = "BF16", Row(DataType::TypeBf16, Some(2), false);
        /// Floating-point numbers of 32 bits.
        Fp32 = "FP32", Row(DataType::TypeFp32, Some(4), true);
        /// Floating-point numbers of 64 bits.
        Fp64 = "FP64", Row(DataType::TypeFp64, Some(8), true);
        /// Texts.
        Bytes = "BYTES", Row(DataType::TypeString, None, true);
    }
}

/// The type in a configuration, the bytes of an element where all have as many, and whether elements may stand in JSON.
struct Row(DataType, Option<usize>, bool);

impl Datatype {
    /// A configuration's type.
    pub(super) fn of(datatype: DataType) -> Option<Self> {
        Self::ALL.into_iter().find(|its| its.row().0 == datatype)
    }

    /// The type as a configuration has it.
    pub(super) fn in_config(self) -> DataType {
        self.row().0
    }

    /// The bytes of an element; none where elements differ in that.
    pub(super) fn size(self) -> Option<usize> {
        self.row().1
    }

    pub(super) fn is_in_json(self) -> bool {
        self.row().2
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) datatype: Datatype,
    pub(super) shape: Vec<i64>,
    /// The elements, little-endian; BYTES have their lengths before them.
    pub(super) data: Vec<u8>,
}

impl Tensor {
    /// A tensor of so many elements that are all this number.
    pub(super) fn filled(datatype: Datatype, shape: Vec<i64>, count: usize, number: Number) -> Self {
        Self { datatype, shape, data: number.to_le_bytes().repeat(count) }
    }

    pub(super) fn of(datatype: Datatype, shape: Vec<i64>, elements: &[Number]) -> Self {
        Self { datatype, shape, data: elements.iter().flat_map(|element| element.to_le_bytes()).collect() }
    }

    /// The elements as numbers.
    ///
    /// # Errors
    /// Which is none.
    pub(super) fn numbers(&self) -> Result<Vec<Number>, String> {
        let Some(size) = self.datatype.size() else { return texts(&self.data).map(number_of).collect() };
        let each = |bytes| Number::from_le_bytes(self.datatype, bytes).ok_or_else(|| "it holds no numbers".to_owned());
        self.data.chunks_exact(size).map(each).collect()
    }
}

fn number_of(text: Option<&[u8]>) -> Result<Number, String> {
    let text = String::from_utf8_lossy(text.ok_or("an element of it is cut off")?);
    Number::read(Datatype::Bytes, &text).ok_or_else(|| format!("'{text}' is no INT32 in decimal"))
}

/// A text as an element of a tensor of BYTES: with its length before it.
pub(super) fn text_element(text: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("no message has as many bytes");
    [&length.to_le_bytes()[..], text].concat()
}

/// The elements of a tensor of BYTES; none is one that is cut off, which is the last then.
pub(super) fn texts(data: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = data;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let whole = rest.split_first_chunk().and_then(|(length, behind)| {
            behind.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX))
        });
        let (text, behind) = whole.map_or((None, &rest[rest.len()..]), |(text, behind)| (Some(text), behind));
        rest = behind;
        Some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart_by_their_lengths() {
        let all = |data: &[u8]| texts(data).map(|text| text.map(<[u8]>::to_vec)).collect::<Vec<_>>();
        assert_eq!(all(b""), []);
        assert_eq!(all(b"\x02\0\0\0ab\0\0\0\0\x01\0\0\0c"), [Some(b"ab".to_vec()), Some(vec![]), Some(b"c".to_vec())]);
        assert_eq!(all(b"\x01\0\0\0a\x02\0\0\0b"), [Some(b"a".to_vec()), None]);
        assert_eq!(all(b"\x01\0"), [None]);
        assert_eq!(all(b"\xff\xff\xff\xffabc"), [None]);
    }

    #[test]
    fn elements_are_numbers_of_the_tensors_type() {
        let bytes = |data: &[u8]| Tensor { datatype: Datatype::Bytes, shape: vec![1], data: data.to_vec() }.numbers();
        assert_eq!(
            bytes(b"\x02\0\0\0-7\x01\0\0\x004"),
            Ok(vec![Number::Whole(Datatype::Bytes, -7), Number::Whole(Datatype::Bytes, 4)])
        );
        for (data, problem) in [
            (&b"\x03\0\0\0abc"[..], "'abc' is no INT32 in decimal"),
            (b"\0\0\0\0", "'' is no INT32 in decimal"),
            (b"\x05\0\0\x0012", "an element of it is cut off"),
        ] {
            assert_eq!(bytes(data), Err(problem.to_owned()));
        }
        let filled = Tensor::filled(Datatype::Fp64, vec![1, 2], 2, Number::Fp64(0.5));
        assert_eq!((filled.numbers(), filled.data.len()), (Ok(vec![Number::Fp64(0.5); 2]), 16));
    }
}
