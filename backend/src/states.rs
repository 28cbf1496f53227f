//! The states that the server keeps of a sequence: what they hold, and whether what it gives is that.

#![forbid(unsafe_code)]

use crate::{
    accumulator::Total,
    spec::{Holds, State, StateTensor},
    tensor::{Arithmetic, Datatype, Number, Tensor},
};

/// A dimension of any size has at most so many elements; how many, the low bits of the sum say.
const OPEN_MAX: i64 = 64;

/// What is wrong with states, and the name of the tensor with which something is wrong by itself.
#[derive(Debug, PartialEq)]
pub(crate) struct Wrong {
    pub(crate) tensor: Option<usize>,
    pub(crate) text: String,
}

impl State {
    /// The first number of each state. Of a sequence that goes on, states that hold multiples have to be of one step, each in its place.
    ///
    /// # Errors
    /// What the server gives in place of the states.
    pub(crate) fn read(&self, given: &[Tensor], batches: bool, goes_on: bool) -> Result<Vec<Number>, Wrong> {
        let own: Vec<usize> = (0..given.len()).collect();
        let holds_copies = self.holds == Holds::Copies;
        let is_right = |order: &[usize]| self.are(given, order, batches, goes_on);
        if holds_copies && goes_on && !is_right(&own) {
            let order = orders(&own).into_iter().find(|order| is_right(order));
            order.map_or(Ok(()), |order| Err(self.exchanged(&order)))?;
        }
        let numbers = given.iter().enumerate().map(|(place, tensor)| {
            let of_tensor = |text| Wrong { tensor: Some(place), text };
            self.tensors[place].first(tensor, batches).map_err(of_tensor)
        });
        let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
        if holds_copies && (goes_on || self.has_initial) && !is_right(&own) {
            return Err(self.not_of_one_step(given, batches, goes_on));
        }
        Ok(numbers)
    }

    /// The states after a step, in the shapes of those that were given or, where these are open, of another size.
    pub(crate) fn after(&self, total: Total, given: &[Tensor], batches: bool) -> Vec<Tensor> {
        let after = |(place, (tensor, given)): (usize, (&StateTensor, &Tensor))| {
            let mut shape = given.shape.clone();
            if self.holds == Holds::Copies {
                shape.splice(usize::from(batches).., tensor.sizes(total.sum));
            }
            let count = shape.iter().product::<i64>();
            let data = tensor.arithmetic.repeat(self.content(place, total), usize::try_from(count).unwrap_or(0));
            Tensor { datatype: tensor.arithmetic.datatype(), shape, data }
        };
        self.tensors.iter().zip(given).enumerate().map(after).collect()
    }

    fn content(&self, place: usize, total: Total) -> Number {
        match (place, self.holds) {
            (0, _) => total.sum,
            (_, Holds::Count) => total.count,
            (_, Holds::Copies) => self.tensors[place].arithmetic.times(total.sum, factor(place)),
        }
    }

    /// Whether each tensor is the state that `order` has in its place.
    fn are(&self, given: &[Tensor], order: &[usize], batches: bool, has_sizes: bool) -> bool {
        let sum = order.iter().position(|state| *state == 0).map(|place| &given[place]);
        let Some(Ok(sum)) = sum.map(|tensor| self.tensors[0].first(tensor, batches)) else { return false };
        order.iter().zip(given).all(|(state, tensor)| self.is(*state, tensor, sum, batches, has_sizes))
    }

    /// Whether a tensor is one of the states of a sequence with this sum.
    fn is(&self, state: usize, given: &Tensor, sum: Number, batches: bool, has_sizes: bool) -> bool {
        let tensor = &self.tensors[state];
        let arithmetic = tensor.arithmetic;
        let Ok(elements) = arithmetic.kept(given) else { return false };
        // As bytes, because a number that is none is not equal to itself.
        let bytes = |number| arithmetic.repeat(number, 1);
        let wanted = bytes(self.content(state, Total { sum, count: sum }));
        let has_its_size = !has_sizes || given.shape.ends_with(&tensor.sizes(sum));
        tensor.may_be(&given.shape, batches) && has_its_size && elements.into_iter().all(|own| bytes(own) == wanted)
    }

    fn exchanged(&self, order: &[usize]) -> Wrong {
        let moved = order.iter().enumerate().filter(|(place, state)| place != *state);
        let input = |place: usize| &self.tensors[place].input;
        let each = moved.map(|(place, state)| format!("'{}' holds '{}'", input(place), input(*state)));
        Wrong { tensor: None, text: format!("states are exchanged: {}", each.collect::<Vec<_>>().join(", ")) }
    }

    fn not_of_one_step(&self, given: &[Tensor], batches: bool, has_sizes: bool) -> Wrong {
        let first =
            |place: usize| self.tensors[place].first(&given[place], batches).unwrap_or_else(|_| self.zero(place));
        let sum = first(0);
        let is_wrong = |place: &usize| !self.is(*place, &given[*place], sum, batches, has_sizes);
        let place = (0..given.len()).find(is_wrong).unwrap_or_default();
        let tensor = &self.tensors[place];
        let text = format!(
            "states are not of one step: '{}' is {sum}, so that '{}' has to be {} of dims {:?}, and it is {} of shape {:?}",
            self.tensors[0].input,
            tensor.input,
            self.content(place, Total { sum, count: sum }),
            tensor.sizes(sum),
            first(place),
            given[place].shape,
        );
        Wrong { tensor: None, text }
    }

    fn zero(&self, place: usize) -> Number {
        self.tensors[place].arithmetic.zero()
    }
}

impl StateTensor {
    /// The first number of what the server gives.
    fn first(&self, given: &Tensor, batches: bool) -> Result<Number, String> {
        if !self.may_be(&given.shape, batches) {
            return Err(format!("the server gives it the shape {:?}, and its dims are {:?}", given.shape, self.dims()));
        }
        let elements = self.arithmetic.kept(given)?;
        elements.first().copied().ok_or_else(|| "it is empty".to_owned())
    }

    /// Its sizes after a step that came to this sum.
    fn sizes(&self, sum: Number) -> Vec<i64> {
        let whole = Arithmetic::of(Datatype::Int64).map(|int64| int64.times(sum, 1));
        let low = if let Some(Number::Integer(whole)) = whole { whole.rem_euclid(OPEN_MAX) } else { 0 };
        self.dims().iter().map(|size| if *size < 0 { 1 + low } else { *size }).collect()
    }
}

/// By what the sum is multiplied in the state at this place: odd, so that no integer loses a bit, and different in each.
fn factor(place: usize) -> usize {
    2 * place + 1
}

/// All orders of some places.
fn orders(places: &[usize]) -> Vec<Vec<usize>> {
    let [first, rest @ ..] = places else { return vec![Vec::new()] };
    let with_first = |order: Vec<usize>| {
        (0..=order.len()).map(move |at| {
            let mut order = order.clone();
            order.insert(at, *first);
            order
        })
    };
    orders(rest).into_iter().flat_map(with_first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_is_there_once() {
        let mut all = orders(&[0, 1, 2]);
        assert_eq!(all.len(), 6);
        all.sort();
        all.dedup();
        assert_eq!((all.len(), &all[0][..], &all[5][..]), (6, &[0, 1, 2][..], &[2, 1, 0][..]));
    }
}
