//! Writes a history: into parts of some seconds beside the file, of which those that nobody will ask for go again, and which
//! become the file when the run is over.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, File},
    io::{self, Read as _},
    mem::take,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Entry,
    block::{Block, Footer, Mark, Written},
};
use crate::nanos;
use workload::{event::Nanos, whole_file::write_whole};

/// What is written may be held back for so long.
const HELD_BACK: Duration = Duration::from_secs(1);

/// The limit is at least so many parts, however fast they fill.
const PARTS_MIN: u64 = 8;

/// Where a history goes, and how much of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file; compressed where its name ends in `.zst`.
    pub path: PathBuf,
    /// What is kept.
    pub keep: Keep,
    /// How many bytes are kept at most, before compression.
    pub limit: u64,
    /// How much time one part has: what is dropped is dropped by the part.
    pub part: Duration,
}

impl Options {
    /// As much as is kept where nothing else is said: 1 GiB.
    pub const LIMIT: u64 = 1 << 30;
    /// The part that is usual.
    pub const PART: Duration = Duration::from_secs(10);

    /// The same, where so much more has to be kept to judge what is.
    pub fn and_before(mut self, time: Duration) -> Self {
        if let Keep::Around(around) = &mut self.keep {
            *around = around.saturating_add(time);
        }
        self
    }
}

/// Which parts of a run are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// So much time before and after each violation, and before the end.
    Around(Duration),
    /// All.
    All,
}

/// How much time is usual.
const AROUND: Duration = Duration::from_secs(120);

impl Keep {
    /// What is usual.
    pub const DEFAULT: Self = Self::Around(AROUND);

    /// What lies so near to a violation is the last to go.
    fn around(self) -> Nanos {
        nanos(match self {
            Self::All => AROUND,
            Self::Around(time) => time,
        })
    }
}

/// What came of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Entries that are in the file.
    pub entries: u64,
    /// Entries that were written and then left out, because nothing happened near them or the limit was reached.
    pub left_out: u64,
    /// Entries that were not written, because the writing could not keep up.
    pub lost: u64,
    /// Bytes of the file, before compression and without the lines at its end.
    pub bytes: u64,
    /// Where and why it is not complete, if the system did not take it.
    pub problem: Option<String>,
}

/// A history that is being written; dropped before it is finished, it leaves no file. Nothing that goes wrong with it ends the run: it
/// is told in [`Kept::problem`].
pub struct Spool {
    options: Options,
    block: Block,
    header: Part,
    current: Option<(Part, File)>,
    done: VecDeque<Part>,
    parts: u64,
    near_violations: Vec<(Nanos, Nanos)>,
    latest: Nanos,
    /// What came of it so far; what is in the file is counted at the end.
    kept: Kept,
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    from: Nanos,
    until: Nanos,
    /// The blocks that are whole.
    written: Written,
}

impl Spool {
    /// Makes sure that a history can be written there, and leaves nothing behind.
    ///
    /// # Errors
    /// What is in the way, in one line.
    pub fn check(path: &Path) -> Result<(), String> {
        let part = part_path(path, 0);
        if part.symlink_metadata().is_ok() {
            let path = path.display();
            return Err(format!(
                "cannot write the history to {path}: {path}.part-* are there, which a run that was killed left (or one that is \
                 still under way writes): name another file; or keep what they tell with 'cat {path}.part-* > OTHER', which \
                 'sequence-stress check OTHER' reads, and remove them with 'rm {path}.part-*'"
            ));
        }
        let made = File::create_new(&part).and_then(|_| fs::remove_file(&part));
        made.map_err(|error| format!("cannot write the history to {}: {error}", part.display()))
    }

    /// Begins a history with its first line, a JSON object.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(options: Options, header: &impl Serialize) -> io::Result<Self> {
        let is_compressed = options.path.extension().is_some_and(|ending| ending == "zst");
        let mut spool = Self {
            block: Block::new(is_compressed)?,
            header: Part::new(&options.path, 0, 0),
            current: None,
            done: VecDeque::new(),
            parts: 0,
            near_violations: Vec::new(),
            latest: 0,
            kept: Kept::default(),
            options,
        };
        spool.block.line(header);
        spool.header.written = spool.block.write_to(&mut File::create(&spool.header.path)?)?;
        Ok(spool)
    }

    /// Adds an entry.
    pub fn entry(&mut self, entry: &Entry) {
        if !self.is_open_at(entry.at) {
            return;
        }
        self.block.entry(entry);
        if let Some((part, _)) = &mut self.current {
            part.from = part.from.min(entry.at);
            part.until = part.until.max(entry.at);
        }
        self.latest = self.latest.max(entry.at);
        if self.block.is_full() {
            self.write_block();
        }
    }

    /// Says that so many entries before this time are missing.
    pub fn gap(&mut self, lost: u64, at: Nanos) {
        self.kept.lost += lost;
        let at = at.max(self.latest);
        if self.is_open_at(at) {
            self.block.line(&Mark::Gap { gap: lost, t: at });
        }
    }

    /// Says that a violation was seen at this time: what is near it is kept.
    pub fn violation(&mut self, at: Nanos) {
        let around = self.options.keep.around();
        let (from, until) = (at.saturating_sub(around), at.saturating_add(around));
        match self.near_violations.last_mut() {
            Some(last) if (last.0..=last.1).contains(&from) => last.1 = last.1.max(until),
            _ => self.near_violations.push((from, until)),
        }
    }

    /// Writes what has been held back for long enough; to be called now and then.
    pub fn write_what_is_due(&mut self) {
        if self.block.began.is_some_and(|began| began.elapsed() >= HELD_BACK) {
            self.write_block();
        }
    }

    /// Makes the file. Its last line is what `footer` makes of what is kept.
    pub fn finish<F: Serialize>(mut self, footer: impl FnOnce(&Kept) -> F) -> Kept {
        self.close_part();
        let mut kept = take(&mut self.kept);
        kept.entries = self.done.iter().map(|part| part.written.entries).sum();
        kept.bytes = self.bytes();
        let footer = footer(&kept);
        if let Err(error) = self.assemble(&footer) {
            let path = self.options.path.display();
            let problem =
                format!("cannot write the history to {path}: {error}; what there is of it is in {path}.part-*");
            kept.problem = Some(kept.problem.map_or_else(|| problem.clone(), |first| format!("{first}; {problem}")));
            // The parts stay where they are.
            self.done.clear();
            self.header.path = PathBuf::new();
        }
        kept
    }

    fn assemble(&mut self, footer: &impl Serialize) -> io::Result<()> {
        self.block.clear();
        self.block.line(&Mark::Part { part: self.parts + 1, t: self.latest });
        self.block.line(&Footer { footer });
        write_whole(&self.options.path, |file| {
            for part in std::iter::once(&self.header).chain(&self.done) {
                io::copy(&mut File::open(&part.path)?.take(part.written.on_disk), file)?;
            }
            self.block.write_to(file).map(|_| ())
        })
    }

    /// Whether there is a part to write to; a new one is begun where the last has its time.
    fn is_open_at(&mut self, at: Nanos) -> bool {
        let time = nanos(self.options.part);
        if self.current.as_ref().is_some_and(|(part, _)| at.saturating_sub(part.from) >= time) {
            self.close_part();
            self.rotate();
        }
        if self.kept.problem.is_some() {
            return false;
        }
        if self.current.is_none() {
            self.begin_part(at);
        }
        self.block.began.get_or_insert_with(Instant::now);
        self.current.is_some()
    }

    fn begin_part(&mut self, at: Nanos) {
        self.parts += 1;
        let part = Part::new(&self.options.path, self.parts, at);
        match File::create(&part.path) {
            Ok(file) => self.current = Some((part, file)),
            Err(error) => self.give_up(&part.path, &error),
        }
        self.block.line(&Mark::Part { part: self.parts, t: at });
    }

    fn write_block(&mut self) {
        let Some((part, file)) = &mut self.current else { return };
        match self.block.write_to(file) {
            Ok(written) => {
                part.written.entries += written.entries;
                part.written.bytes += written.bytes;
                part.written.on_disk += written.on_disk;
                // A part is dropped as a whole: were it all that there is, nothing would be left around a violation.
                if part.written.bytes > self.options.limit / PARTS_MIN || self.bytes() > self.options.limit {
                    self.close_part();
                    self.rotate();
                }
            }
            Err(error) => {
                let path = part.path.clone();
                // Half a block would make the rest look damaged.
                let _ = file.set_len(part.written.on_disk);
                self.give_up(&path, &error);
            }
        }
    }

    fn bytes(&self) -> u64 {
        let current = self.current.iter().map(|(part, _)| part);
        current.chain(&self.done).map(|part| part.written.bytes).sum()
    }

    fn close_part(&mut self) {
        if !self.block.is_empty() {
            self.write_block();
        }
        self.done.extend(self.current.take().map(|(part, _)| part));
    }

    /// Drops what nobody will ask for, and what there is no room for.
    fn rotate(&mut self) {
        if let Keep::Around(_) = self.options.keep {
            let horizon = self.latest.saturating_sub(self.options.keep.around());
            while let Some(index) = self.done.iter().position(|part| part.until < horizon && !self.is_near(part)) {
                self.drop_part(index);
            }
        }
        while self.bytes() > self.options.limit && !self.done.is_empty() {
            // What led to the first violation is worth more than what came later.
            let index = self.done.iter().position(|part| !self.is_near(part)).unwrap_or(self.done.len() - 1);
            self.drop_part(index);
        }
        self.forget_violations();
    }

    /// Forgets violations that nothing is near any more, and nothing will be.
    fn forget_violations(&mut self) {
        let (done, latest) = (&self.done, self.latest);
        let touches = |from, until| move |part: &Part| part.from <= until && from <= part.until;
        self.near_violations.retain(|&(from, until)| until >= latest || done.iter().any(touches(from, until)));
    }

    fn is_near(&self, part: &Part) -> bool {
        self.near_violations.iter().any(|&(from, until)| part.from <= until && from <= part.until)
    }

    fn drop_part(&mut self, index: usize) {
        let Some(part) = self.done.remove(index) else { return };
        self.kept.left_out += part.written.entries;
        // Where it cannot be removed it takes room, and no more.
        let _ = fs::remove_file(&part.path);
    }

    fn give_up(&mut self, path: &Path, error: &io::Error) {
        #[expect(clippy::cast_precision_loss)]
        let seconds = self.latest as f64 / 1e9;
        let problem = format!("the history ends at about {seconds:.1} s: cannot write {}: {error}", path.display());
        self.kept.problem.get_or_insert(problem);
        self.block.clear();
        self.done.extend(self.current.take().map(|(part, _)| part));
    }
}

impl Drop for Spool {
    /// Removes the parts: they are in the file, or nothing was tested.
    fn drop(&mut self) {
        let current = self.current.take().map(|(part, _)| part);
        for part in self.done.iter().chain(&current).chain([&self.header]) {
            let _ = fs::remove_file(&part.path);
        }
    }
}

impl Part {
    fn new(base: &Path, number: u64, from: Nanos) -> Self {
        Self { path: part_path(base, number), from, until: from, written: Written::default() }
    }
}

/// The file of a part, beside that of the history; such that a shell names them in order.
fn part_path(base: &Path, number: u64) -> PathBuf {
    let mut name = OsString::from(base);
    name.push(format!(".part-{number:06}"));
    name.into()
}
