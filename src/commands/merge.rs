//! `sequence-stress report --merge`: what the ranks of a run measured, put together.

use std::{io::Write as _, path::Path};

use super::{
    Failure,
    output::{Files, print},
};
use crate::{
    cli::{FileArgs, ReportArgs, ResultArgs, with_hints},
    ranks::{Merged, RankFile, merged},
    report::{Extent, Format, Pictured, Summary, write_preflight, write_text},
};

/// Prints the result of the run whose ranks wrote into a folder, writes it where that is asked for, and returns the run's exit code.
pub(super) fn merge(args: &ReportArgs, folder: &Path) -> Result<u8, Failure> {
    let results = [(Format::Json, &args.json), (Format::Html, &args.html), (Format::Junit, &args.junit)];
    let results = results.into_iter().filter_map(|(format, path)| Some((format, path.clone()?))).collect();
    let files =
        Files::check(&FileArgs { results: ResultArgs(results), failure: None }).map_err(Failure::wrong_input)?;
    let shown = folder.display();
    let paths = RankFile::in_folder(folder).map_err(|error| {
        Failure::wrong_input(format!("cannot read {shown}: {error}; give the folder of --results of a run"))
    })?;
    if paths.is_empty() {
        return Err(Failure::wrong_input(format!(
            "{shown} has no file of a rank (rank-0.json and so on): give the folder of --results of a run"
        )));
    }
    let Merged { first, result, embedded, remarks } =
        merged(&paths).map_err(|why| Failure::wrong_input(format!("cannot put together what is in {shown}: {why}")))?;
    let summary = Summary {
        replay: with_hints(&first.about.replay, &result.preflight.told),
        scenario: first.scenario,
        scenario_name: first.about.scenario_name,
        seed: first.seed,
        embedded: embedded.then(Vec::new),
        result,
    };
    print(|out| {
        let Summary { scenario, scenario_name, seed, result, .. } = &summary;
        write_preflight(scenario, scenario_name, *seed, &result.preflight, Extent::Usual, out)?;
        remarks.iter().try_for_each(|remark| writeln!(out, "note: {remark}"))?;
        write_text(&summary, Extent::Usual, out)
    });
    let note = "the files of ranks do not tell who had which slot: --history of a run does";
    let pictured = Pictured { lanes: None, note: Some(note.to_owned()) };
    Ok(files.write(&summary, &pictured, None, false))
}
