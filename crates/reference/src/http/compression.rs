//! Bodies that are compressed.

use std::io::Read;

use flate2::{
    Compression,
    read::{GzDecoder, GzEncoder, ZlibDecoder, ZlibEncoder},
};

workload::table! {
    /// How a body is compressed.
    pub(super) enum Encoding {
        /// DEFLATE with the header of gzip.
        Gzip = "gzip";
        /// DEFLATE with the header of zlib.
        Deflate = "deflate";
    }
}

impl Encoding {
    /// The one that `Accept-Encoding` prefers: that with the highest weight, the first of several.
    pub(super) fn of_answer(header: &str) -> Option<Self> {
        let mut best = (0.0, None);
        for item in header.split(',') {
            let (name, weight) = item.split_once(';').unwrap_or((item, "q=1"));
            let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse().ok()).unwrap_or(0.0);
            let name = name.trim_start();
            let encoding = Self::named(name);
            if weight > best.0 && (encoding.is_some() || name == "identity") {
                best = (weight, encoding);
            }
        }
        best.1
    }

    pub(super) fn compress(self, bytes: &[u8]) -> Vec<u8> {
        let mut compressed = Vec::new();
        let read = match self {
            Self::Gzip => GzEncoder::new(bytes, Compression::default()).read_to_end(&mut compressed),
            Self::Deflate => ZlibEncoder::new(bytes, Compression::default()).read_to_end(&mut compressed),
        };
        read.expect("reading from memory does not fail");
        compressed
    }
}

/// Takes a body apart that is compressed in either way, as far as that goes, as the real server does. None where it is larger than
/// `most`.
pub(super) fn decompress(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        read(GzDecoder::new(bytes), most)
    } else {
        read(ZlibDecoder::new(bytes), most)
    }
}

fn read(mut from: impl Read, most: usize) -> Option<Vec<u8>> {
    let mut piece = [0; 8192];
    let mut all = Vec::new();
    while let Ok(length @ 1..) = from.read(&mut piece) {
        if all.len() + length > most {
            return None;
        }
        all.extend(&piece[..length]);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the real server chose.
    #[test]
    fn the_preferred_encoding_is_chosen() {
        use Encoding::{Deflate, Gzip};
        for (header, chosen) in [
            ("gzip", Some(Gzip)),
            ("deflate, gzip", Some(Deflate)),
            ("gzip;q=0.2, deflate;q=0.8", Some(Deflate)),
            ("deflate;q=0.2,gzip;q=0.1", Some(Deflate)),
            ("br, gzip", Some(Gzip)),
            (" deflate", Some(Deflate)),
            ("identity, gzip", None),
            ("gzip;q=0", None),
            ("gzip;q=x", None),
            ("gzip ;q=0.5", None),
            ("identity;q=0", None),
            ("GZIP", None),
            ("*", None),
            ("*;q=0.5", None),
            ("", None),
        ] {
            assert_eq!(Encoding::of_answer(header), chosen, "{header}");
        }
    }

    #[test]
    fn bodies_are_compressed_and_taken_apart() {
        let body = b"a body, a body, a body, a body";
        for encoding in [Encoding::Gzip, Encoding::Deflate] {
            let mut compressed = encoding.compress(body);
            assert_eq!(decompress(&compressed, 30).as_deref(), Some(&body[..]));
            assert_eq!(decompress(&compressed, 29), None);
            compressed.extend(b"xx");
            assert_eq!(decompress(&compressed, 30).as_deref(), Some(&body[..]));
        }
        let compressed = Encoding::Gzip.compress(&vec![7; 100_000]);
        let part = decompress(&compressed[..compressed.len() - 12], usize::MAX).expect("it is not too large");
        assert!(part.len() < 100_000 && part.iter().all(|byte| *byte == 7));
        assert_eq!(decompress(b"abcdefgh", 100), Some(Vec::new()));
    }
}
