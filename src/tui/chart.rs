//! Charts of the last minutes, as lines of characters.

use crate::run::PastSecond;

/// The longest time that a chart shows, in seconds, unless a column for each second shows more.
const SPAN_S: usize = 300;
/// How many seconds a column may stand for.
const SECONDS_OF_A_COLUMN: [usize; 10] = [1, 2, 3, 4, 5, 6, 8, 10, 15, 30];
/// How many parts the block characters divide a line into.
const EIGHTHS: usize = 8;
const EIGHTHS_OF_HALF: usize = EIGHTHS / 2;

/// What happened in the seconds that a column stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Column {
    /// Responses in a second.
    pub(super) responses: f64,
    /// Good ones.
    pub(super) good: f64,
    /// p50 and p99 of steps in ms: of p50 the mean, and of p99 the highest of the seconds.
    pub(super) step_ms: Option<[f64; 2]>,
}

/// The columns of a chart that is so wide, the oldest first, and for how many seconds each stands.
pub(super) fn columns(history: impl ExactSizeIterator<Item = PastSecond>, width: usize) -> (Vec<Column>, usize) {
    let shown = history.len().min(SPAN_S);
    let fits = |seconds: &usize| width * seconds >= shown;
    let seconds = SECONDS_OF_A_COLUMN.into_iter().find(fits).unwrap_or(30);
    // A column always has the same seconds, so that the chart moves and does not change.
    let mut all: Vec<(u64, Vec<PastSecond>)> = Vec::new();
    for second in history {
        let number = second.number / seconds as u64;
        match all.last_mut() {
            Some((last, its)) if *last == number => its.push(second),
            _ => all.push((number, vec![second])),
        }
    }
    let first = all.len().saturating_sub(width);
    (all[first..].iter().map(|(_, its)| Column::of(its)).collect(), seconds)
}

impl Column {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    fn of(seconds: &[PastSecond]) -> Self {
        let mean = |of: fn(&PastSecond) -> u64| seconds.iter().map(of).sum::<u64>() as f64 / seconds.len() as f64;
        let steps: Vec<_> = seconds.iter().filter_map(|second| second.step_us).collect();
        let p50 = steps.iter().map(|[p50, _]| *p50 as f64).sum::<f64>() / steps.len() as f64;
        let p99 = steps.iter().map(|[_, p99]| *p99).max();
        Self {
            responses: mean(|second| second.responses),
            good: mean(|second| second.good),
            step_ms: p99.map(|p99| [p50 / 1000.0, p99 as f64 / 1000.0]),
        }
    }
}

/// The characters of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// From the lowest to a full line.
    pub(super) levels: [char; EIGHTHS],
    /// What is above the lower one of two values.
    pub(super) above: char,
}

/// Bars of two values each, where the upper one is no less than the lower one. Returns lines from the top down.
pub(super) fn bars(values: &[[f64; 2]], height: usize, top: f64, marks: Marks) -> Vec<String> {
    let all = height * EIGHTHS;
    let eighths: Vec<_> = values.iter().map(|both| both.map(|value| scaled(value, top, all))).collect();
    let line = |line: usize| {
        let below = (height - 1 - line) * EIGHTHS;
        let mark = |[lower, upper]: &[usize; 2]| {
            let [lower, upper] = [lower, upper].map(|level| level.saturating_sub(below).min(EIGHTHS));
            match (lower, upper) {
                (_, 0) => ' ',
                (lower, upper) if lower == upper => marks.levels[lower - 1],
                (0, _) => marks.above,
                // The lower one shows, however low it is.
                (lower, EIGHTHS) => marks.levels[lower - 1],
                // Of a line that both values end in, the one with the larger part of it is shown.
                (EIGHTHS_OF_HALF.., _) => marks.levels[EIGHTHS - 1],
                _ => marks.above,
            }
        };
        eighths.iter().map(mark).collect()
    };
    (0..height).map(line).collect()
}

/// A value as a level; what is not zero can be seen.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn scaled(value: f64, top: f64, levels: usize) -> usize {
    if value <= 0.0 || top <= 0.0 {
        return 0;
    }
    ((value / top * levels as f64).round() as usize).clamp(1, levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASCII: Marks = Marks { levels: ['.', '.', '.', '.', '.', '#', '#', '#'], above: ':' };
    const BLOCKS: Marks = Marks { levels: ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'], above: '░' };

    fn second(number: u64, responses: u64) -> PastSecond {
        PastSecond { number, responses, good: responses / 2, step_us: Some([1000, 1000 * responses]) }
    }

    #[test]
    fn a_column_stands_for_as_few_seconds_as_fit() {
        let of = |seconds: u64, width| {
            let history: Vec<_> = (0..seconds).map(|number| second(number, 10)).collect();
            let (columns, each) = columns(history.into_iter(), width);
            (columns.len(), each)
        };
        assert_eq!(of(0, 30), (0, 1));
        assert_eq!(of(30, 30), (30, 1));
        assert_eq!(of(31, 30), (16, 2));
        assert_eq!(of(200, 30), (25, 8));
        // The last five minutes, and what else fits.
        assert_eq!(of(600, 30), (30, 10));
        assert_eq!(of(600, 100), (100, 3));
        assert_eq!(of(600, 0), (0, 30));
    }

    #[test]
    fn a_column_has_the_mean_rate_and_the_highest_p99() {
        let (columns, _) = columns([second(0, 10), second(1, 30), second(2, 8)].into_iter(), 2);
        let first = Column { responses: 20.0, good: 10.0, step_ms: Some([1.0, 30.0]) };
        assert_eq!(columns, [first, Column { responses: 8.0, good: 4.0, step_ms: Some([1.0, 8.0]) }]);
        let (silent, _) = super::columns([PastSecond::default()].into_iter(), 2);
        assert_eq!(silent, [Column::default()]);
    }

    #[test]
    fn bars_show_both_values() {
        let values = [[0.0, 0.0], [8.0, 8.0], [1.0, 16.0], [9.0, 11.0], [15.9, 15.9], [0.01, 0.01]];
        assert_eq!(bars(&values, 2, 16.0, BLOCKS), ["  ░░█ ", " █▁██▁"]);
        assert_eq!(bars(&values, 2, 16.0, ASCII), ["  ::# ", " #.##."]);
        assert_eq!(bars(&values, 1, 0.0, ASCII), ["      "], "nothing was measured");
        assert_eq!(bars(&[], 1, 1.0, ASCII), [""]);
    }
}
