//! Zip archives whose files are stored as they are, each beginning at a multiple of 64 bytes, so that readers can map them.

const ALIGNMENT: usize = 64;
const VERSION: u16 = 20;
/// Midnight of the first day that zip has, so that the same files make the same archive.
const DATE: u16 = 1 << 5 | 1;
const TIME: u16 = 0;
/// The kind of extra field that readers of TorchScript skip: padding.
const PADDING: &[u8; 2] = b"FB";
const LOCAL_HEADER: usize = 30;
const EXTRA_HEADER: usize = 4;

/// The archive of these files, by their names.
pub(crate) fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, content) in files {
        let offset = bytes.len();
        let before = offset + LOCAL_HEADER + name.len() + EXTRA_HEADER;
        let padding = before.next_multiple_of(ALIGNMENT) - before;
        let common = common(name, content);
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&common);
        bytes.extend(small(EXTRA_HEADER + padding).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(PADDING);
        bytes.extend(small(padding).to_le_bytes());
        bytes.resize(bytes.len() + padding, b'Z');
        bytes.extend(content);
        directory.extend(b"PK\x01\x02");
        directory.extend(VERSION.to_le_bytes());
        directory.extend(&common);
        // No extra field, comment, disk number or attributes.
        directory.extend([0; 12]);
        directory.extend(size(offset).to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, length, count) = (size(bytes.len()), size(directory.len()), small(files.len()));
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(count.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

/// What stands both before a file and in the directory.
fn common(name: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Nothing special, and not compressed.
    for number in [VERSION, 0, 0, TIME, DATE] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [crc32fast::hash(content), size(content.len()), size(content.len())] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(small(name.len()).to_le_bytes());
    bytes
}

fn size(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("the files of small graphs are small")
}

fn small(number: usize) -> u16 {
    u16::try_from(number).expect("names are short, and files few")
}

#[cfg(test)]
mod tests {
    use super::archive;

    #[test]
    fn files_begin_at_multiples_of_64() {
        let bytes = archive(&[("a/one".into(), b"first".to_vec()), ("a/two".into(), b"second".to_vec())]);
        let place = |of: &[u8]| bytes.windows(of.len()).position(|window| window == of);
        assert_eq!(place(b"first"), Some(64));
        assert_eq!(place(b"second"), Some(128));
        assert_eq!(place(b"PK\x01\x02"), Some(134));
        assert_eq!(bytes[bytes.len() - 22..][..4], *b"PK\x05\x06");
    }
}
