//! Bodies that are compressed: what is sent to be inferred, and what comes back for it.

use std::io::{self, Read};

use flate2::read::{GzEncoder, MultiGzDecoder, ZlibDecoder, ZlibEncoder};
use prost::bytes::Bytes;

use workload::scenario::Compression;

/// What a header's name stands for.
pub(super) fn named(name: &str) -> Option<Compression> {
    match name.trim().to_ascii_lowercase().as_str() {
        "identity" => Some(Compression::None),
        name => Compression::named(name).filter(|compression| *compression != Compression::None),
    }
}

/// Compresses a body.
pub(super) fn compress(compression: Compression, body: Vec<u8>) -> Vec<u8> {
    let (level, mut compressed) = (flate2::Compression::fast(), Vec::new());
    let read = match compression {
        Compression::None => return body,
        Compression::Gzip => GzEncoder::new(&*body, level).read_to_end(&mut compressed),
        // What HTTP calls deflate is a zlib stream.
        Compression::Deflate => ZlibEncoder::new(&*body, level).read_to_end(&mut compressed),
    };
    read.expect("reading from memory does not fail");
    compressed
}

/// Takes a body apart; none where that has more bytes than it may.
pub(super) fn decompress(compression: Compression, body: Bytes, most: usize) -> io::Result<Option<Bytes>> {
    match compression {
        Compression::None => Ok(Some(body)),
        Compression::Gzip => read(MultiGzDecoder::new(&*body), most),
        Compression::Deflate => read(ZlibDecoder::new(&*body), most),
    }
}

fn read(from: impl Read, most: usize) -> io::Result<Option<Bytes>> {
    let mut all = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    from.take(limit).read_to_end(&mut all)?;
    Ok((all.len() <= most).then(|| all.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_taken_apart_up_to_their_limit() {
        let body = b"a body, a body, a body, a body".to_vec();
        for compression in [Compression::None, Compression::Gzip, Compression::Deflate] {
            let compressed = Bytes::from(compress(compression, body.clone()));
            assert_eq!(decompress(compression, compressed.clone(), 30).expect("a body").as_deref(), Some(&*body));
            let name = if compression == Compression::None { "Identity" } else { compression.name() };
            assert_eq!(named(name), Some(compression));
            if compression != Compression::None {
                assert_eq!(decompress(compression, compressed.clone(), 29).expect("a body"), None);
                let part = compressed.slice(..compressed.len() - 5);
                assert!(decompress(compression, part, 30).is_err(), "{compression:?}");
            }
        }
        let other = decompress(Compression::Gzip, Bytes::from_static(b"plain"), 30);
        assert!(other.is_err(), "{other:?}");
        assert_eq!(named("br"), None);
    }

    #[test]
    fn what_is_made_to_grow_is_not_kept() {
        let bomb = Bytes::from(compress(Compression::Gzip, vec![0; 64 << 20]));
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        assert_eq!(decompress(Compression::Gzip, bomb, 1 << 20).expect("a body"), None);
    }
}
