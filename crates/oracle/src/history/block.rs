//! A run of lines that is written, checked and compressed as one, so that what a killed run left can be read up to its last.

use std::{borrow::Cow, fs::File, io, io::Write as _, time::Instant};

use serde::{Deserialize, Serialize};
use zstd::bulk::Compressor;

use super::{Entry, line};
use workload::event::Nanos;

/// A block is written when it has so many bytes, or sooner.
const BLOCK_BYTES: usize = 256 * 1024;
/// Compression that costs little more than the writing; a history shrinks to a tenth all the same.
const LEVEL: i32 = 1;

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
#[derive(Default)]
pub(super) struct Block {
    lines: Vec<u8>,
    entries: u64,
    /// Its number in the run, from 0.
    number: u64,
    /// When a line was first to be added to it.
    pub(super) began: Option<Instant>,
    compressor: Option<Compressor<'static>>,
}

/// How much was written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) entries: u64,
    /// Before compression.
    pub(super) bytes: u64,
    pub(super) on_disk: u64,
}

impl Block {
    pub(super) fn new(is_compressed: bool) -> io::Result<Self> {
        let compressor = is_compressed.then(|| Compressor::new(LEVEL)).transpose()?;
        Ok(Self { compressor, ..Self::default() })
    }

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

    /// Ends the block, and begins the next one where it could be written.
    pub(super) fn write_to(&mut self, file: &mut File) -> io::Result<Written> {
        let end = End { block: self.number, entries: self.entries, crc32: crc32fast::hash(&self.lines) };
        self.line(&end);
        let lines = match &mut self.compressor {
            Some(compressor) => Cow::Owned(compressor.compress(&self.lines)?),
            None => Cow::Borrowed(self.lines.as_slice()),
        };
        file.write_all(&lines)?;
        let written = Written { entries: self.entries, bytes: self.lines.len() as u64, on_disk: lines.len() as u64 };
        self.number += 1;
        self.clear();
        Ok(written)
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.entries = 0;
        self.began = None;
    }
}
