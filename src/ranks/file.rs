//! What a rank measured, as a file: nobody else may live to tell it.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Lead, Order, place::RANKS_MAX};
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

/// What one rank measured in a run, and what the run was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankFile {
    format: String,
    version: u32,
    /// The version of the tool that wrote it.
    pub tool_version: String,
    /// The name of the ranks' runs.
    pub run_id: String,
    /// Which rank wrote it.
    pub share: Share,
    /// How often the ranks were started before.
    pub attempt: u32,
    /// Whether the rank came to the end of its share.
    pub complete: bool,
    /// The scenario's name.
    pub scenario_name: String,
    /// What was sent.
    pub scenario: Scenario,
    /// What fixed every choice.
    pub seed: Seed,
    /// The command line that sends the same again.
    pub replay: String,
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
    /// That of a rank that follows.
    pub(crate) fn of_follower(
        order: &Order,
        share: Share,
        part: Part,
        series: Series,
        violations: Vec<Violation>,
        complete: bool,
    ) -> Self {
        let order = order.clone();
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: order.run_id,
            share,
            attempt: order.attempt,
            complete,
            scenario_name: order.scenario_name,
            scenario: order.scenario,
            seed: order.seed,
            replay: order.replay,
            origin: Origin::here(),
            preflight: order.preflight,
            part,
            series,
            violations,
            end: None,
        }
    }

    /// That of rank 0, of a run that has ended; none where there was no other rank.
    pub(crate) fn of_leader(setup: &Setup, result: &RunResult) -> Option<Self> {
        let (Lead { run_id, attempt, scenario_name, replay, .. }, ranks, own) =
            (setup.lead.as_ref()?, result.ranks.as_ref()?, result.own.as_ref()?);
        let footer = Footer::new(result, &Kept::default());
        let end =
            End { footer, longest_wait: result.longest_wait.clone(), ranks: ranks.clone(), embedded: setup.embedded };
        Some(Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: run_id.clone(),
            share: setup.share,
            attempt: *attempt,
            complete: true,
            scenario_name: scenario_name.clone(),
            scenario: setup.scenario.clone(),
            seed: setup.seed,
            replay: replay.clone(),
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
        let wrong = |error: String| format!("{} is no file of a rank: {error}", path.display());
        let text = fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let file: Self = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        if file.format != FORMAT || file.version != VERSION {
            return Err(wrong(format!("its format is {} {}, not {FORMAT} {VERSION}", file.format, file.version)));
        }
        let Share { rank, of } = file.share;
        if rank >= of.get() || of.get() > RANKS_MAX {
            return Err(wrong(format!("there is no rank {rank} of {of}")));
        }
        Ok(file)
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

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn file_name(rank: u32) -> String {
    format!("rank-{rank}.json")
}
