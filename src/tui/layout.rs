//! Which part of the view is where.

use ratatui::layout::Rect;

/// The smallest terminal that the view fits.
pub(super) const LEAST: (u16, u16) = (80, 20);
/// On a terminal so wide the backlog stands beside the slots, else below them.
const WIDE: u16 = 120;
/// On a terminal with so many lines a violation that is unfolded takes the place of nothing else.
const HIGH: u16 = 40;
/// The lines of the charts.
const CHARTS: (u16, u16) = (4, 10);
/// The lines of the list of violations that are not given away, if there are so many violations.
const LIST: u16 = 5;
/// The least lines of what is between the charts and the list.
const MIDDLE: u16 = 5;
/// The least lines of the backlog below the slots.
const BACKLOG: u16 = 2;

/// Where everything is. What has no place is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) header: Rect,
    pub(super) rate: Rect,
    pub(super) step: Rect,
    pub(super) slots: Rect,
    pub(super) backlog: Rect,
    pub(super) patterns: Rect,
    pub(super) violations: Rect,
    pub(super) footer: Rect,
}

/// How many lines what is shown would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) header: u16,
    /// Each with its title.
    pub(super) slots: u16,
    pub(super) backlog: u16,
    pub(super) patterns: u16,
    pub(super) violations: u16,
    /// Whether a violation is unfolded.
    pub(super) is_unfolded: bool,
}

impl Places {
    /// The places on a screen that is no smaller than [`LEAST`].
    pub(super) fn on(screen: Rect, wanted: Wanted) -> Self {
        let below = |part: Rect, height: u16| Rect { y: part.bottom(), height, ..screen };
        let header = Rect { height: wanted.header, ..screen };
        let footer = Rect { y: screen.bottom().saturating_sub(1), height: 1, ..screen };
        let body = footer.y.saturating_sub(header.bottom());
        if wanted.is_unfolded && screen.height < HIGH {
            return Self { header, violations: below(header, body), footer, ..Self::default() };
        }
        let charts = below(header, (body / 4).clamp(CHARTS.0, CHARTS.1));
        let rest = body.saturating_sub(charts.height);
        let is_wide = screen.width >= WIDE;
        let left = if is_wide { wanted.slots.max(wanted.backlog) } else { wanted.slots + wanted.backlog };
        // A violation that is unfolded needs room more than what stands still.
        let list = if wanted.is_unfolded { rest * 2 / 3 } else { wanted.violations.min(rest * 9 / 20) };
        let height = left.max(wanted.patterns).min(rest.saturating_sub(list)).max(MIDDLE);
        let height = height.min(rest.saturating_sub(wanted.violations.min(LIST)));
        let middle = below(charts, height);
        let violations = below(middle, footer.y.saturating_sub(middle.bottom()));
        let (rate, step) = divided(charts, screen.width / 2);
        let (slots, backlog, patterns) = if is_wide {
            let (slots, others) = divided(middle, screen.width / 3);
            let (backlog, patterns) = divided(others, screen.width / 3);
            (slots, backlog, patterns)
        } else {
            let (left, patterns) = divided(middle, screen.width / 2);
            // The slots come first, and of the backlog the START that waits longest.
            let backlog = left.height.saturating_sub(wanted.slots).clamp(BACKLOG, wanted.backlog.max(BACKLOG));
            let slots = Rect { height: left.height.saturating_sub(backlog), ..left };
            let backlog = Rect { y: slots.bottom(), height: left.bottom().saturating_sub(slots.bottom()), ..left };
            (slots, backlog, patterns)
        };
        Self { header, rate, step, slots, backlog, patterns, violations, footer }
    }
}

/// Two parts beside each other, with a column between them.
fn divided(whole: Rect, left: u16) -> (Rect, Rect) {
    let right = Rect { x: whole.x + left, width: whole.width.saturating_sub(left), ..whole };
    (Rect { width: left.saturating_sub(1), ..whole }, right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_on_the_screen_and_none_is_on_another() {
        for (width, height) in [LEAST, (80, 24), (119, 25), (120, 39), (120, 40), (200, 50), (500, 300)] {
            for (header, many, listed, is_unfolded) in
                [(2, 3, 1, false), (4, 60, 1, false), (4, 60, 100, false), (3, 12, 2, true), (4, 60, 100, true)]
            {
                let (slots, backlog, patterns) = (many, many / 2, many);
                let wanted = Wanted { header, slots, backlog, patterns, violations: listed, is_unfolded };
                let screen = Rect::new(0, 0, width, height);
                let Places { header, rate, step, slots, backlog, patterns, violations, footer } =
                    Places::on(screen, wanted);
                let all = [header, rate, step, slots, backlog, patterns, violations, footer];
                for (index, place) in all.iter().enumerate() {
                    assert!(screen.union(*place) == screen, "{place} of {width}x{height}");
                    assert!(all[index + 1..].iter().all(|other| !place.intersects(*other)), "{all:?}");
                }
                assert!(violations.height >= listed.min(LIST) && footer.height == 1, "{all:?} of {width}x{height}");
            }
        }
    }
}
