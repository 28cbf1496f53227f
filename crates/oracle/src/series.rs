//! Whether the responses of a decoupled model to one request are what it has to give, together.

use super::{
    Evidence, ViolationKind,
    golden::{Golden, Reading},
    observation::Observation,
    stream::Request,
};
use workload::{
    answers::Answers,
    event::{Response, Series},
    number::Number,
    sequence::Step,
};

/// The most responses that an order is looked for in, and of which a violation has the sums.
const LOOKED_AT_MAX: usize = 64;

impl Observation<'_> {
    /// The number that the first response to a request holds; none, and a violation, where a response is not as it should be, or
    /// where the responses do not tell it together.
    pub(super) fn number_of(&mut self, request: &Request, first: &Response) -> Option<Number> {
        let answers = self.rules.arithmetic.answers;
        if let Some(golden) = &self.rules.golden {
            return self.state_of(request, first, golden);
        }
        if !answers.are_series() {
            return self.sum_of(request, first);
        }
        let step = &request.step;
        let Series { further, is_unfinished, .. } = &first.series;
        let came = if first.is_empty() { 0 } else { 1 + further.len() };
        let count = answers.count() as usize;
        if came != count || *is_unfinished {
            let kind = if came > count { ViolationKind::Duplicate } else { ViolationKind::Lost };
            let evidence = Evidence::Responses { expected: count, seen: came, is_unfinished: *is_unfinished };
            self.violation(kind, Some(step), evidence);
            return None;
        }
        let all = std::iter::once(first).chain(further);
        let numbers = all.map(|response| self.sum_of(request, response)).collect::<Option<Vec<_>>>()?;
        let told = Told { answers, step, numbers: &numbers };
        let Some(first) = told.first() else {
            self.violation(ViolationKind::WrongSum, Some(step), told.beside_those_from(numbers[0]));
            return None;
        };
        if told.is_in_another_order(first) {
            self.violation(ViolationKind::Reordered, Some(step), told.beside_those_from(first));
        } else {
            for (number, seen) in (0..).zip(&numbers).filter(|(number, seen)| told.nth(first, *number) != **seen) {
                let expected = told.nth(first, number);
                let evidence = Evidence::SumOfResponse { response: number + 1, of: count, expected, seen: *seen };
                self.violation(ViolationKind::WrongSum, Some(step), evidence);
            }
        }
        Some(first)
    }
}

impl Observation<'_> {
    /// The state that the responses of a model without a formula belong to; none, and a violation, where one is not of the form that it has
    /// to be, and none where they belong to no state that is known.
    fn state_of(&mut self, request: &Request, first: &Response, golden: &Golden) -> Option<Number> {
        let step = &request.step;
        let mut is_well_formed = true;
        // Where a request has one response, one without outputs tells of no end.
        let is_empty = !self.rules.arithmetic.answers.are_series() && first.outputs.is_empty();
        for response in first.all().chain(is_empty.then_some(first)) {
            self.is_of_the_model(step, response);
            is_well_formed &= self.has_outputs_of(step, response, golden);
        }
        if first.series.is_unfinished {
            let (seen, count) = (first.all().count(), golden.most_responses());
            let evidence = Evidence::Responses { expected: count, seen, is_unfinished: true };
            self.violation(ViolationKind::Lost, Some(step), evidence);
        }
        if !is_well_formed || first.series.is_unfinished {
            return None;
        }
        let expected = self.id.expected(request.lane, Some(step.request), self.rules).into_iter().flatten();
        match golden.read(expected, first.all()) {
            Reading::State(sum) => Some(sum),
            Reading::Ambiguous | Reading::Unlike(_) | Reading::Malformed => None,
        }
    }
}

/// The numbers of the responses to a step, in the order in which they came.
struct Told<'t> {
    answers: Answers,
    step: &'t Step,
    numbers: &'t [Number],
}

impl Told<'_> {
    /// The number of a response, counted from 0, where that of the first is this.
    fn nth(&self, first: Number, number: u32) -> Number {
        first.wrapping_add(self.answers.besides(number, self.step.value))
    }

    /// The first number, as most of them have it, or as all of them have it in another order.
    fn first(&self) -> Option<Number> {
        let bases: Vec<_> = (0..)
            .zip(self.numbers)
            .map(|(number, seen)| seen.wrapping_sub(self.answers.besides(number, self.step.value)))
            .collect();
        let most = |base: &&Number| 2 * bases.iter().filter(|other| other == base).count() > bases.len();
        bases.iter().take(LOOKED_AT_MAX).find(most).copied().or_else(|| {
            let candidates = self.numbers.iter().take(LOOKED_AT_MAX);
            candidates.copied().find(|first| self.is_in_another_order(*first))
        })
    }

    fn is_in_another_order(&self, first: Number) -> bool {
        let sorted = |numbers: &mut dyn Iterator<Item = Number>| {
            let mut numbers: Vec<_> = numbers.map(Number::value).collect();
            numbers.sort_unstable();
            numbers
        };
        let right = || (0..self.answers.count()).map(|number| self.nth(first, number));
        self.numbers.len() <= LOOKED_AT_MAX
            && !right().eq(self.numbers.iter().copied())
            && sorted(&mut right()) == sorted(&mut self.numbers.iter().copied())
    }

    /// What came beside what has to come where the first is this; of very many the first ones.
    fn beside_those_from(&self, first: Number) -> Evidence {
        let right = (0..self.answers.count()).map(|number| self.nth(first, number));
        Evidence::Sums {
            expected: right.take(LOOKED_AT_MAX).collect(),
            seen: self.numbers.iter().copied().take(LOOKED_AT_MAX).collect(),
        }
    }
}
