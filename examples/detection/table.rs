//! What was found, as Markdown.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use reference::{Fault, Planted};

use crate::{
    Outcomes,
    harness::{
        meant::Meant,
        plain::Plain,
        rows::{Row, not_found_because},
        trial::{Outcome, Seen},
    },
};

/// What came of one fault in one place.
#[derive(Default)]
pub(crate) struct Of {
    pub(crate) always: Option<Outcome>,
    pub(crate) once: Vec<Outcome>,
}

/// What came of two faults at once.
pub(crate) struct Paired {
    pub(crate) faults: [Planted; 2],
    pub(crate) outcome: Outcome,
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
    /// Of runs in which a fault was committed.
    fn of<'o>(runs: impl IntoIterator<Item = (&'o Outcome, Vec<Planted>)>) -> Self {
        let mut score = Self::default();
        for (outcome, planted) in runs {
            if outcome.committed == Some(0) && outcome.found().is_none() {
                continue;
            }
            score.runs += 1;
            score.found += usize::from(outcome.is_noticed());
            score.named += usize::from(outcome.is_named_rightly(&planted));
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

    fn told(&self) -> String {
        format!(
            "found in {} of {} runs ({}); named rightly in {} of {} ({}); the plain checker fails in {} ({}) and hangs in {} ({})",
            self.found,
            self.runs,
            Self::percent(self.found, self.runs),
            self.named,
            self.diagnosed(),
            Self::percent(self.named, self.diagnosed()),
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
    Score::of(outcomes.iter().flat_map(|(fault, of)| runs(*fault, of, always)))
}

fn runs(fault: Fault, of: &Of, always: bool) -> Vec<(&Outcome, Vec<Planted>)> {
    if always {
        of.always.iter().map(|outcome| (outcome, vec![Planted::always(fault)])).collect()
    } else {
        of.once.iter().map(|outcome| (outcome, vec![Planted::once(fault, 1)])).collect()
    }
}

/// Whether a fault that happens once is found with all but one in twenty seeds.
fn is_found_once(fault: Fault, of: &Of) -> bool {
    let score = Score::of(runs(fault, of, false));
    score.runs > 0 && score.found * 20 >= score.runs * 19
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
        for (name, outcomes) in
            [("Reference server", &self.reference), ("tritonserver 24.10, native models", &self.real)]
        {
            if outcomes.is_empty() {
                continue;
            }
            let of_all = outcomes.len();
            let always = outcomes.values().filter(|of| of.always.as_ref().is_some_and(Outcome::is_noticed)).count();
            let once = outcomes.iter().filter(|(fault, of)| is_found_once(**fault, of)).count();
            writeln!(
                out,
                "- **{name}, always: {always} of {of_all} faults found.** {}.",
                score(outcomes, true).told()
            )?;
            writeln!(
                out,
                "- **{name}, once: {once} of {of_all} faults found with at least 19 of 20 seeds.** {}.",
                score(outcomes, false).told()
            )?;
        }
        let pairs = Score::of(self.pairs.iter().map(|pair| (&pair.outcome, pair.faults.to_vec())));
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
        let mut group = "";
        for row in self.rows {
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
            let empty = Of::default();
            let of = self.reference.get(&row.fault).unwrap_or(&empty);
            let real = self.real.get(&row.fault).unwrap_or(&empty);
            writeln!(
                out,
                "| `{}` | {} | {} | {}, {} | {} | {} | {smallest} | {} | {} | {} | {} |",
                row.fault,
                row.fault.what(),
                row.fault.resembles(),
                row.scene.name(),
                row.model.trim_end_matches("_sequence_int32"),
                always(row.fault, of),
                once(row.fault, of),
                plain(row.fault, of),
                always(row.fault, real),
                once(row.fault, real),
                plain(row.fault, real),
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
            let fault = meant.row.fault;
            let always = always(fault, &Of { always: outcome.clone(), once: Vec::new() });
            let found = if always.is_empty() { "**not found**" } else { &always };
            writeln!(out, "| `{}` | `{fault}` | {found} |", meant.scenario)?;
        }
        Ok(())
    }

    fn pairs(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n## Pairs of faults\n\n| pair | called | named | requests | plain |\n|---|---|---|---|---|")?;
        for Paired { faults, outcome } in &self.pairs {
            let [one, other] = faults;
            let (called, after) = outcome.found().map_or(("**not found**".to_owned(), String::new()), |found| {
                (format!("`{}`", found.first.kind), found.after.to_string())
            });
            writeln!(
                out,
                "| `{one}`, `{other}` | {called} | {} | {after} | {} |",
                named(outcome, faults),
                in_words(outcome.plain)
            )?;
        }
        Ok(())
    }
}

fn named(outcome: &Outcome, planted: &[Planted]) -> String {
    match outcome.named() {
        None => String::new(),
        Some(cause) if outcome.is_named_rightly(planted) => format!("`{cause}`"),
        Some(cause) => format!("**wrong:** `{cause}`"),
    }
}

fn always(fault: Fault, of: &Of) -> String {
    let Some(outcome) = &of.always else { return String::new() };
    match &outcome.seen {
        Seen::Found(found) => {
            let named = named(outcome, &[Planted::always(fault)]);
            format!("`{}`, {}, {named}", found.first.kind, found.after)
        }
        Seen::CouldNotTest(why) => format!("exit code 4: {}", why.split(':').next().unwrap_or_default()),
        Seen::Nothing => match not_found_because(fault, true) {
            Some(why) => format!("**not found**: {why}"),
            None => "**not found**".to_owned(),
        },
    }
}

fn once(fault: Fault, of: &Of) -> String {
    let score = Score::of(runs(fault, of, false));
    match not_found_because(fault, false).filter(|_| score.found == 0) {
        _ if of.once.is_empty() => String::new(),
        Some(why) => format!("**not found**: {why}"),
        None if score.runs == 0 => "**no chance**".to_owned(),
        None => format!("{} of {}, {} named, {}", score.found, score.runs, score.named, score.median()),
    }
}

fn plain(fault: Fault, of: &Of) -> String {
    let Some(always) = &of.always else { return String::new() };
    let once = Score::of(runs(fault, of, false));
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
