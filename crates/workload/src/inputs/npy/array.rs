//! One array, as a `.npy` file has it.
//!
//! The format is that of NumPy Enhancement Proposal 1, versions 1 to 3: a magic, a version, the length of a header, the header as a
//! literal of Python, and the elements.

use super::super::{ElementType, element::append_text};

const MAGIC: &[u8] = b"\x93NUMPY";

/// An array whose first dimension is the steps.
#[derive(Debug)]
pub(super) struct Array {
    item: Item,
    /// Never empty, and without a size of 0.
    shape: Vec<usize>,
    /// In the order of C.
    data: Vec<u8>,
}

/// An element, as it lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    kind: Kind,
    /// How many bytes it has; never 0.
    bytes: usize,
    /// Whether the bytes of each number are the other way round.
    swap: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number(ElementType),
    /// Bytes, with NULs behind them.
    Bytes,
    /// Characters of 4 bytes, with NULs behind them.
    Characters,
}

impl Array {
    /// Reads an array. Errors say what is wrong with it, in one line.
    pub(super) fn read(file: &[u8]) -> Result<Self, String> {
        let (header, data) = split(file)?;
        let header = String::from_utf8_lossy(header);
        let field = |name: &str| {
            let key = format!("'{name}':");
            let place = header.find(&key).ok_or_else(|| damaged(&format!("its header has no '{name}'")))?;
            Ok::<_, String>(header[place + key.len()..].trim_start())
        };
        let item = Item::read(field("descr")?)?;
        let is_in_columns = field("fortran_order")?.starts_with("True");
        let shape = shape(field("shape")?)?;
        if shape.is_empty() {
            return Err("the array is a single number: its first dimension has to be the steps".to_owned());
        }
        if shape.contains(&0) {
            return Err(format!("the array has shape {shape:?}, which has no elements: give it at least one step"));
        }
        let bytes = shape.iter().try_fold(item.bytes, |product, size| product.checked_mul(*size));
        if bytes != Some(data.len()) {
            let wanted = bytes.map_or_else(|| "too many".to_owned(), |bytes| bytes.to_string());
            let has = data.len();
            return Err(damaged(&format!("it has {has} bytes of elements, and its shape {shape:?} needs {wanted}")));
        }
        let data = if is_in_columns { in_rows(data, &shape, item.bytes) } else { data.to_vec() };
        Ok(Self { item, shape, data })
    }

    pub(super) fn steps(&self) -> usize {
        self.shape[0]
    }

    /// How many bytes its elements take.
    pub(super) fn bytes(&self) -> usize {
        self.data.len()
    }

    pub(super) fn datatype(&self) -> ElementType {
        match self.item.kind {
            Kind::Number(datatype) => datatype,
            Kind::Bytes | Kind::Characters => ElementType::Bytes,
        }
    }

    pub(super) fn shape_of_step(&self) -> Vec<i64> {
        self.shape[1..].iter().map(|size| i64::try_from(*size).unwrap_or(i64::MAX)).collect()
    }

    /// What a tensor has of each step.
    pub(super) fn into_steps(self) -> impl Iterator<Item = Result<Vec<u8>, String>> {
        let Self { item, shape, data } = self;
        let of_step = data.len() / shape[0];
        (0..shape[0]).map(move |step| item.tensor(&data[step * of_step..][..of_step]))
    }
}

fn damaged(what: &str) -> String {
    format!("it is no .npy file, or is damaged: {what}")
}

/// The header and what is behind it.
fn split(file: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let rest = file.strip_prefix(MAGIC).ok_or_else(|| damaged("it does not begin as one"))?;
    let cut = || damaged("it ends within its header");
    let (&[major, _minor], rest) = rest.split_first_chunk().ok_or_else(cut)?;
    let (length, rest) = match major {
        1 => rest.split_first_chunk().map(|(length, rest)| (u32::from(u16::from_le_bytes(*length)), rest)),
        2 | 3 => rest.split_first_chunk().map(|(length, rest)| (u32::from_le_bytes(*length), rest)),
        _ => {
            return Err(format!(
                "its version is {major}, and versions 1 to 3 are known: save it with a NumPy of today"
            ));
        }
    }
    .ok_or_else(cut)?;
    usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)).ok_or_else(cut)
}

/// Reads `(3, 4), …`.
fn shape(literal: &str) -> Result<Vec<usize>, String> {
    let unclear = || damaged("its header has no shape such as (3, 4)");
    let (sizes, _) = literal.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(unclear)?;
    let sizes = sizes.split(',').map(str::trim).filter(|size| !size.is_empty());
    // Python 2 wrote an L behind some.
    sizes.map(|size| size.trim_end_matches('L').parse().map_err(|_| unclear())).collect()
}

/// The elements of an array that has the first dimension's next to each other.
fn in_rows(data: &[u8], shape: &[usize], item: usize) -> Vec<u8> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = item;
    for size in shape {
        strides.push(stride);
        stride *= size;
    }
    let mut rows = Vec::with_capacity(data.len());
    let mut index = vec![0; shape.len()];
    let mut place = 0;
    while rows.len() < data.len() {
        rows.extend_from_slice(&data[place..place + item]);
        for dimension in (0..shape.len()).rev() {
            index[dimension] += 1;
            place += strides[dimension];
            if index[dimension] < shape[dimension] {
                break;
            }
            place -= index[dimension] * strides[dimension];
            index[dimension] = 0;
        }
    }
    rows
}

impl Item {
    /// Reads what an element is, such as `'<f4', …`.
    fn read(literal: &str) -> Result<Self, String> {
        let name = literal.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
        let Some((name, _)) = name else {
            return Err(
                "its elements have fields (a structured dtype): save each field as an array of its own".to_owned()
            );
        };
        let unknown = || {
            let types = "bool, int8 to int64, uint8 to uint64, float16 to float64, ml_dtypes.bfloat16, S and U";
            format!("its dtype '{}' is no type of Triton: save it as one of {types}", name.escape_debug())
        };
        let mut characters = name.chars();
        let order = characters.next().ok_or_else(unknown)?;
        let kind = characters.as_str();
        if kind.starts_with('O') {
            let advice = "save texts as numpy.array(texts, dtype='S') or dtype='U'";
            return Err(format!(
                "its elements are pickled Python objects (dtype object), which are not read: {advice}"
            ));
        }
        let swap = order == '>';
        let texts = |kind, of_character: usize, length: &str| {
            let bytes = length.parse().ok().and_then(|length: usize| length.checked_mul(of_character));
            let bytes = bytes.filter(|bytes| *bytes > 0).ok_or_else(unknown)?;
            Ok(Self { kind, bytes, swap })
        };
        if let Some(length) = kind.strip_prefix('S') {
            return texts(Kind::Bytes, 1, length);
        }
        if let Some(length) = kind.strip_prefix('U') {
            return texts(Kind::Characters, 4, length);
        }
        let datatype = match kind {
            "b1" => ElementType::Bool,
            "u1" => ElementType::Uint8,
            "u2" => ElementType::Uint16,
            "u4" => ElementType::Uint32,
            "u8" => ElementType::Uint64,
            "i1" => ElementType::Int8,
            "i2" => ElementType::Int16,
            "i4" => ElementType::Int32,
            "i8" => ElementType::Int64,
            "f2" => ElementType::Fp16,
            "f4" => ElementType::Fp32,
            "f8" => ElementType::Fp64,
            // As `ml_dtypes.bfloat16` is saved.
            "V2" => ElementType::Bf16,
            _ => return Err(unknown()),
        };
        let bytes = datatype.size().ok_or_else(unknown)?;
        Ok(Self { kind: Kind::Number(datatype), bytes, swap })
    }

    /// The elements as a tensor has them.
    fn tensor(self, elements: &[u8]) -> Result<Vec<u8>, String> {
        let mut data = Vec::with_capacity(elements.len());
        for element in elements.chunks_exact(self.bytes) {
            match self.kind {
                Kind::Number(ElementType::Bool) => data.push(u8::from(element != [0])),
                Kind::Number(_) if self.swap => data.extend(element.iter().rev()),
                Kind::Number(_) => data.extend_from_slice(element),
                Kind::Bytes => self.text(without_nuls(element), &mut data)?,
                Kind::Characters => self.text(characters(element, self.swap)?.as_bytes(), &mut data)?,
            }
        }
        Ok(data)
    }

    fn text(self, text: &[u8], data: &mut Vec<u8>) -> Result<(), String> {
        append_text(text, data)
            .then_some(())
            .ok_or_else(|| format!("a text has {} bytes, which are too many", self.bytes))
    }
}

fn without_nuls(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &text[..end]
}

fn characters(element: &[u8], swap: bool) -> Result<String, String> {
    let read = |bytes: &[u8]| {
        let bytes = bytes.try_into().unwrap_or_default();
        let code = if swap { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        char::from_u32(code)
            .ok_or_else(|| format!("a text has a character of the code {code:#x}, which Unicode does not have"))
    };
    let mut text = element.chunks_exact(4).map(read).collect::<Result<String, _>>()?;
    text.truncate(text.trim_end_matches('\0').len());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(header.len()).expect("short").to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), data].concat()
    }

    /// The type, the shape of a step, and the bytes of each.
    type Steps = (ElementType, Vec<i64>, Vec<Vec<u8>>);

    fn with(descr: &str, order: &str, shape: &str, data: &[u8]) -> Result<Steps, String> {
        let array =
            Array::read(&file(&format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"), data))?;
        let (datatype, shape) = (array.datatype(), array.shape_of_step());
        Ok((datatype, shape, array.into_steps().collect::<Result<_, _>>()?))
    }

    #[test]
    fn elements_become_a_tensors() {
        for (descr, order, shape, data, expected) in [
            (
                "'<i2'",
                "False",
                "(2, 1)",
                &[1, 2, 3, 4][..],
                (ElementType::Int16, vec![1], vec![vec![1, 2], vec![3, 4]]),
            ),
            ("'>i2'", "False", "(2,)", &[1, 2, 3, 4], (ElementType::Int16, vec![], vec![vec![2, 1], vec![4, 3]])),
            ("'|b1'", "False", "(1L,2L)", &[0, 2], (ElementType::Bool, vec![2], vec![vec![0, 1]])),
            (
                "'|u1'",
                "True",
                "(2, 3)",
                &[1, 4, 2, 5, 3, 6],
                (ElementType::Uint8, vec![3], vec![vec![1, 2, 3], vec![4, 5, 6]]),
            ),
            (
                "'|S3'",
                "False",
                "(2, 1)",
                b"ab\0\0\0\0",
                (ElementType::Bytes, vec![1], vec![b"\x02\0\0\0ab".to_vec(), vec![0; 4]]),
            ),
            (
                "'>U2'",
                "False",
                "(1, 1)",
                &[0, 0, 0, 0xe9, 0, 0, 0, 0],
                (ElementType::Bytes, vec![1], vec![b"\x02\0\0\0\xc3\xa9".to_vec()]),
            ),
            ("'<V2'", "False", "(1, 1)", &[0xc0, 0x3f], (ElementType::Bf16, vec![1], vec![vec![0xc0, 0x3f]])),
        ] {
            assert_eq!(with(descr, order, shape, data), Ok(expected), "{descr} {shape}");
        }
    }

    #[test]
    fn columns_become_rows_in_any_number_of_dimensions() {
        let shape = [2, 3, 4];
        let place = |[a, b, c]: [u8; 3]| a * 12 + b * 4 + c;
        let mut columns = Vec::new();
        for c in 0..4 {
            for b in 0..3 {
                columns.extend((0..2).map(|a| place([a, b, c])));
            }
        }
        assert_eq!(in_rows(&columns, &shape, 1), (0..24).collect::<Vec<_>>());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let objects = "its elements are pickled Python objects (dtype object), which are not read: save texts as numpy.array(texts, dtype='S') or dtype='U'";
        let types = "is no type of Triton: save it as one of bool, int8 to int64, uint8 to uint64, float16 to float64, ml_dtypes.bfloat16, S and U";
        let damaged = "it is no .npy file, or is damaged: ";
        for (descr, order, shape, data, expected) in [
            ("'|O'", "False", "(1,)", &[0; 9][..], objects.to_owned()),
            ("'<c8'", "False", "(1,)", &[0; 8], format!("its dtype '<c8' {types}")),
            ("'<M8[ns]'", "False", "(1,)", &[0; 8], format!("its dtype '<M8[ns]' {types}")),
            ("'<U0'", "False", "(9,)", &[], format!("its dtype '<U0' {types}")),
            ("'<U99999999999999999999'", "False", "(1,)", &[], format!("its dtype '<U99999999999999999999' {types}")),
            (
                "[('a', '<i4')]",
                "False",
                "(1,)",
                &[0; 4],
                "its elements have fields (a structured dtype): save each field as an array of its own".to_owned(),
            ),
            (
                "'<i4'",
                "False",
                "()",
                &[0; 4],
                "the array is a single number: its first dimension has to be the steps".to_owned(),
            ),
            (
                "'<i4'",
                "False",
                "(99999999999, 0)",
                &[],
                "the array has shape [99999999999, 0], which has no elements: give it at least one step".to_owned(),
            ),
            (
                "'<i4'",
                "True",
                "(2, 1000000000000)",
                &[0; 4],
                format!("{damaged}it has 4 bytes of elements, and its shape [2, 1000000000000] needs 8000000000000"),
            ),
            (
                "'<i4'",
                "False",
                "(18446744073709551615, 2)",
                &[0; 4],
                format!("{damaged}it has 4 bytes of elements, and its shape [18446744073709551615, 2] needs too many"),
            ),
            ("'<i4'", "False", "(-1,)", &[0; 4], format!("{damaged}its header has no shape such as (3, 4)")),
            ("'<i4'", "False", "3", &[0; 4], format!("{damaged}its header has no shape such as (3, 4)")),
            (
                "'<U1'",
                "False",
                "(1,)",
                &[0, 0xd8, 0, 0],
                "a text has a character of the code 0xd800, which Unicode does not have".to_owned(),
            ),
        ] {
            assert_eq!(with(descr, order, shape, data), Err(expected), "{descr} {shape}");
        }
        let header = "{'descr': '<i4', 'shape': (1,)}";
        for (file, expected) in [
            (file(header, &[0; 4]), "its header has no 'fortran_order'"),
            (b"PK\x03\x04".to_vec(), "it does not begin as one"),
            (MAGIC.to_vec(), "it ends within its header"),
            (file(header, &[])[..20].to_vec(), "it ends within its header"),
        ] {
            assert_eq!(Array::read(&file).map(|array| array.shape), Err(format!("{damaged}{expected}")));
        }
        let new = [MAGIC, &[4, 0, 0, 0, 0, 0]].concat();
        let expected = "its version is 4, and versions 1 to 3 are known: save it with a NumPy of today";
        assert_eq!(Array::read(&new).map(|array| array.shape), Err(expected.to_owned()));
    }
}
