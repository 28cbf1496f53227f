//! Reads a history, and says what is wrong with it. Nothing in it is believed before it is checked.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::Path,
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use zstd::stream::read::Decoder;

use super::{
    Entry,
    block::{End, Footer, Mark},
    line,
};
use workload::event::Nanos;

/// What the first line says that a history is.
pub const FORMAT: &str = "sequence-stress-history";
/// The version that is written, and the newest that is read. It rises when an old reader could misread the new form.
pub const VERSION: u32 = 2;

/// The longest line that is read: an answer may have 4 MiB, each byte of which is escaped.
const LONGEST_LINE: u64 = 32 << 20;
/// The most bytes between the ends of two blocks: what is there and a last line.
const LONGEST_BLOCK: usize = 64 << 20;
/// The largest window that a compressed history is read with, as a power of two: what is written needs less.
const WINDOW_LOG_MAX: u32 = 23;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Whether a file that begins so is a history, as far as its beginning tells; a compressed file is taken for one.
pub fn is_history(beginning: &[u8]) -> bool {
    beginning.starts_with(&ZSTD_MAGIC) || beginning.starts_with(format!("{{\"format\":\"{FORMAT}\"").as_bytes())
}

/// What is wrong with a history, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The line, from 1; 0 where the file could not be read at all.
    pub line: u64,
    /// What is wrong.
    pub problem: String,
    /// Whether it only ends too soon.
    pub is_cut_off: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 { f.write_str(&self.problem) } else { write!(f, "line {}: {}", self.line, self.problem) }
    }
}

/// What a line of a history says.
#[derive(Debug)]
pub enum Item {
    /// Something happened; the line's number comes with it.
    Entry(Entry, u64),
    /// What happened before this time is not there, or not all of it.
    Gap(Nanos),
    /// What the run made of it, as JSON.
    Footer(Value),
}

impl Item {
    /// When it was; of what has no time, the beginning.
    fn time(&self) -> Nanos {
        match self {
            Self::Entry(entry, _) => entry.at,
            Self::Gap(until) => *until,
            Self::Footer(_) => 0,
        }
    }
}

/// Lines that were written together.
#[derive(Debug, Default)]
pub struct Lines {
    /// What they say; where the block is damaged, nothing, and where it is cut off, what is left of it.
    pub items: Vec<Item>,
    /// What is wrong with the block. The next one that is as it was written begins with a gap.
    pub damage: Option<Damage>,
}

/// A history that is being read.
pub struct Reader {
    source: Box<dyn BufRead>,
    line: u64,
    text: Vec<u8>,
    /// None where blocks may be missing.
    next_block: Option<u64>,
    next_part: u64,
    is_at_end: bool,
    /// Whether the last block that was read is damaged.
    is_behind_damage: bool,
    saw_footer: bool,
}

/// The first line, as far as every version has it.
#[derive(Deserialize)]
struct Format {
    format: String,
    version: u32,
}

/// What a line is, besides an entry.
enum Parsed {
    Items(Option<Item>),
    End(End),
}

impl Reader {
    /// Opens a history and reads its first line, a JSON object.
    ///
    /// # Errors
    /// When it cannot be read, is no history, or one of another version.
    pub fn open(path: &Path) -> Result<(Self, Value), Damage> {
        let source = open(path).map_err(|error| Damage {
            line: 0,
            problem: format!("it cannot be read: {error}"),
            is_cut_off: false,
        })?;
        let mut reader = Self {
            source,
            line: 0,
            text: Vec::new(),
            next_block: None,
            next_part: 1,
            is_at_end: false,
            is_behind_damage: false,
            saw_footer: false,
        };
        let header = reader.header()?;
        Ok((reader, header))
    }

    fn header(&mut self) -> Result<Value, Damage> {
        if !self.next_line()? {
            return Err(self.damage("it is empty"));
        }
        if self.text.starts_with(b"{\"part\":") {
            return Err(self.damage(
                "it is one part of a history that a killed run left: 'cat FILE.part-* > FILE' puts them together",
            ));
        }
        let Ok(Format { format, version }) = serde_json::from_slice(&self.text) else {
            return Err(self.damage("it is no history of sequence-stress"));
        };
        if format != FORMAT {
            return Err(self.damage(format!("it is no history of sequence-stress but '{format}'")));
        }
        if version != VERSION {
            let other = if version > VERSION { "a newer" } else { "an older" };
            return Err(self.damage(format!(
                "the history is of version {version}, and this tool reads version {VERSION}: use {other} one"
            )));
        }
        let header = serde_json::from_slice(&self.text);
        let header = header.map_err(|error| self.damage(format!("it is no JSON: {error}")))?;
        let crc32 = crc32fast::hash(&self.text);
        if !self.next_line()? {
            return Err(self.damage("it ends after its first line"));
        }
        match serde_json::from_slice(&self.text) {
            Ok(End { block: 0, entries: 0, crc32: told }) if told == crc32 => {
                self.next_block = Some(1);
                Ok(header)
            }
            Ok(_) => Err(self.damage("the first line is not as it was written")),
            Err(error) => Err(self.damage(format!("the end of the first block has to be here: {error}"))),
        }
    }

    /// The next block; none after the last.
    pub fn next_block(&mut self) -> Option<Lines> {
        if self.is_at_end {
            return None;
        }
        let mut lines = Lines::default();
        let mut is_at_its_end = false;
        match self.read_lines(&mut lines.items, &mut is_at_its_end) {
            Ok(true) => {}
            Ok(false) => {
                self.is_at_end = true;
                return None;
            }
            Err(damage) => {
                if damage.is_cut_off {
                    self.is_at_end = true;
                } else {
                    lines.items.clear();
                }
                if !is_at_its_end {
                    self.skip_to_end_of_block();
                }
                self.next_block = None;
                lines.damage = Some(damage);
            }
        }
        if let Some(first) = lines.items.first().filter(|_| self.is_behind_damage) {
            let gap = Item::Gap(first.time());
            lines.items.insert(0, gap);
        }
        self.is_behind_damage = lines.damage.is_some();
        Some(lines)
    }

    /// How many lines were read.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Passes over what is left of a damaged block.
    fn skip_to_end_of_block(&mut self) {
        while !self.is_at_end {
            match self.next_line() {
                Ok(true) if serde_json::from_slice::<End>(&self.text).is_ok() => return,
                Ok(true) => {}
                Ok(false) | Err(_) => self.is_at_end = true,
            }
        }
    }

    /// Reads to the end of a block; false where the history has its end.
    fn read_lines(&mut self, items: &mut Vec<Item>, is_at_its_end: &mut bool) -> Result<bool, Damage> {
        let first = self.line + 1;
        let mut hasher = crc32fast::Hasher::new();
        let (mut bytes, mut entries) = (0, 0);
        while self.next_line()? {
            if self.saw_footer && bytes == 0 {
                return Err(self.damage("something follows the end of the history"));
            }
            let text = std::mem::take(&mut self.text);
            let line = self.parse(&text, bytes == 0).map_err(|problem| self.damage(problem))?;
            self.text = text;
            match line {
                Parsed::End(end) => {
                    *is_at_its_end = true;
                    let is_next = self.next_block.is_none_or(|next| next == end.block);
                    if !is_next || (end.entries, end.crc32) != (entries, hasher.finalize()) {
                        return Err(self.damage(format!("lines {first} to {} are not as they were written", self.line)));
                    }
                    self.next_block = end.block.checked_add(1);
                    return Ok(true);
                }
                Parsed::Items(item) => {
                    entries += u64::from(matches!(item, Some(Item::Entry(..))));
                    items.extend(item);
                }
            }
            hasher.update(&self.text);
            bytes += self.text.len();
            if bytes > LONGEST_BLOCK {
                return Err(self.damage(format!("the block from line {first} on has no end")));
            }
        }
        if bytes == 0 && self.saw_footer { Ok(false) } else { Err(self.cut_off()) }
    }

    fn parse(&mut self, text: &[u8], is_first_of_block: bool) -> Result<Parsed, String> {
        if text.starts_with(line::BEGINNING) {
            return Ok(Parsed::Items(Some(Item::Entry(line::read(text)?, self.line))));
        }
        if let Ok(Footer { footer }) = serde_json::from_slice(text) {
            self.saw_footer = true;
            return Ok(Parsed::Items(Some(Item::Footer(footer))));
        }
        match serde_json::from_slice(text) {
            Ok(Mark::End(end)) => Ok(Parsed::End(end)),
            Ok(Mark::Gap { t, .. }) => Ok(Parsed::Items(Some(Item::Gap(t)))),
            Ok(Mark::Part { part, t }) if is_first_of_block && part >= self.next_part => {
                let is_next = part == self.next_part;
                if !is_next {
                    self.next_block = None;
                }
                self.next_part = part.saturating_add(1);
                Ok(Parsed::Items((!is_next).then_some(Item::Gap(t))))
            }
            Ok(Mark::Part { .. }) => Err("the parts are not in order".to_owned()),
            Err(_) => Err(match serde_json::from_slice::<IgnoredAny>(text) {
                Ok(_) => "it says nothing that is known".to_owned(),
                Err(error) => format!("it is no JSON: {error}"),
            }),
        }
    }

    /// Reads a line, its end included; false where there is none.
    fn next_line(&mut self) -> Result<bool, Damage> {
        self.text.clear();
        self.line += 1;
        let read = (&mut self.source).take(LONGEST_LINE).read_until(b'\n', &mut self.text);
        match read {
            Ok(0) => Ok(false),
            Ok(_) if self.text.ends_with(b"\n") => Ok(true),
            Ok(read) if read as u64 == LONGEST_LINE => {
                Err(self.damage(format!("it has more than {LONGEST_LINE} bytes")))
            }
            Ok(_) => Err(self.cut_off()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.cut_off()),
            Err(error) => Err(self.damage(format!("it cannot be read: {error}"))),
        }
    }

    fn damage(&self, problem: impl Into<String>) -> Damage {
        Damage { line: self.line, problem: problem.into(), is_cut_off: false }
    }

    fn cut_off(&self) -> Damage {
        let damage = self.damage("it ends here, without the run's end: the run was killed, or the file was cut off");
        Damage { is_cut_off: true, ..damage }
    }
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::new(File::open(path)?);
    let is_compressed = file.fill_buf()?.starts_with(&ZSTD_MAGIC);
    if !is_compressed {
        return Ok(Box::new(file));
    }
    let mut decoder = Decoder::with_buffer(file)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(Box::new(BufReader::new(decoder)))
}
