//! What was found, as Markdown.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use reference::{Fault, Planted};

use crate::{
    Outcomes,
    harness::{
        meant::Meant,
        plain::Plain,
        rows::Row,
        trial::{Outcome, Seen},
    },
};

/// What came of one fault in one place.
pub(crate) struct Of {
    pub(crate) row: Row,
    pub(crate) always: Option<Outcome>,
    pub(crate) once: Vec<Outcome>,
}

/// What came of two faults at once.
pub(crate) struct Paired {
    pub(crate) faults: [Planted; 2],
    pub(crate) outcome: Outcome,
    pub(crate) is_named_rightly: bool,
}

/// What a built-in scenario made of a fault that it is meant for; nothing where it did not find it.
pub(crate) struct BuiltIn {
    pub(crate) meant: Meant,
    pub(crate) outcome: Option<Outcome>,
}

/// All of it.
pub(crate) struct Table<'t> {
    pub(crate) rows: &'t [Row],
    pub(crate) reference: Outcomes,
    pub(crate) real: Outcomes,
    pub(crate) smallest: BTreeMap<Fault, (usize, bool)>,
    pub(crate) pairs: Vec<Paired>,
    pub(crate) built_in: Vec<BuiltIn>,
    pub(crate) seeds: u64,
    pub(crate) took: Duration,
}

/// Runs in which faults were there, and what was made of them.
#[derive(Default)]
struct Score {
    runs: usize,
    found: usize,
    named: usize,
    fails: usize,
    hangs: usize,
    after: Vec<u64>,
}

impl Score {
    /// Of runs in which a fault was committed, each with whether it is named rightly.
    fn of<'o>(runs: impl IntoIterator<Item = (&'o Outcome, bool)>) -> Self {
        let mut score = Self::default();
        for (outcome, is_named_rightly) in runs {
            if outcome.committed == Some(0) && outcome.found().is_none() {
                continue;
            }
            score.runs += 1;
            score.found += usize::from(outcome.is_noticed());
            score.named += usize::from(is_named_rightly);
            score.fails += usize::from(outcome.plain == Plain::Fails);
            score.hangs += usize::from(outcome.plain == Plain::Hangs);
            score.after.extend(outcome.found().map(|found| found.after));
        }
        score.after.sort_unstable();
        score
    }

    /// How many had a diagnosis at all: what could not be tested has none.
    fn diagnosed(&self) -> usize {
        self.after.len()
    }

    fn percent(part: usize, whole: usize) -> String {
        let tenths = (part * 1000).checked_div(whole);
        tenths.map_or("-".to_owned(), |tenths| format!("{}.{} %", tenths / 10, tenths % 10))
    }

    fn told_of_tool(&self) -> String {
        format!(
            "found in {} of {} runs ({}); named rightly in {} of {} ({})",
            self.found,
            self.runs,
            Self::percent(self.found, self.runs),
            self.named,
            self.diagnosed(),
            Self::percent(self.named, self.diagnosed()),
        )
    }

    fn told(&self) -> String {
        format!(
            "{}; the plain checker fails in {} ({}) and hangs in {} ({})",
            self.told_of_tool(),
            self.fails,
            Self::percent(self.fails, self.runs),
            self.hangs,
            Self::percent(self.hangs, self.runs),
        )
    }

    fn median(&self) -> u64 {
        self.after.get(self.after.len() / 2).copied().unwrap_or(0)
    }
}

fn score(outcomes: &Outcomes, always: bool) -> Score {
    Score::of(outcomes.values().flat_map(|of| of.runs(always)))
}

impl Of {
    /// The runs, each with whether the fault is named rightly.
    fn runs(&self, always: bool) -> impl Iterator<Item = (&Outcome, bool)> {
        let runs = if always { self.always.as_slice() } else { &self.once };
        runs.iter().map(move |outcome| (outcome, outcome.is_named_rightly(&self.row, always)))
    }

    /// Whether a fault that happens once is found with all but one in twenty seeds.
    fn is_found_once(&self) -> bool {
        let score = Score::of(self.runs(false));
        score.runs > 0 && score.found * 20 >= score.runs * 19
    }
}

/// How many faults were found in each place, and how many runs.
fn summary(out: &mut String, places: [(&str, &Outcomes); 2], of_runs: impl Fn(&Score) -> String) -> std::fmt::Result {
    for (name, outcomes) in places.into_iter().filter(|(_, outcomes)| !outcomes.is_empty()) {
        let of_all = outcomes.len();
        let always = outcomes.values().filter(|of| of.always.as_ref().is_some_and(Outcome::is_noticed)).count();
        let once = outcomes.values().filter(|of| of.is_found_once()).count();
        let (each_time, one_time) = (of_runs(&score(outcomes, true)), of_runs(&score(outcomes, false)));
        writeln!(out, "- **{name}, always: {always} of {of_all} faults found.** {each_time}.")?;
        writeln!(out, "- **{name}, once: {once} of {of_all} faults found with at least 19 of 20 seeds.** {one_time}.")?;
    }
    Ok(())
}

/// What was found in models without a formula.
pub(crate) struct ByGolden<'t> {
    pub(crate) rows: &'t [Row],
    pub(crate) reference: Outcomes,
    pub(crate) real: Outcomes,
    /// In the reference server, and on the real one.
    pub(crate) seeds: [u64; 2],
    pub(crate) took: Duration,
}

impl ByGolden<'_> {
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("a String");
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let [seeds, real_seeds] = self.seeds;
        writeln!(out, "## Models without a formula\n")?;
        let places =
            [("Reference server, GRU", &self.reference), ("tritonserver 24.10, Silero VAD in the host", &self.real)];
        summary(out, places, Score::told_of_tool)?;
        writeln!(
            out,
            "\nWritten by `scripts/detection --golden` in {} min, {seeds} seeds in the reference server and {real_seeds} on tritonserver. \
             [Golden outputs](GOLDEN.md) of a server without a fault judge the responses. *GRU* is a layer of 16 numbers; the fault of two \
             states has a model of two. *Silero VAD* is the model that `scripts/silero` writes, with an idle limit of 1 s. Its host commits \
             the faults that it can commit. A run goes on to its end, because the tool then asks the idle server for the cause. *not named* \
             is a violation without a cause: the idle server could not be believed, or none of its answers was the response. A server that \
             always commits the fault commits it in these answers, too. All else is as above.\n",
            self.took.as_secs() / 60
        )?;
        writeln!(
            out,
            "| fault | in | GRU, always: called, after requests, named | once: found, named, median requests | \
             Silero VAD, always | once |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|")?;
        for row in self.rows {
            let (of, real) = (self.reference.get(&row.fault), self.real.get(&row.fault));
            let can_commit = real.is_some() || self.real.is_empty();
            let in_host = if can_commit { cell(real, always) } else { "the host cannot commit it".to_owned() };
            writeln!(
                out,
                "| `{}` | {}, {} | {} | {} | {in_host} | {} |",
                row.fault,
                row.scene.name(),
                row.model.trim_end_matches("_float32"),
                cell(of, always),
                cell(of, once),
                cell(real, once),
            )?;
        }
        Ok(())
    }
}

impl Table<'_> {
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        self.summary(&mut out)
            .and_then(|()| self.faults(&mut out))
            .and_then(|()| self.built_in(&mut out))
            .and_then(|()| self.pairs(&mut out))
            .expect("a String");
        out
    }

    fn summary(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "# What the tool finds\n")?;
        let places = [("Reference server", &self.reference), ("tritonserver 24.10, native models", &self.real)];
        summary(out, places, Score::told)?;
        let pairs = Score::of(self.pairs.iter().map(|pair| (&pair.outcome, pair.is_named_rightly)));
        writeln!(
            out,
            "- **{} pairs of faults, each once, in the reference server:** {}; a median of {} requests until the first \
             violation.",
            self.pairs.len(),
            pairs.told(),
            pairs.median()
        )?;
        writeln!(
            out,
            "\nWritten by `scripts/detection` in {} min, {} seeds. Each fault is planted where it shows: the scenarios are \
             in `scenarios/detection/`, the idle limit is 100 ms (400 ms in `waits`), two instances have four slots each. A \
             run ends half a second after its first violation. *Once* is at a chance that the seed picks. *Named rightly* is where the first \
             explanation of the first violation is the fault's, or one that cannot be told from it from outside \
             ([DIAGNOSIS.md](DIAGNOSIS.md)). *Smallest* is how many requests are left when what was sent is shrunk with the \
             fault always there (≤ where the trials were used up).\n\nThe *plain checker* compares, after the fact, each \
             answer with the running sum, in the order of its stream, as Triton's own L0_sequence_stress does: it fails at \
             the first that differs, is an error or cannot be read, or where a step without START is not rejected; without an \
             answer it hangs, because it has no time limit. It does not look at patterns that L0 does not have, nor at a context \
             after the client cut a stream of it.\n",
            self.took.as_secs() / 60,
            self.seeds
        )
    }

    fn faults(&self, out: &mut String) -> std::fmt::Result {
        let mut rows: Vec<_> = self.rows.iter().collect();
        let groups: Vec<_> = rows.iter().map(|row| row.fault.group()).collect();
        rows.sort_by_key(|row| groups.iter().position(|group| *group == row.fault.group()));
        let mut group = "";
        for row in rows {
            if group != row.fault.group() {
                group = row.fault.group();
                writeln!(out, "\n## {}{} faults\n", group[..1].to_uppercase(), &group[1..])?;
                writeln!(
                    out,
                    "| fault | what the server does | like | in | always: called, after requests, named | once: found, named, \
                     median requests | smallest | plain: always, once | tritonserver, always | once | plain |"
                )?;
                writeln!(out, "|---|---|---|---|---|---|---|---|---|---|---|")?;
            }
            let smallest = self.smallest.get(&row.fault).map_or(String::new(), |(messages, is_minimal)| {
                format!("{}{messages}", if *is_minimal { "" } else { "≤ " })
            });
            let (of, real) = (self.reference.get(&row.fault), self.real.get(&row.fault));
            writeln!(
                out,
                "| `{}` | {} | {} | {}, {} | {} | {} | {smallest} | {} | {} | {} | {} |",
                row.fault,
                row.fault.what(),
                row.fault.resembles(),
                row.scene.name(),
                row.model.trim_end_matches("_sequence_int32"),
                cell(of, always),
                cell(of, once),
                cell(of, plain),
                cell(real, always),
                cell(real, once),
                cell(real, plain),
            )?;
        }
        Ok(())
    }

    fn built_in(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "\n## The built-in scenarios\n\nWhat each scenario of the suite is meant to find, and what it called it with the fault \
             always there: reference server, idle limit 200 ms, two instances of four slots each.\n\n\
             | scenario | fault | called, after requests, named |\n|---|---|---|"
        )?;
        for BuiltIn { meant, outcome } in &self.built_in {
            let always = always(&Of { row: *meant.row, always: outcome.clone(), once: Vec::new() });
            let found = if always.is_empty() { "**not found**" } else { &always };
            writeln!(out, "| `{}` | `{}` | {found} |", meant.scenario, meant.row.fault)?;
        }
        Ok(())
    }

    fn pairs(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n## Pairs of faults\n\n| pair | called | named | requests | plain |\n|---|---|---|---|---|")?;
        for Paired { faults, outcome, is_named_rightly } in &self.pairs {
            let [one, other] = faults;
            let (called, after) = outcome.found().map_or(("**not found**".to_owned(), String::new()), |found| {
                (format!("`{}`", found.first.kind), found.after.to_string())
            });
            writeln!(
                out,
                "| `{one}`, `{other}` | {called} | {} | {after} | {} |",
                named(outcome, *is_named_rightly),
                in_words(outcome.plain)
            )?;
        }
        Ok(())
    }
}

fn cell(of: Option<&Of>, words: fn(&Of) -> String) -> String {
    of.map(words).unwrap_or_default()
}

fn named(outcome: &Outcome, is_named_rightly: bool) -> String {
    match outcome.named() {
        None if outcome.found().is_none() => String::new(),
        None => "not named".to_owned(),
        Some(cause) if is_named_rightly => format!("`{cause}`"),
        Some(cause) => format!("**wrong:** `{cause}`"),
    }
}

fn always(of: &Of) -> String {
    let Some(outcome) = &of.always else { return String::new() };
    match &outcome.seen {
        Seen::Found(found) => {
            let named = named(outcome, outcome.is_named_rightly(&of.row, true));
            format!("`{}`, {}, {named}", found.first.kind, found.after)
        }
        Seen::CouldNotTest(why) => format!("exit code 4: {}", why.split(':').next().unwrap_or_default()),
        Seen::Nothing => match of.row.not_found_because(true) {
            Some(why) => format!("**not found**: {why}"),
            None => "**not found**".to_owned(),
        },
    }
}

fn once(of: &Of) -> String {
    let score = Score::of(of.runs(false));
    match of.row.not_found_because(false).filter(|_| score.found == 0) {
        _ if of.once.is_empty() => String::new(),
        Some(why) => format!("**not found**: {why}"),
        None if score.runs == 0 => "**no chance**".to_owned(),
        None => format!("{} of {}, {} named, {}", score.found, score.runs, score.named, score.median()),
    }
}

fn plain(of: &Of) -> String {
    let Some(always) = &of.always else { return String::new() };
    let once = Score::of(of.runs(false));
    format!("{}, {} of {}", in_words(always.plain), once.fails, once.runs)
        + &if once.hangs > 0 { format!(" (hangs in {})", once.hangs) } else { String::new() }
}

fn in_words(plain: Plain) -> &'static str {
    match plain {
        Plain::Fails => "fails",
        Plain::Hangs => "hangs",
        Plain::Passes => "passes",
    }
}
