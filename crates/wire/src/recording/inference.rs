//! What a request says that is recorded, whichever protocol it came by.

use std::io::{self, Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};

use super::REQUEST_MAX;
use workload::inputs::{ElementType, recording::Input};

/// Why something is not recorded, as the summary has it.
pub(super) type Reason = &'static str;

pub(super) const IN_SHARED_MEMORY: Reason = "an input is in shared memory";
pub(super) const UNKNOWN_TYPE: Reason = "an input has a type that is not known";
pub(super) const WRONG_DATA: Reason = "an input's data do not fit its type or shape";
pub(super) const NO_INPUTS: Reason = "it has no inputs";
pub(super) const NOT_READABLE: Reason = "it cannot be read";
pub(super) const UNKNOWN_COMPRESSION: Reason = "it is compressed neither by gzip nor by deflate";
pub(super) const TOO_LARGE: Reason = "it is larger than 64 MiB";

/// An inference.
#[derive(Debug, PartialEq)]
pub(super) struct Inference {
    pub(super) model: String,
    /// None where it is of no sequence.
    pub(super) id: Option<Id>,
    pub(super) start: bool,
    pub(super) end: bool,
    pub(super) inputs: Result<Vec<Input>, Reason>,
}

/// A correlation ID.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Id {
    Number(u64),
    Text(String),
}

impl Id {
    /// The one of this number; zero is none.
    pub(super) fn of_number(number: u64) -> Option<Self> {
        (number != 0).then_some(Self::Number(number))
    }

    /// The one of this text; an empty one is none.
    pub(super) fn of_text(text: String) -> Option<Self> {
        (!text.is_empty()).then_some(Self::Text(text))
    }
}

/// Takes apart what is compressed by gzip or deflate.
pub(super) fn decompressed(bytes: &[u8]) -> Result<Vec<u8>, Reason> {
    match bytes {
        [0x1f, 0x8b, ..] => read(MultiGzDecoder::new(bytes)),
        // The header of zlib.
        [a, b, ..] if a & 0x0f == 8 && u16::from_be_bytes([*a, *b]).is_multiple_of(31) => read(ZlibDecoder::new(bytes)),
        _ => Err(UNKNOWN_COMPRESSION),
    }
}

fn read(from: impl Read) -> Result<Vec<u8>, Reason> {
    let mut all = Vec::new();
    let read: io::Result<usize> = from.take(REQUEST_MAX as u64 + 1).read_to_end(&mut all);
    read.map_err(|_| NOT_READABLE)?;
    if all.len() > REQUEST_MAX { Err(TOO_LARGE) } else { Ok(all) }
}

/// An input of these raw contents.
pub(super) fn input(name: String, datatype: &str, shape: Vec<i64>, data: Vec<u8>) -> Result<Input, Reason> {
    let datatype = ElementType::named(datatype).ok_or(UNKNOWN_TYPE)?;
    let expected = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(usize::try_from(*size).ok()?));
    if expected.is_none() || datatype.count(&data) != expected {
        return Err(WRONG_DATA);
    }
    Ok(Input { name, datatype, shape, data })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };

    use super::*;

    #[test]
    fn both_compressions_are_told_by_their_beginnings() {
        let text = b"some text, some text".repeat(9);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&text).expect("memory");
        let gzip = gzip.finish().expect("memory");
        assert_eq!(decompressed(&gzip).as_deref(), Ok(&*text));
        assert_eq!(decompressed(&gzip[..gzip.len() - 9]), Err(NOT_READABLE));
        for level in [Compression::none(), Compression::fast(), Compression::best()] {
            let mut zlib = ZlibEncoder::new(Vec::new(), level);
            zlib.write_all(&text).expect("memory");
            assert_eq!(decompressed(&zlib.finish().expect("memory")).as_deref(), Ok(&*text));
        }
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
        raw.write_all(&text).expect("memory");
        assert_eq!(decompressed(&raw.finish().expect("memory")), Err(UNKNOWN_COMPRESSION));
        let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
        bomb.write_all(&vec![0; REQUEST_MAX + 1]).expect("memory");
        assert_eq!(decompressed(&bomb.finish().expect("memory")), Err(TOO_LARGE));
    }

    #[test]
    fn data_have_to_fit_type_and_shape() {
        let of =
            |datatype: &str, shape: &[i64], data: &[u8]| input("A".into(), datatype, shape.to_vec(), data.to_vec());
        assert!(of("INT32", &[1, 2], &[0; 8]).is_ok());
        assert!(of("BYTES", &[1], b"\x01\0\0\0a").is_ok());
        assert_eq!(of("INT32", &[1, 2], &[0; 4]), Err(WRONG_DATA));
        assert_eq!(of("INT32", &[-1, -1], &[0; 4]), Err(WRONG_DATA));
        assert_eq!(of("INT32", &[i64::MAX, 3], &[]), Err(WRONG_DATA));
        assert_eq!(of("INT31", &[1], &[0; 4]), Err(UNKNOWN_TYPE));
    }
}
