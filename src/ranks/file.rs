//! What a rank measured, as a file: nobody else may live to tell it.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{About, Order, place::RANKS_MAX};
use crate::{
    frame::Footer,
    preflight::Preflight,
    recorder::Series,
    run::{Origin, Part, Ranks, RunResult, Setup},
};
use oracle::{LongestWait, Violation, history::Kept};
use workload::{scenario::Scenario, seed::Seed, share::Share, whole_file::write_whole};

const FORMAT: &str = "sequence-stress-rank";
const VERSION: u32 = 1;

/// Of which form a file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Form {
    format: String,
    version: u32,
    /// The version of the tool that wrote it.
    tool_version: String,
}

impl Default for Form {
    fn default() -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, tool_version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// What one rank measured in a run, and what the run was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankFile {
    #[serde(flatten)]
    pub(crate) form: Form,
    /// What the run is called.
    #[serde(flatten)]
    pub about: About,
    /// Which rank wrote it.
    pub share: Share,
    /// Whether the rank came to the end of its share.
    pub complete: bool,
    /// What was sent.
    pub scenario: Scenario,
    /// What fixed every choice.
    pub seed: Seed,
    /// When and where the rank was.
    pub origin: Origin,
    /// What was found out before anything was sent.
    pub preflight: Preflight,
    /// What the rank measured.
    pub(crate) part: Part,
    /// What happened in each second: of this rank; in the file of rank 0 of all.
    pub(crate) series: Series,
    /// What a correct server would not have done; in the file of rank 0 of all.
    pub violations: Vec<Violation>,
    /// What rank 0 found when all were done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<Box<End>>,
}

/// What rank 0 found when all were done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) footer: Footer,
    pub(crate) longest_wait: Option<LongestWait>,
    pub(crate) ranks: Ranks,
    /// Whether the server was in the process of rank 0.
    pub(crate) embedded: bool,
}

impl RankFile {
    /// That of a rank that follows, and has not measured anything so far.
    pub(crate) fn of_follower(order: Order, share: Share, origin: Origin) -> Self {
        let Order { about, scenario, seed, preflight, .. } = order;
        Self {
            form: Form::default(),
            about,
            share,
            complete: false,
            scenario,
            seed,
            origin,
            preflight,
            part: Part::default(),
            series: Series::default(),
            violations: Vec::new(),
            end: None,
        }
    }

    /// That of rank 0, of a run that has ended; none where there was no other rank.
    pub(crate) fn of_leader(setup: &Setup, result: &RunResult) -> Option<Self> {
        let (lead, ranks, own) = (setup.lead.as_ref()?, result.ranks.as_ref()?, result.own.as_ref()?);
        let end = End {
            footer: Footer::new(result, &Kept::default()),
            longest_wait: result.longest_wait.clone(),
            ranks: ranks.clone(),
            embedded: setup.embedded,
        };
        Some(Self {
            form: Form::default(),
            about: lead.about.clone(),
            share: setup.share,
            complete: true,
            scenario: setup.scenario.clone(),
            seed: setup.seed,
            origin: result.origin.clone(),
            preflight: result.preflight.clone(),
            part: (**own).clone(),
            series: result.series.clone(),
            violations: result.violations.clone(),
            end: Some(Box::new(end)),
        })
    }

    /// Writes the file of this rank into a folder, whole or not at all. Returns its path.
    ///
    /// # Errors
    /// When it cannot be written, in one line.
    pub(crate) fn write_to(&self, folder: &Path) -> Result<PathBuf, String> {
        let path = folder.join(file_name(self.share.rank));
        // A pipe that nobody reads would be waited for without a limit.
        if path.exists() && !path.is_file() {
            return Err(format!("cannot write {}: something else than a file is there; move it away", path.display()));
        }
        let text = serde_json::to_vec(self).expect("its keys are texts");
        let written = fs::create_dir_all(folder).and_then(|()| write_whole(&path, |file| file.write_all(&text)));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(path)
    }

    /// Reads the file of a rank.
    ///
    /// # Errors
    /// When it is none, in one line.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        read(path)
    }

    /// Removes the files of ranks from a folder.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub(super) fn remove_all(folder: &Path) -> io::Result<()> {
        Self::in_folder(folder)?.iter().filter(|path| path.is_file()).try_for_each(fs::remove_file)
    }

    /// The files of ranks in a folder.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn in_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.strip_prefix("rank-").and_then(|name| name.strip_suffix(".json")).is_some_and(is_number) {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

/// What tells the file of a rank from others.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RankName {
    #[serde(flatten)]
    form: Form,
    pub(super) run_id: String,
    pub(super) order: (u64, u32),
    pub(super) share: Share,
}

impl RankName {
    /// Reads what the file of a rank is called, and nothing that it measured.
    ///
    /// # Errors
    /// When it is none, in one line.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let name: Self = read(path)?;
        let wrong = |what: String| Err(format!("{} is no file of a rank: {what}", path.display()));
        let Form { format, version, .. } = &name.form;
        if format != FORMAT || *version != VERSION {
            return wrong(format!("its format is {format} {version}, not {FORMAT} {VERSION}"));
        }
        let Share { rank, of } = name.share;
        if rank >= of.get() || of.get() > RANKS_MAX {
            return wrong(format!("there is no rank {rank} of {of}"));
        }
        Ok(name)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    // A pipe that nobody writes would be waited for without a limit.
    if !path.is_file() {
        return Err(format!("{} is no file", path.display()));
    }
    let text = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{} is no file of a rank: {error}", path.display()))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn file_name(rank: u32) -> String {
    format!("rank-{rank}.json")
}
