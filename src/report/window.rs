//! In which gaps a failure fails, as a text with drawings and as JSON.

mod written;

use std::{collections::BTreeMap, io, time::Duration};

pub(super) use self::written::Document;
use super::{json::document_to_json, text::BOLD};
use crate::window::{CONFIDENCE, Count, Curve, Gap, Mark, Window};
use oracle::ViolationKind;
use workload::{
    conversation::{Act, Lane},
    wording::{counted, wrapped},
};

/// The columns of a terminal.
const COLUMNS: usize = 80;
/// The columns from no run that fails to all runs.
const BAR: usize = 51;
/// What makes runs depend on each other.
const ONE_SERVER: &str = "all runs met one server, so damage that one run left there may have changed the later ones";

/// What ended a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WindowEnded {
    /// All is measured.
    Done,
    /// The failure did not show, so nothing was measured.
    NeverFailed,
    /// The user interrupted it.
    Interrupted,
    /// The time was over.
    TimeLimit,
    /// A run could not be made, for this reason.
    NotTested(String),
}

impl WindowEnded {
    fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NeverFailed => "never-failed",
            Self::Interrupted => "interrupted",
            Self::TimeLimit => "time-limit",
            Self::NotTested(_) => "not-tested",
        }
    }
}

/// What came of measuring the gaps of a failure.
#[derive(Clone, Debug)]
pub(crate) struct WindowResult {
    /// The violation that counts.
    pub(crate) kind: ViolationKind,
    /// The name of the failure's file.
    pub(crate) file: String,
    /// Whether all runs met one server, with what earlier runs left in it.
    pub(crate) one_server: bool,
    /// The server's name and version.
    pub(crate) server: Option<String>,
    /// The model's name.
    pub(crate) model: String,
    /// How long the model takes to execute a request, in microseconds, where that is known.
    pub(crate) execution_us: Option<f64>,
    /// How many runs each length of a gap gets.
    pub(crate) runs: u32,
    /// The runs before the measurement, which show whether it fails at all.
    pub(crate) before: Count,
    /// The runs of the failure as it is.
    pub(crate) as_recorded: Count,
    /// All runs but those before.
    pub(crate) all: Count,
    /// The runs with another violation, by its kind.
    pub(crate) otherwise: BTreeMap<ViolationKind, u32>,
    /// What is known of each gap.
    pub(crate) curves: Vec<Curve>,
    pub(crate) took: Duration,
    pub(crate) ended: WindowEnded,
    /// The command line that measures again.
    pub(crate) replay: String,
}

impl WindowResult {
    pub(crate) fn exit_code(&self) -> u8 {
        let has_failed = [self.before, self.all].iter().any(|count| count.failed + count.otherwise > 0);
        match &self.ended {
            _ if has_failed => 1,
            WindowEnded::NotTested(_) => 4,
            // The verdict is UNKNOWN: nothing was measured, or not all of it.
            WindowEnded::Interrupted | WindowEnded::TimeLimit | WindowEnded::NeverFailed => 3,
            WindowEnded::Done => 0,
        }
    }

    /// What was found, in words: a capital word first.
    fn verdict(&self) -> String {
        let mattering: Vec<_> = self.curves.iter().filter(|curve| curve.matters()).collect();
        let so_far = match &self.ended {
            WindowEnded::Done => String::new(),
            WindowEnded::NeverFailed => {
                let runs = counted(self.before.runs.into(), "run");
                return format!(
                    "UNKNOWN: {} did not fail in {runs}, so no gap was measured; more runs may show it (-n)",
                    self.kind
                );
            }
            WindowEnded::Interrupted => "the measurement was interrupted; by then: ".to_owned(),
            WindowEnded::TimeLimit => "the time limit ended the measurement (--time-limit); by then: ".to_owned(),
            WindowEnded::NotTested(why) => format!("{why}; by then: "),
        };
        let gaps = counted(self.curves.len() as u64, "gap");
        let showed = format!("{} showed in {} of {}", self.kind, self.all.failed, counted(self.all.runs.into(), "run"));
        match mattering.as_slice() {
            [] if self.all.runs == 0 => format!("UNKNOWN: {so_far}no gap was measured"),
            [] if self.ended != WindowEnded::Done => {
                format!("UNKNOWN: {so_far}no gap has shown an effect: {showed}")
            }
            [] if self.one_server => {
                format!("UNKNOWN: no gap has shown an effect: {showed}, but {ONE_SERVER}; measure again with --reload")
            }
            [] if self.curves.len() == 1 => {
                format!("NO WINDOW: the gap does not matter: {showed}, whatever the timing")
            }
            [] => format!("NO WINDOW: none of {gaps} matters: {showed}, whatever the timing"),
            [only] => format!("WINDOW: {so_far}{} {}", self.kind, fails(only, self.execution_us)),
            several => {
                let numbers: Vec<_> = several.iter().map(|curve| curve.gap.number.to_string()).collect();
                format!("WINDOW: {so_far}{} depends on {} of {gaps}: {}", self.kind, numbers.len(), numbers.join(", "))
            }
        }
    }

    /// Why to doubt the measurement, where the verdict does not say it.
    fn note(&self) -> Option<String> {
        let is_said = self.ended == WindowEnded::Done && !self.curves.iter().any(Curve::matters);
        let is_doubted = self.one_server && self.all.runs > 0 && !is_said;
        is_doubted.then(|| format!("{ONE_SERVER}; --reload rules this out"))
    }

    /// Writes what was found: the verdict, a sentence for each gap, and a drawing of each gap that matters.
    pub(crate) fn write(&self, draws: bool, out: &mut impl io::Write) -> io::Result<()> {
        let verdict = self.verdict();
        let (word, _) = verdict.split_once(':').unwrap_or((&verdict, ""));
        let text = wrapped(&verdict, COLUMNS - 2).join("\n  ");
        writeln!(out, "{BOLD}{word}{BOLD:#}{}", &text[word.len()..])?;
        // Of one gap that matters the verdict says it all.
        let says_more = |curve: &&Curve| !curve.points.is_empty() && (self.curves.len() > 1 || !curve.matters());
        for curve in self.curves.iter().filter(says_more) {
            let label = format!("  gap {:<3}", curve.gap.number);
            let below = format!("\n{:1$}", "", label.len());
            writeln!(out, "{label}{}", wrapped(&self.says(curve), COLUMNS - label.len()).join(&below))?;
        }
        if let Some(note) = self.note() {
            writeln!(out, "  note: {}", wrapped(&note, COLUMNS - 8).join("\n        "))?;
        }
        for (kind, runs) in &self.otherwise {
            writeln!(out, "  {kind} instead in {}", counted((*runs).into(), "run"))?;
        }
        if draws {
            let mut mattering = self.curves.iter().filter(|curve| curve.matters());
            mattering.try_for_each(|curve| self.draw(curve, out))?;
        }
        let each = counted(self.runs.into(), "run");
        writeln!(
            out,
            "{} in {:.0} s, {each} for each length",
            counted((self.all.runs + self.before.runs).into(), "run"),
            self.took.as_secs_f64()
        )?;
        writeln!(out, "replay: {}", self.replay)
    }

    /// A gap in words: whether it matters, and how.
    fn says(&self, curve: &Curve) -> String {
        if curve.matters() {
            return fails(curve, self.execution_us);
        }
        let all = curve.all();
        let (low, high) = all.interval();
        let (least, most) = (curve.points.first().map_or(0, |its| its.us), curve.points.last().map_or(0, |its| its.us));
        let title = title(&curve.gap, self.has_several());
        if curve.points.len() < 2 {
            return format!("{title}: not measured");
        }
        // Too few runs show no effect either, and neither do runs that all fail because the first one damaged the server.
        let is_sure = self.ended == WindowEnded::Done && !self.one_server;
        let says = if is_sure { "does not matter" } else { "no effect seen" };
        format!(
            "{title}: {says} from {}: {} of {} failed ({} to {})",
            span(least, most),
            all.failed,
            counted(all.runs.into(), "run"),
            percent(low),
            percent(high)
        )
    }

    fn has_several(&self) -> bool {
        self.curves.iter().any(|curve| (curve.gap.worker, curve.gap.context) != (0, 0))
    }

    /// Draws a gap: a line for each length, with the interval of its probability.
    fn draw(&self, curve: &Curve, out: &mut impl io::Write) -> io::Result<()> {
        let heading = format!("gap {}: {}", curve.gap.number, title(&curve.gap, self.has_several()));
        writeln!(out, "\n{BOLD}{heading}{BOLD:#}")?;
        for point in &curve.points {
            let mark = if point.us == curve.gap.recorded_us { '*' } else { ' ' };
            let Count { failed, runs, .. } = point.count;
            writeln!(out, "{mark}{:>11} |{}| {failed} of {runs}", time(point.us), bar(point.count))?;
        }
        let half = BAR / 2;
        writeln!(out, "{:14}{:<half$}{:<half$}100 %", "", "0 %", "50 %")?;
        let interval = format!("-: its {} interval", percent(CONFIDENCE));
        writeln!(out, "{:14}o: share of runs that fail, {interval}, *: recorded", "")
    }

    /// The measurement as one JSON object.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        document_to_json(&Document::of(self))
    }
}

/// The gaps that are going to be measured, a line for each.
pub(crate) fn write_gaps(gaps: &[Gap], out: &mut impl io::Write) -> io::Result<()> {
    let has_several = gaps.iter().any(|gap| (gap.worker, gap.context) != (0, 0));
    gaps.iter().try_for_each(|gap| writeln!(out, "  gap {:<3}{}", gap.number, title(gap, has_several)))
}

/// A gap's beginning and end, and how long it is in the failure.
fn title(gap: &Gap, has_several: bool) -> String {
    let whose = match (has_several, gap.context) {
        (false, _) => String::new(),
        (true, 0) => format!(" of worker {}", gap.worker),
        (true, context) => format!(" of worker {}, context {context}", gap.worker),
    };
    format!("from {} to {}{whose} (recorded: {})", noun(&gap.from), noun(&gap.to), time(gap.recorded_us))
}

/// What a gap begins or ends with.
fn noun(mark: &Mark) -> String {
    let of = |what: &str, lane: Lane| {
        if lane == Lane::FIRST { format!("the {what}") } else { format!("the {what} of stream {}", lane.0 + 1) }
    };
    match *mark {
        Mark::Beginning => "the beginning of the replay".to_owned(),
        Mark::BeforeBegan => "the beginning of the conversation before".to_owned(),
        Mark::BeforeEnded => "the end of the conversation before".to_owned(),
        Mark::Answered(number) => format!("the response to #{number}"),
        Mark::Sent { number, start, end } => {
            format!("#{number}{}{}", if start { " START" } else { "" }, if end { " END" } else { "" })
        }
        Mark::Done(act) => match act {
            Act::Open { lane, .. } => of("opening", lane),
            Act::Send { lane, .. } => of("step", lane),
            Act::Await { lane, .. } => of("wait", lane),
            Act::HalfClose { lane } => of("half-close", lane),
            Act::Close { lane } => of("close", lane),
            Act::Cancel { lane } => of("cancel", lane),
            Act::Reset { lane } => of("reset", lane),
            Act::Kill { lane } => of("kill", lane),
            Act::Pause { .. } | Act::At { .. } => "the pause".to_owned(),
            Act::StopReading { .. } => "the pause in reading".to_owned(),
        },
    }
}

/// When a failure fails, of a gap that matters.
fn fails(curve: &Curve, execution_us: Option<f64>) -> String {
    let rates: Vec<_> = curve.windows.iter().map(|window| window.count.rate()).collect();
    let is_always = rates.iter().all(|rate| *rate >= 1.0);
    let least = rates.iter().copied().fold(1.0, f64::min);
    let how_often = if is_always { String::new() } else { format!(" in {} of the runs", percent(least)) };
    let outside = curve.outside();
    let otherwise =
        if outside.failed > 0 { format!("; otherwise in {}", percent(outside.rate())) } else { String::new() };
    let whens: Vec<_> = curve.windows.iter().map(|window| when(window, &curve.gap)).collect();
    let [to, from] = [&curve.gap.to, &curve.gap.from].map(noun);
    let relative = match (curve.windows.as_slice(), execution_us) {
        ([only], Some(execution)) => before_the_end(only, &curve.gap, execution),
        _ => None,
    };
    let relative = relative.map_or_else(String::new, |words| format!(": {words}"));
    format!("fails{how_often} when {to} comes {} after {from}{relative}{otherwise}", whens.join(", or "))
}

/// How long after its beginning a gap has to end.
fn when(window: &Window, gap: &Gap) -> String {
    let Window { from_us, until_us, .. } = *window;
    match (window.below_us, window.above_us) {
        (None, _) if until_us == 0 => "at once".to_owned(),
        (None, Some(_)) => format!("at most {}", time(until_us)),
        (Some(_), None) => format!("{} or more", time(from_us)),
        _ if from_us == until_us && from_us == gap.recorded_us => format!("as recorded, {}", time(from_us)),
        _ if from_us == until_us => format!("about {}", time(from_us)),
        _ => span(from_us, until_us),
    }
}

/// A window as the distance to the end of the execution that is under way, where it is known that there is one.
#[expect(clippy::cast_precision_loss, reason = "times of a replay")]
fn before_the_end(window: &Window, gap: &Gap, execution_us: f64) -> Option<String> {
    window.above_us?;
    let (from, until) = (window.from_us as f64, window.until_us as f64);
    if gap.executions == 0 || execution_us < 100.0 {
        return None;
    }
    // Of a window that begins at once the end alone says something.
    let begins_at_once = window.below_us.is_none();
    let near = if begins_at_once {
        (until / execution_us).round()
    } else {
        (f64::midpoint(from, until) / execution_us).ceil()
    };
    let number = near.max(1.0);
    if number > f64::from(gap.executions) {
        return None;
    }
    let (which, takes) = if number > 1.0 {
        (format!("execution {number:.0} from there on"), format!("({} each)", milliseconds(execution_us)))
    } else {
        ("the execution".to_owned(), format!("({})", milliseconds(execution_us)))
    };
    let end = number * execution_us;
    let (first, last) = (end - from, end - until);
    Some(match (begins_at_once, last >= 0.0) {
        (true, true) => format!("{} or more before the end of {which} {takes}", milliseconds(last)),
        (true, false) => format!("at most {} after the end of {which} {takes}", milliseconds(-last)),
        (false, true) => {
            format!("{} to {} before the end of {which} {takes}", milliseconds_bare(last), milliseconds(first))
        }
        (false, false) if first >= 0.0 => {
            format!(
                "from {} before the end of {which} to {} after it {takes}",
                milliseconds(first),
                milliseconds(-last)
            )
        }
        (false, false) => {
            format!("{} to {} after the end of {which} {takes}", milliseconds_bare(-first), milliseconds(-last))
        }
    })
}

/// The interval of a probability as a bar.
fn bar(count: Count) -> String {
    let (low, high) = count.interval();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "from 0 to the width"
    )]
    let column = |share: f64| (share.clamp(0.0, 1.0) * (BAR - 1) as f64).round() as usize;
    let (low, at, high) = (column(low), column(count.rate()), column(high));
    let cell = |place| match place {
        _ if place == at => 'o',
        _ if (low..=high).contains(&place) => '-',
        _ => ' ',
    };
    (0..BAR).map(cell).collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A number of milliseconds with as many digits as say something.
fn milliseconds_bare(us: f64) -> String {
    let ms = us / 1000.0;
    let text = match ms {
        _ if ms < 1.0 => format!("{ms:.2}"),
        _ if ms < 100.0 => format!("{ms:.1}"),
        _ => return format!("{ms:.0}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn milliseconds(us: f64) -> String {
    format!("{} ms", milliseconds_bare(us))
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn time(us: u64) -> String {
    milliseconds(us as f64)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn span(from_us: u64, until_us: u64) -> String {
    format!("{} to {}", milliseconds_bare(from_us as f64), time(until_us))
}

#[cfg(test)]
mod tests;
