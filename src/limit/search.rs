//! Which load is tried next, and where the limit is.

/// How often the loads on both sides of the limit are tried, and how often where one trial differs from the others.
const REPEATS: u32 = 3;
const REPEATS_MAX: u32 = 5;
/// How many trials there are at most, where noise lets no load be judged twice alike.
const TRIALS_MAX: u32 = 60;
/// How much higher the next load is while the server has taken each.
const RISE: f64 = 2.0;

/// What a load's trials came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tries {
    sustained: u32,
    overloaded: u32,
}

/// What they say of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaning {
    Untried,
    Sustained,
    Overloaded,
    /// They contradict each other.
    Unclear,
}

impl Tries {
    fn count(self) -> u32 {
        self.sustained + self.overloaded
    }

    /// How many differ from the others.
    fn odd(self) -> u32 {
        self.sustained.min(self.overloaded)
    }

    fn leaning(self) -> Leaning {
        match (self.count(), self.odd()) {
            (0, _) => Leaning::Untried,
            (REPEATS_MAX.., 2..) => Leaning::Unclear,
            _ if self.sustained == self.overloaded => Leaning::Unclear,
            _ if self.sustained > self.overloaded => Leaning::Sustained,
            _ => Leaning::Overloaded,
        }
    }

    /// Whether there were enough, and one differed at most.
    fn is_sure(self) -> bool {
        self.count() >= REPEATS && self.odd() == 0 || self.count() >= REPEATS_MAX && self.odd() == 1
    }

    /// Whether one more would say more.
    fn is_open(self) -> bool {
        self.count() < REPEATS_MAX && !self.is_sure()
    }
}

/// A search for the highest of some loads that is sustained. A load whose trials contradict each other is neither sustained nor too much:
/// the result is a bracket around it.
#[derive(Debug)]
pub struct Search {
    loads: Vec<f64>,
    tries: Vec<Tries>,
}

/// Where the limit is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The highest load that was sustained, below each that was not; none where that was none.
    pub sustained: Option<f64>,
    /// The lowest load that was too much, above each that was not; none where that was none.
    pub overloaded: Option<f64>,
    /// Whether both were so three times of three, or four of five.
    pub is_sure: bool,
}

impl Search {
    /// A search that has tried nothing, among loads in rising order.
    ///
    /// # Panics
    /// Without a load.
    pub fn among(loads: Vec<f64>) -> Self {
        assert!(!loads.is_empty(), "there is a load");
        Self { tries: vec![Tries::default(); loads.len()], loads }
    }

    /// The load to be tried next; none where the limit is known, or cannot be known better.
    pub fn next(&self) -> Option<f64> {
        if self.tries.iter().map(|tries| tries.count()).sum::<u32>() >= TRIALS_MAX {
            return None;
        }
        let is_tried = |place: &usize| self.tries[*place].count() > 0;
        let all = 0..self.loads.len();
        let Some(highest) = all.clone().rev().find(is_tried) else { return self.loads.first().copied() };
        let is_contradicted = |place: &usize| self.tries[*place].odd() > 0 && self.tries[*place].is_open();
        if let Some(place) = all.clone().find(is_contradicted) {
            return Some(self.loads[place]);
        }
        let (below, above) = (self.below(), self.above());
        let place = if above.is_none() && highest + 1 < self.loads.len() {
            let wanted = self.loads[highest] * RISE;
            let next = self.loads.iter().position(|load| *load >= wanted).unwrap_or(self.loads.len() - 1);
            Some(next.max(highest + 1))
        } else {
            // Between the two there may be loads whose trials differ; nearer to them the bracket may be narrower.
            let halfway = |low: usize, high: usize| (high - low > 1).then(|| usize::midpoint(low, high));
            let upwards = below.and_then(|below| halfway(below, (below + 1..all.end).find(is_tried)?));
            let downwards = above.and_then(|above| halfway((0..above).rev().find(is_tried)?, above));
            let repeat = |place: usize| self.tries[place].is_open().then_some(place);
            upwards.or(downwards).or_else(|| below.and_then(repeat)).or_else(|| above.and_then(repeat))
        };
        place.map(|place| self.loads[place])
    }

    /// Takes in a trial.
    ///
    /// # Panics
    /// When the load is none of those that are searched.
    pub fn tell(&mut self, load: f64, is_sustained: bool) {
        let place = self.loads.iter().position(|its| its.total_cmp(&load).is_eq()).expect("one of the loads");
        let tries = &mut self.tries[place];
        if is_sustained {
            tries.sustained += 1;
        } else {
            tries.overloaded += 1;
        }
    }

    /// What is known of the limit.
    pub fn bracket(&self) -> Bracket {
        let (below, above) = (self.below(), self.above());
        let is_sure = |place: Option<usize>| place.is_none_or(|place| self.tries[place].is_sure());
        Bracket {
            sustained: below.map(|place| self.loads[place]),
            overloaded: above.map(|place| self.loads[place]),
            is_sure: is_sure(below) && is_sure(above),
        }
    }

    /// The highest load that was sustained, below each that was not.
    fn below(&self) -> Option<usize> {
        let leanings: Vec<_> = self.tries.iter().map(|tries| tries.leaning()).collect();
        let is_bad = |leaning: &Leaning| matches!(leaning, Leaning::Overloaded | Leaning::Unclear);
        let first_bad = leanings.iter().position(is_bad).unwrap_or(leanings.len());
        leanings[..first_bad].iter().rposition(|leaning| *leaning == Leaning::Sustained)
    }

    /// The lowest load that was too much, above each that was not.
    fn above(&self) -> Option<usize> {
        let leanings: Vec<_> = self.tries.iter().map(|tries| tries.leaning()).collect();
        let is_good = |leaning: &Leaning| matches!(leaning, Leaning::Sustained | Leaning::Unclear);
        let behind_good = leanings.iter().rposition(is_good).map_or(0, |place| place + 1);
        leanings[behind_good..]
            .iter()
            .position(|leaning| *leaning == Leaning::Overloaded)
            .map(|place| behind_good + place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads() -> Vec<f64> {
        (1..=100).map(f64::from).collect()
    }

    /// Searches with a server that takes a load if `takes` says so of it and of the number of the trial.
    fn searched(loads: Vec<f64>, mut takes: impl FnMut(f64, u32) -> bool) -> (Bracket, u32) {
        let (mut search, mut trials) = (Search::among(loads), 0);
        while let Some(load) = search.next() {
            search.tell(load, takes(load, trials));
            trials += 1;
        }
        (search.bracket(), trials)
    }

    #[test]
    fn a_clear_limit_is_found_between_two_neighbours_in_few_trials() {
        for limit in 1..100 {
            let limit = f64::from(limit);
            let (bracket, trials) = searched(loads(), |load, _| load <= limit);
            let expected = Bracket { sustained: Some(limit), overloaded: Some(limit + 1.0), is_sure: true };
            assert_eq!(bracket, expected);
            assert!(trials <= 18, "{trials} trials for {limit}");
        }
    }

    #[test]
    fn a_limit_outside_of_the_range_is_said_to_be_there() {
        let (bracket, trials) = searched(loads(), |_, _| true);
        assert_eq!((bracket, trials), (Bracket { sustained: Some(100.0), overloaded: None, is_sure: true }, 10));
        let (bracket, trials) = searched(loads(), |_, _| false);
        assert_eq!((bracket, trials), (Bracket { sustained: None, overloaded: Some(1.0), is_sure: true }, 3));
        let (bracket, trials) = searched(vec![7.0], |_, _| true);
        assert_eq!((bracket, trials), (Bracket { sustained: Some(7.0), overloaded: None, is_sure: true }, 3));
    }

    #[test]
    fn noise_widens_the_bracket_and_does_not_move_it() {
        // From 40 to 50 chance decides, and one trial in thirty fails below.
        let mut chance = 1_u64;
        for round in 0..200 {
            let mut draw = |of: u64| {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (chance >> 33) % of
            };
            let (Bracket { sustained, overloaded, .. }, trials) = searched(loads(), |load, _| match load {
                load if load < 40.0 => draw(30) > 0,
                load if load > 50.0 => false,
                _ => draw(2) == 0,
            });
            let (sustained, overloaded) = (sustained.unwrap_or(0.0), overloaded.expect("a load that is too much"));
            assert!(sustained <= 50.0 && (40.0..=51.0).contains(&overloaded), "{round}: {sustained} {overloaded}");
            assert!(sustained < overloaded && trials <= TRIALS_MAX, "{round}: {trials}");
        }
    }

    #[test]
    fn without_any_order_it_ends_all_the_same() {
        let (bracket, trials) = searched(loads(), |load, trial| (load.to_bits() ^ u64::from(trial)) % 3 == 0);
        assert!(trials <= TRIALS_MAX, "{bracket:?}");
    }
}
