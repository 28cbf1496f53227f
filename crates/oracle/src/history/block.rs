//! A run of lines that is written, checked and compressed as one, so that what a killed run left can be read up to its last.

use std::{borrow::Cow, io};

use serde::{Deserialize, Serialize};
use zstd::bulk::Compressor;

use super::{Entry, line};
use workload::event::Nanos;

/// A block is written when it has so many bytes, or sooner.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;
/// Compression that costs little more than the writing; a history shrinks to a tenth all the same.
pub(super) const LEVEL: i32 = 1;

/// A line that is neither an entry nor the first or the last of a history.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Mark {
    /// The first line of a part.
    Part {
        part: u64,
        t: Nanos,
    },
    /// So many entries before this time are missing.
    Gap {
        gap: u64,
        t: Nanos,
    },
    End(End),
}

/// The last line of a history.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Footer<F> {
    pub(super) footer: F,
}

/// The last line of a block.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    /// The block's number in the run, from 0.
    pub(super) block: u64,
    /// How many of its lines are entries.
    pub(super) entries: u64,
    /// The checksum (CRC-32) of the lines before this one.
    pub(super) crc32: u32,
}

/// The block that lines are added to.
#[derive(Debug, Default)]
pub(super) struct Block {
    lines: Vec<u8>,
    pub(super) entries: u64,
}

impl Block {
    pub(super) fn entry(&mut self, entry: &Entry) {
        line::write(entry, &mut self.lines);
        self.entries += 1;
    }

    /// Adds a line that is no entry.
    pub(super) fn line(&mut self, value: &impl Serialize) {
        serde_json::to_writer(&mut self.lines, value).expect("a vector takes what is written, and such lines are JSON");
        self.lines.push(b'\n');
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= BLOCK_BYTES
    }

    /// Ends the block: how many bytes it has, and what is to be written. It is empty again when it is cleared.
    pub(super) fn end(&mut self, number: u64, compressor: Option<&mut Compressor>) -> io::Result<(u64, Cow<'_, [u8]>)> {
        let end = End { block: number, entries: self.entries, crc32: crc32fast::hash(&self.lines) };
        self.line(&end);
        let written = match compressor {
            Some(compressor) => Cow::Owned(compressor.compress(&self.lines)?),
            None => Cow::Borrowed(self.lines.as_slice()),
        };
        Ok((self.lines.len() as u64, written))
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.entries = 0;
    }
}
