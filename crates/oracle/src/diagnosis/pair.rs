//! A step that went on from the state of another sequence: how the two came to be mixed.

use super::{
    Cause, Clue,
    hypothesis::{Fit, Hypothesis},
    others::who_left,
    story::{Asked, Spot},
    sums::Case,
};
use crate::ms;
use workload::number::Number;

/// What may explain that a step found the state of a sequence of another ID, or of one that is long over.
pub(super) fn explain(case: &Case, other: Spot) -> Vec<Hypothesis> {
    let pair = Pair::new(case, other);
    if pair.swapped() {
        let swapped = pair.hypothesis(Cause::SwappedStates, Fit::Yes);
        return vec![swapped.confirmed(1, Clue::ThatWentOnFromThis)];
    }
    [pair.wrong_id(), pair.shared(), Some(pair.leaked())].into_iter().flatten().collect()
}

/// A step, and the other sequence's step after which the state was what it found.
struct Pair<'p> {
    case: &'p Case<'p>,
    other: Spot,
    their: &'p Asked<'p>,
    /// What the other sequence's next step found.
    found_next: Option<Number>,
    /// How many states were nearer in time.
    tried: usize,
}

impl<'p> Pair<'p> {
    fn new(case: &'p Case, other: Spot) -> Self {
        let story = case.story;
        let their = story.asked(other);
        let tried = story.nearer(case.spot.sequence, case.at, their.at());
        Self { case, other, their, found_next: story.found_next(other), tried }
    }

    /// The other one went on from this one's state.
    fn swapped(&self) -> bool {
        self.found_next == Some(self.case.before) && !self.was_on_mine()
    }

    /// The other one went on from this one's answer.
    fn went_on_from_mine(&self) -> bool {
        self.found_next == Some(self.case.sum)
    }

    /// The other step was executed on this one's state, and not on its own.
    fn was_on_mine(&self) -> bool {
        let previous = self.case.story.previous(self.other);
        let own = previous.and_then(|previous| previous.sum().or(previous.right));
        !self.their.step.start && self.their.base() == Some(self.case.before) && own != self.their.base()
    }

    /// The other one went on as if nothing had been.
    fn untouched(&self) -> bool {
        self.found_next.is_some() && self.found_next == self.their.sum().or(self.their.right)
    }

    /// The other step left its state here, and not with its own sequence, which went on without.
    fn left_it_here(&self) -> bool {
        self.found_next.is_some() && !self.untouched() && !self.went_on_from_mine()
    }

    /// This sequence went on as if the step had not been.
    fn mine_elsewhere(&self) -> bool {
        self.case.after == Some(self.case.before)
    }

    /// The next step of this sequence found another one's state again.
    fn found_anothers_again(&self) -> bool {
        let case = self.case;
        let known = [case.sum, case.right(), case.before, case.before.zero()];
        case.after.is_some_and(|after| !known.contains(&after) && !who_left(case, after).is_empty())
    }

    fn hypothesis(&self, why: Cause, fit: Fit) -> Hypothesis {
        let told = self.case.story.told(self.other);
        let clue = Clue::StateOf {
            state: self.case.base,
            step: self.their.step.request.step + 1,
            sequence: told.id(),
            id: told.correlation_id,
        };
        Hypothesis::new(why, self.tried, fit, [clue, self.case.went_on()])
    }

    fn wrong_id(&self) -> Option<Hypothesis> {
        let signs = [self.mine_elsewhere(), self.was_on_mine(), self.went_on_from_mine(), self.left_it_here()];
        let times = u32::try_from(signs.iter().filter(|sign| **sign).count()).expect("four at most");
        let fits = times > 0 || self.found_anothers_again();
        let wrong_id = || self.hypothesis(Cause::CorridWrong, Fit::of(fits.then_some(true)));
        // The same ID in another version of the model is no other ID.
        let id = |spot| &self.case.story.told(spot).correlation_id;
        let keyed = self.case.known.keyed_by_id && id(self.other) != id(self.case.spot);
        keyed.then(|| wrong_id().confirmed(times, Clue::BothUsedTheState))
    }

    fn is_shared(&self) -> bool {
        let goes_on = self.went_on_from_mine() || (self.was_on_mine() && !self.untouched());
        goes_on && !self.mine_elsewhere()
    }

    fn shared(&self) -> Option<Hypothesis> {
        let cut = self.case.story.cut_before(self.case.at);
        // A slot that a cancel gave back may be given back again; where the other one has no later step nothing speaks against it.
        let fit = match self.is_shared() {
            true => Fit::Yes,
            false if self.found_next.is_none() && cut.is_some() => Fit::NotKnown,
            false => return None,
        };
        let times = u32::from(self.went_on_from_mine());
        let shared = self.hypothesis(Cause::SharedState, fit);
        let mut shared = shared.confirmed(times, Clue::ThatWentOnFromTheAnswer);
        if let Some(cut) = cut {
            let ms = ms(self.case.at - cut.at);
            shared.clues.push(Clue::AfterACancel { context: cut.context, ms });
        }
        Some(shared)
    }

    fn leaked(&self) -> Hypothesis {
        let keyed = self.case.known.keyed_by_id;
        let fit = if self.is_shared() { Fit::No } else { self.case.if_taken() };
        // Without a later answer of its own a step of another ID looks the same, where there are IDs.
        let telling = self.untouched() && (!keyed || fit == Fit::Yes);
        let mut leaked = self.hypothesis(Cause::LeakedState, fit);
        leaked.tried *= if keyed { 2 } else { 1 };
        leaked.confirmed(telling.into(), Clue::ThatWentOnUntouched)
    }
}
