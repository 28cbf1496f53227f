//! `sequence-stress report`: results as a page, as `JUnit` XML, as Markdown or as CSV.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    slice,
    sync::Arc,
};

use serde::Deserialize;
use serde_json::Value;

use super::{
    Failure, WRONG_INPUT, check,
    merge::merge,
    output::{ResultFile, check_different, say_error, write_all},
    pictured::{self, pictured},
};
use crate::{
    check::check_by,
    cli::ReportArgs,
    compare::{Asked, Comparison, Ran},
    golden::read_file,
    lanes::{Accused, Lanes},
    reading::{self, Finding, Run, Writer, Written},
    report::{Compare, Part, Pictured, Told, to_csv, to_html, to_junit, to_markdown},
    run::Origin,
};
use oracle::{
    golden::Golden,
    history::{Reader, is_history},
};
use workload::seed::Seed;

/// The comparison of a report is that of `compare` without flags.
const ASKED: Asked = Asked { least: 0.05, warm_up_s: 2 };

/// Writes what is asked for, and returns the exit code.
pub(super) fn report(args: &ReportArgs) -> Result<u8, Failure> {
    let wrong = |problem: String| Failure::wrong_input(problem);
    if let Some(folder) = &args.merge {
        return merge(args, folder);
    }
    if args.html.is_none() && args.junit.is_none() && !args.csv && !args.markdown {
        return Err(wrong(
            "say what to make of the results: --html FILE, --junit FILE, --markdown or --csv".to_owned(),
        ));
    }
    let files = [("html", &args.html), ("junit", &args.junit)];
    let files = files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)));
    check_different(files.clone()).map_err(wrong)?;
    for input in args.results.iter().chain(&args.history).chain(&args.golden) {
        for output in files.clone() {
            check_different([output, ("RESULT", input.as_path())].into_iter()).map_err(|_| {
                let problem = format!("--{} would overwrite {}, which is read", output.0, input.display());
                wrong(format!("{problem}; name another file"))
            })?;
        }
    }
    let checked = |path: &Option<PathBuf>, flag, what| {
        path.as_deref().map(|path| ResultFile::check(flag, what, path)).transpose().map_err(wrong)
    };
    let (page, junit) = (checked(&args.html, "html", "the page")?, checked(&args.junit, "junit", "the results")?);
    let golden = args.golden.as_deref().map(read_file).transpose().map_err(wrong)?.map(Arc::new);
    let first_line = |path: &PathBuf| FirstLine::of(path).map(|first| (path.clone(), first));
    let histories = args.history.iter().map(first_line).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let reading = Reading { golden, histories };
    let read = args.results.iter().map(|path| reading.read(path)).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let mut code = 0;
    for damage in read.iter().filter_map(|its| its.damage.as_ref()) {
        say_error(damage);
        code = WRONG_INPUT;
    }
    let (parts, written): (Vec<_>, Vec<_>) = read.into_iter().map(|its| (its.part, its.written)).unzip();
    let names: Vec<_> = parts.iter().map(|part| part.name.clone()).collect();
    if written.iter().any(Option::is_none) && (junit.is_some() || args.markdown || args.csv) {
        let of_page = |(name, written): (&String, &Option<Written>)| written.is_none().then(|| name.clone());
        let names: Vec<_> = names.iter().zip(&written).filter_map(of_page).collect();
        return Err(wrong(format!(
            "only --html shows a comparison or the gaps of a failure, as in {}: leave out the other options, or these files",
            names.join(", ")
        )));
    }
    let written: Vec<_> = written.into_iter().flatten().collect();
    if args.csv {
        let results: Vec<_> = parts.iter().map(|part| (part.name.as_str(), &part.document)).collect();
        let csv = to_csv(&results).map_err(wrong)?;
        write_all(|out| out.write_all(&csv))?;
    }
    if args.markdown {
        let texts: Vec<_> = written.iter().map(|written| to_markdown(written, usize::MAX)).collect();
        write_all(|out| out.write_all(texts.join("\n").as_bytes()))?;
    }
    if let Some(junit) = junit {
        junit.write(&to_junit(&written)).map_err(wrong)?;
    }
    if let Some(page) = page {
        let comparison = compared(&args.results, &parts);
        if let Err(why) = &comparison {
            say_error(&format!("the page does not compare the runs: {why}"));
        }
        let comparison = comparison.as_ref().map(Option::as_ref).map_err(String::as_str);
        page.write(&to_html(&parts, comparison)).map_err(wrong)?;
    }
    Ok(code)
}

/// What `compare` says of several results of runs; none of other results.
fn compared(files: &[PathBuf], parts: &[Part]) -> Result<Option<Value>, String> {
    if parts.len() < 2 || parts.iter().any(|part| part.document.get("series").is_none()) {
        return Ok(None);
    }
    let ran = files.iter().map(|file| Ran::read(file)).collect::<Result<Vec<_>, _>>()?;
    let Some((old, new)) = ran.split_first() else { return Ok(None) };
    let comparisons = new.chunks(1).map(|new| Comparison::of(slice::from_ref(old), new, ASKED));
    let comparisons = comparisons.collect::<Result<_, _>>()?;
    let compare = Compare { comparisons, least: ASKED.least, warm_up_s: ASKED.warm_up_s, held: false };
    Ok(serde_json::from_slice(&compare.to_json()).ok())
}

/// What tells one run from another, in its result and in its history.
#[derive(Clone, Debug, PartialEq)]
struct FirstLine {
    started_at: String,
    seed: Seed,
}

impl FirstLine {
    /// Of a history.
    fn of(history: &Path) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Header {
            origin: Origin,
            seed: Seed,
        }
        let unusable = |problem: &dyn std::fmt::Display| format!("{}: {problem}", history.display());
        ensure_file(history).map_err(|problem| unusable(&problem))?;
        let (_, header) = Reader::open(history).map_err(|damage| unusable(&damage))?;
        let header: Header = serde_json::from_value(header).map_err(|error| unusable(&error))?;
        Ok(Self { started_at: header.origin.started_at, seed: header.seed })
    }
}

/// A result that was read.
struct Read {
    part: Part,
    /// As the forms for CI systems have it; none of a comparison, and of the gaps of a failure.
    written: Option<Written>,
    /// What is wrong with it, where it is a damaged history.
    damage: Option<String>,
}

/// How results are read.
struct Reading {
    golden: Option<Arc<Golden>>,
    /// Histories, with the run that each is of.
    histories: Vec<(PathBuf, FirstLine)>,
}

impl Reading {
    /// A result, or a history, as part of a report.
    fn read(&self, path: &Path) -> Result<Read, String> {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
        let cannot = |problem: String| {
            format!(
                "cannot report {}: {problem}; give a file that --json or --history of a command wrote",
                path.display()
            )
        };
        let mut read = if begins_as_history(path).map_err(cannot)? {
            self.of_history(path).map_err(cannot)?
        } else {
            self.of_result(path).map_err(cannot)?
        };
        read.part.name = name;
        Ok(read)
    }

    fn of_history(&self, path: &Path) -> Result<Read, String> {
        let mut lanes = Lanes::default();
        let checked = check_by(self.golden.as_ref(), path, &mut lanes);
        let checked = checked.map_err(|damage| format!("{damage}; nothing of the file was judged"))?;
        let accused = checked.result.violations.iter().map(Accused::of);
        let summary = check::summary(&checked);
        let part = Part::of_run(&summary, &pictured::of(lanes, &checked, accused));
        let damage = checked
            .damage
            .as_ref()
            .map(|damage| format!("{}: {damage}; the report is of its readable part", path.display()));
        Ok(Read { part, written: Some(summary.written()), damage })
    }

    fn of_result(&self, path: &Path) -> Result<Read, String> {
        let bytes = reading::bytes(path)?;
        let writer = reading::writer(&bytes)?;
        let no_result = |error: serde_json::Error| reading::no_result(&error);
        let document: Value = serde_json::from_slice(&bytes).map_err(no_result)?;
        if matches!(writer, Writer::Window | Writer::Other) {
            let is_comparison = document.get("comparisons").is_some();
            let part = Part::of(String::new(), document);
            return if is_comparison || writer == Writer::Window {
                Ok(Read { part, written: None, damage: None })
            } else {
                Err("it is no result of --json, and no history".to_owned())
            };
        }
        let written = Written::parsed(&bytes)?;
        let mut part = Part::of(String::new(), document);
        match &written {
            Written::Run(run) => part.picture(&self.pictured(path, run)),
            Written::Hunt(hunt) => {
                let run = |finding: &Finding| finding.result.as_ref().map(|run| self.pictured(path, run));
                part.picture_each(hunt.findings.iter().map(|its| (false, run(its).unwrap_or_default())));
            }
            Written::Suite(_) | Written::Search(_) => {
                let note = "this result names no history: --html of the command itself, or a run alone, has the slots";
                part.lanes_note = Some(note.to_owned());
            }
        }
        Ok(Read { part, written: Some(written), damage: None })
    }

    /// The lanes of a run, from the history that belongs to it.
    fn pictured(&self, path: &Path, run: &Run) -> Pictured {
        let without = |note: String| Pictured { lanes: None, note: Some(note) };
        let is_its = |first: &FirstLine| (&first.started_at, first.seed) == (&run.started_at, run.seed);
        let given = self.histories.iter().find(|(_, first)| is_its(first)).map(|(path, _)| path.clone());
        let written = run.history.as_ref().map(|history| history.path.as_path());
        // A hunt has the files of its runs in a folder.
        let beside = ["", "runs"].map(|folder| {
            let name = written?.file_name()?;
            Some(path.with_file_name(folder).join(name))
        });
        let candidates = written.map(Path::to_owned).into_iter().chain(beside.into_iter().flatten());
        let found =
            given.or_else(|| candidates.into_iter().find(|file| FirstLine::of(file).is_ok_and(|its| is_its(&its))));
        match (found, written) {
            (Some(history), _) => pictured(&history, self.golden.as_ref(), run.violations.iter().map(accused)),
            (None, Some(history)) => {
                without(format!("the run's history is not at {}: name it (--history FILE)", history.display()))
            }
            (None, None) if self.histories.is_empty() => {
                without(
                    "the result names no history, and the history that --html keeps is deleted with the run: add --history FILE to the run"
                        .to_owned(),
                )
            }
            (None, None) => without("none of the histories that were named is of this run".to_owned()),
        }
    }
}

/// Where a violation was that a result tells of.
fn accused(told: &Told) -> Accused {
    let (at_us, place) = told.site();
    Accused::new(at_us.saturating_mul(1000), place)
}

/// Makes sure that reading comes to an end: a pipe may never have one.
fn ensure_file(path: &Path) -> Result<(), String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if about.is_file() { Ok(()) } else { Err("it is no file".to_owned()) }
}

/// Whether a file is a history, by its first bytes.
fn begins_as_history(path: &Path) -> Result<bool, String> {
    ensure_file(path)?;
    let mut beginning = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(BEGINNING).read_to_end(&mut beginning).map_err(|error| error.to_string())?;
    Ok(is_history(&beginning))
}

/// So many bytes tell a history from other files.
const BEGINNING: u64 = 64;
