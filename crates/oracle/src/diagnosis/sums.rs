//! Wrong sums: exact arithmetic on what was answered before, after and beside them.

use super::{
    Cause, Clue, ModelFacts, WentOn,
    hypothesis::{Fit, Hypothesis},
    others,
    story::{Asked, Spot, Story},
};
use workload::{arithmetic::Arithmetic, event::Nanos, number::Number};

/// An answer that is wrong by no more than this is wrong by a small number.
pub(super) const SMALL: u32 = 8;
/// Of how many steps that nobody was told of it is tried whether they were executed.
const UNANSWERED_MAX: usize = 6;

/// A wrong sum, and what is known of its sequence.
#[derive(Debug)]
pub(super) struct Case<'c> {
    pub(super) story: &'c Story<'c>,
    pub(super) known: &'c ModelFacts,
    pub(super) spot: Spot,
    pub(super) asked: &'c Asked<'c>,
    pub(super) at: Nanos,
    pub(super) sum: Number,
    /// The state that the step had to find.
    pub(super) before: Number,
    /// The state that the step's answer says that it found.
    pub(super) base: Number,
    /// The state that the next step found.
    pub(super) after: Option<Number>,
}

impl<'c> Case<'c> {
    /// The case of an answered step; `expected` is the sum that had to come.
    pub(super) fn new(story: &'c Story<'c>, known: &'c ModelFacts, spot: Spot, expected: Number) -> Option<Self> {
        let asked = story.asked(spot);
        let (sum, base) = (asked.sum()?, asked.base()?);
        let before = expected.wrapping_sub(asked.step.value);
        Some(Self { story, known, spot, asked, at: asked.at(), sum, before, base, after: story.found_next(spot) })
    }

    pub(super) fn right(&self) -> Number {
        self.before.wrapping_add(self.asked.step.value)
    }

    pub(super) fn off_by(&self) -> Number {
        self.sum.wrapping_sub(self.right())
    }

    /// Whether the next step went on from a sum; not known where it went on from something else again, for which there is
    /// another reason.
    fn went_on_from(&self, state: Number) -> Option<bool> {
        let after = self.after.filter(|after| [self.sum, self.right(), self.before].contains(after))?;
        Some(after == state)
    }

    /// Fits where the state took the wrong sum.
    pub(super) fn if_taken(&self) -> Fit {
        Fit::of(self.went_on_from(self.sum))
    }

    /// As [`Self::if_taken`]; or the next step shows that the same befell it, by what it found then.
    fn if_taken_or_again(&self, again: impl Fn(Number) -> Number) -> Fit {
        let next = self.story.next(self.spot).map(|next| again(next.step.value));
        if self.after.is_some() && self.after == next { Fit::Yes } else { self.if_taken() }
    }

    /// Fits where only the answer was wrong.
    pub(super) fn if_only_answered(&self) -> Fit {
        Fit::of(self.went_on_from(self.right()))
    }

    /// Fits where the step was executed on another state, and its own stayed as it was.
    pub(super) fn if_elsewhere(&self) -> Fit {
        Fit::of(self.went_on_from(self.before))
    }

    pub(super) fn went_on(&self) -> Clue {
        let from = match self.after {
            None => WentOn::NotKnown,
            Some(after) if after == self.sum => WentOn::WrongSum,
            Some(after) if after == self.right() => WentOn::RightSum,
            Some(after) if after == self.before => WentOn::StateBefore,
            Some(after) => WentOn::Other(after),
        };
        Clue::WentOn { from }
    }

    fn hypothesis(&self, cause: Cause, tried: usize, fit: Fit, clue: Clue) -> Hypothesis {
        Hypothesis::new(cause, tried, fit, [clue, self.went_on()])
    }

    pub(super) fn own_steps(&self) -> &'c [Asked<'c>] {
        &self.story.told(self.spot).steps
    }
}

pub(super) fn explain(story: &Story, known: &ModelFacts, spot: Spot, expected: Number) -> Vec<Hypothesis> {
    let mut frames = vec![expected];
    // After a wrong answer the state may be as that answer or as it had to be: the step is looked at in either way.
    frames.extend(story.asked(spot).right.filter(|right| *right != expected));
    let cases = frames.into_iter().filter_map(|expected| Case::new(story, known, spot, expected));
    let mut all: Vec<_> = cases.filter(|case| case.sum != case.right()).flat_map(|case| of_case(&case)).collect();
    if all.iter().all(|hypothesis| hypothesis.fit == Fit::No || hypothesis.odds(story.bits) > 0.1)
        && let Some(case) = Case::new(story, known, spot, expected)
    {
        all.extend(unexplained(&case));
    }
    all
}

fn of_case(case: &Case) -> Vec<Hypothesis> {
    let own = [small(case), twice(case), earlier_twice(case), unanswered_twice(case), not_executed(case)];
    let own = own.into_iter().flatten();
    let own =
        own.chain([corrid_added(case), end_mistaken(case), bit_flipped(case), saturated(case)].into_iter().flatten());
    own.chain(exchanged(case))
        .chain(out_of_order(case))
        .chain(effect_lost(case))
        .chain(reset(case))
        .chain(others::explain(case))
        .collect()
}

fn small(case: &Case) -> Option<Hypothesis> {
    let off_by = case.off_by();
    // Whether the state takes it depends on the mistake.
    (off_by.magnitude() <= SMALL.into())
        .then(|| case.hypothesis(Cause::WrongArithmetic, 2 * SMALL as usize, Fit::NotKnown, Clue::WrongBy { off_by }))
}

fn twice(case: &Case) -> Option<Hypothesis> {
    let value = case.asked.step.value;
    let fit = case.if_taken_or_again(|next| case.sum.wrapping_add(next));
    (case.off_by() == value).then(|| case.hypothesis(Cause::ExecutedTwice, 1, fit, Clue::TooHighByOwnValue { value }))
}

/// A step before was executed once more, after it was answered.
fn earlier_twice(case: &Case) -> Option<Hypothesis> {
    let (steps, here) = (case.own_steps(), case.spot.step);
    let back = (1..=here).find(|back| steps[here - back].step.value == case.off_by())?;
    let clue = Clue::TooHighByEarlierValue { value: case.off_by(), back };
    Some(case.hypothesis(Cause::ExecutedTwice, 2 * back, case.if_taken(), clue))
}

/// Of the steps that were never answered, each of which may have been executed or not, some were executed twice.
fn unanswered_twice(case: &Case) -> Option<Hypothesis> {
    let (steps, here) = (case.own_steps(), case.spot.step);
    let told = steps[..here].iter().rev().find_map(Asked::sum);
    let state = told.or_else(|| steps.first().filter(|first| first.step.start).map(|_| case.base.zero()))?;
    let unanswered: Vec<_> =
        (0..here).rev().filter(|step| steps[*step].answer.is_none()).take(UNANSWERED_MAX).collect();
    // How often each was executed, as the digits of a number to base 3.
    let ways = 3_usize.pow(u32::try_from(unanswered.len()).ok()?);
    let times = |way: usize| {
        let digits = (0..).map(move |place| way / 3_usize.pow(place) % 3);
        unanswered.iter().copied().zip(digits)
    };
    let is_it = |way: &usize| {
        let executed = times(*way).flat_map(|(step, times)| std::iter::repeat_n(step, times));
        executed.fold(state, |state, step| state.wrapping_add(steps[step].step.value)) == case.base
    };
    let twice = |way: usize| times(way).find(|(_, times)| *times == 2).map(|(step, _)| step);
    let twice = (0..ways).filter(|way| twice(*way).is_some()).find(is_it).and_then(twice)?;
    let clue = Clue::TooHighByEarlierValue { value: steps[twice].step.value, back: here - twice };
    Some(case.hypothesis(Cause::ExecutedTwice, ways, case.if_taken(), clue))
}

fn corrid_added(case: &Case) -> Option<Hypothesis> {
    let id = case.story.told(case.spot).correlation_id;
    let number = case.right().datatype().number(id.0.get().cast_signed());
    // Small IDs are as likely a small mistake.
    let tried = if number.magnitude() <= SMALL.into() { 8 * SMALL as usize } else { 2 };
    (case.off_by() == number)
        .then(|| case.hypothesis(Cause::CorridAdded, tried, Fit::NotKnown, Clue::TooHighById { id }))
}

/// The answer is that to the same step with END, or without it.
fn end_mistaken(case: &Case) -> Option<Hypothesis> {
    let mark = case.sum.datatype().number(Arithmetic::END_MARK);
    let to_end = !case.asked.step.end;
    let (mistaken, why) =
        if to_end { (mark, Cause::EndTold) } else { (mark.zero().wrapping_sub(mark), Cause::EndNotTold) };
    (case.known.arithmetic.formula.is_golden() && case.off_by() == mistaken)
        .then(|| Hypothesis::new(why, 1, Fit::NotKnown, [Clue::AnswerOfEnd { to_end }]))
}

/// How many bits a whole number of the type has; none where it is no type of whole numbers.
fn width(case: &Case) -> Option<u32> {
    let datatype = case.sum.datatype();
    let bits = u32::try_from(datatype.bytes() * 8).ok().filter(|bits| (8..=64).contains(bits))?;
    datatype.exact_bits().is_none().then_some(bits)
}

fn bit_flipped(case: &Case) -> Option<Hypothesis> {
    let width = width(case)?;
    let differing = (case.sum.value() ^ case.right().value()).cast_unsigned() << (u64::BITS - width);
    if differing.count_ones() != 1 || case.off_by().magnitude() <= SMALL.into() {
        return None;
    }
    let bit = differing.trailing_zeros() - (u64::BITS - width);
    let clue = Clue::OneBit { right: case.right(), bit };
    Some(case.hypothesis(Cause::BitFlipped, width as usize, Fit::NotKnown, clue))
}

fn saturated(case: &Case) -> Option<Hypothesis> {
    let (width, datatype) = (width(case)?, case.sum.datatype());
    let is_signed = datatype.number(-1).off_by(case.sum.zero()) < 0;
    let limits = if is_signed {
        [i64::MAX, i64::MIN].map(|limit| datatype.number(limit >> (u64::BITS - width)))
    } else {
        [datatype.number(-1); 2]
    };
    let is_at_the_limit = limits.iter().any(|limit| limit.value() == case.sum.value());
    // The state may have more bits than the answer.
    let fit = if case.if_taken() == Fit::Yes { Fit::Yes } else { Fit::NotKnown };
    is_at_the_limit.then(|| case.hypothesis(Cause::Saturated, 1, fit, Clue::AtTheLimit { answer: case.sum }))
}

fn not_executed(case: &Case) -> Option<Hypothesis> {
    let clue = Clue::StateBefore { state: case.before };
    let fit = case.if_taken_or_again(|next| case.sum.wrapping_sub(next));
    (case.sum == case.before).then(|| case.hypothesis(Cause::NotExecuted, 1, fit, clue))
}

/// A step found the sum of a later one, or an earlier one found this one's.
fn out_of_order(case: &Case) -> Vec<Hypothesis> {
    let (steps, here) = (case.own_steps(), case.spot.step);
    let found_later = (here + 1..steps.len()).find(|later| steps[*later].sum() == Some(case.base));
    let found_here = (0..here).find(|earlier| steps[*earlier].base() == Some(case.sum));
    let moved = found_later.map(|later| (here, later)).or(found_here.map(|earlier| (earlier, here)));
    let Some((late, early)) = moved else { return earlier_missing_or_later_there(case).into_iter().collect() };
    let number = |step: usize| steps[step].step.request.step + 1;
    let sum = steps[early].sum().unwrap_or(case.base);
    let clue = Clue::AfterALaterStep { late: number(late), early: number(early), sum };
    let why = if steps[early].step.end { Cause::EndBeforeLast } else { Cause::OutOfOrder };
    vec![Hypothesis::new(why, steps.len(), Fit::Yes, [clue])]
}

/// The sum has a later step's value in it, although that step's own answer does not show it.
fn earlier_missing_or_later_there(case: &Case) -> Option<Hypothesis> {
    let (steps, here) = (case.own_steps(), case.spot.step);
    let mut there = case.sum.zero();
    let last = steps.iter().enumerate().skip(here + 1).find(|(_, later)| {
        there = there.wrapping_add(later.step.value);
        there == case.off_by()
    });
    let (last, asked) = last.filter(|_| !case.off_by().is_zero())?;
    let clue = Clue::HasLaterValues { up_to: asked.step.request.step + 1 };
    let why = if asked.step.end && last == here + 1 { Cause::EndBeforeLast } else { Cause::OutOfOrder };
    Some(Hypothesis::new(why, steps.len() - here, Fit::NotKnown, [clue]))
}

/// The answer lacks the values of earlier steps.
fn effect_lost(case: &Case) -> Option<Hypothesis> {
    let (steps, here) = (case.own_steps(), case.spot.step);
    if case.asked.step.start {
        return None;
    }
    let missing = case.right().wrapping_sub(case.sum);
    let mut lost = missing.zero();
    let together = (0..here).rev().find(|earlier| {
        lost = lost.wrapping_add(steps[*earlier].step.value);
        lost == missing
    });
    let alone = (0..here).rev().find(|earlier| steps[*earlier].step.value == missing);
    let first = together.or(alone)?;
    let clue = Clue::LacksEarlierValues { back: here - first, missing };
    // The nearer, the fewer were tried. Where nothing is left the state may as well be reset.
    let tried = 2 * (here - first) - 1 + 2 * usize::from(case.base.is_zero());
    Some(case.hypothesis(Cause::EffectLost, tried, case.if_taken(), clue))
}

/// The step found the number of steps, which the server keeps in another state.
fn exchanged(case: &Case) -> Option<Hypothesis> {
    if !case.known.keeps_count || case.asked.step.start {
        return None;
    }
    let (steps, here) = (case.own_steps(), case.spot.step);
    let number = |number| case.base.datatype().number(number);
    // Where all steps find them exchanged, one more than the step before last was answered with is the number that the last one left.
    let left = here.checked_sub(2).and_then(|before_last| steps[before_last].sum());
    let counts = [Some(number(case.asked.step.request.step.into())), left.map(|sum| sum.wrapping_add(number(1)))];
    counts.contains(&Some(case.base)).then(|| {
        let clue = Clue::CountFound { found: case.base };
        case.hypothesis(Cause::ExchangedStates, counts.len(), case.if_taken(), clue)
    })
}

/// The step found no state.
fn reset(case: &Case) -> Vec<Hypothesis> {
    if case.asked.step.start || !case.base.is_zero() {
        return Vec::new();
    }
    let keyed = case.known.keyed_by_id;
    let fit = case.if_taken_or_again(Number::zero);
    let mut all = [(Cause::StateReset, 1), (Cause::StartTold, 2)]
        .map(|(cause, tried)| case.hypothesis(cause, tried, fit, Clue::OwnValue))
        .to_vec();
    if keyed {
        all.push(case.hypothesis(Cause::EndTold, 3, fit, Clue::OwnValueAsBehindEnd));
        let taken_by = others::who_found(case, case.before);
        // Where the step before was executed as another's, this one's own state is new, and stays.
        let fit = if taken_by.is_some() { Fit::Yes } else { case.if_elsewhere() };
        let hypothesis = case.hypothesis(Cause::CorridWrong, 4, fit, Clue::NoState);
        all.push(hypothesis.confirmed(u32::from(taken_by.is_some()), Clue::TakenByAnother));
        all.extend(end_came_first(case));
        // What the server allows comes first.
        all.splice(0..0, others::ended_by_another(case));
    }
    all.splice(0..0, start_dropped(case, 1));
    all
}

fn start_dropped(case: &Case, tried: usize) -> Option<Hypothesis> {
    start_may_be_dropped(case).then(|| {
        case.hypothesis(Cause::StartDropped, tried, case.if_taken(), Clue::StartUnanswered { found: case.base })
    })
}

/// The client cancelled START, and no step before this one was answered: so none may have been executed.
pub(super) fn start_may_be_dropped(case: &Case) -> bool {
    let before = &case.own_steps()[..case.spot.step];
    let is_cancelled = before.first().is_some_and(|first| first.step.start && first.given_up.is_some());
    is_cancelled && before.iter().all(|asked| asked.answer.is_none())
}

/// END was executed before its step before, and took the state away.
fn end_came_first(case: &Case) -> Option<Hypothesis> {
    let ends = case.story.next(case.spot).is_some_and(|next| next.step.end);
    (ends && case.if_elsewhere() == Fit::Yes)
        .then(|| case.hypothesis(Cause::EndBeforeLast, 1, Fit::Yes, Clue::EndFoundTheState))
}

/// What remains where nothing is known that explains it.
fn unexplained(case: &Case) -> Vec<Hypothesis> {
    let tried = 1 << case.story.bits.min(30);
    let follows_start = case.story.previous(case.spot).is_some_and(|previous| previous.step.start);
    let clue = Clue::NothingExplains { off_by: case.off_by() };
    let mut all = vec![case.hypothesis(Cause::Unexplained, tried, Fit::NotKnown, clue)];
    if case.asked.step.start && case.if_taken() == Fit::Yes {
        let clue = Clue::StartWentOn { from: case.base };
        all.push(case.hypothesis(Cause::StartNotTold, tried / 4, Fit::NotKnown, clue.clone()));
        all.push(case.hypothesis(Cause::StaleStateOfSlot, tried / 2, Fit::NotKnown, clue));
    }
    if follows_start && case.if_taken() == Fit::Yes {
        let clue = Clue::StartNotKept { found: case.base };
        all.insert(0, case.hypothesis(Cause::EffectLost, tried / 2, Fit::NotKnown, clue));
    }
    all.splice(0..0, start_dropped(case, tried / 4));
    all
}
