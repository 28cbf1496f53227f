//! States that hold multiples of one sum, and what they tell of a server that gives others.

use super::super::{
    number::Number,
    spec::{Spec, StateSpec, first_number},
    tensor::{Datatype, Tensor},
};

/// The factor by which the first state is multiplied in each: odd, so that an integer loses nothing.
const FACTORS: [u32; 4] = [1, 3, 5, 7];
/// How many elements there may be of a state that has any number of them.
const OPEN_SIZES: i64 = 64;

/// How many states there may be.
pub(in super::super) const STATES_MAX: usize = FACTORS.len();

/// The number in the state at a place, where the sum is this.
pub(super) fn multiple(spec: &Spec, place: usize, sum: Number) -> Number {
    let datatype = spec.states[place].tensor.datatype;
    sum.times(datatype, FACTORS[place]).expect("it was checked that states have numbers")
}

/// How many elements a state of open shape has, where the sum is this.
pub(super) fn open_size(sum: Number) -> i64 {
    match sum.times(Datatype::Int64, 1) {
        Some(Number::Whole(_, whole)) => 1 + i64::try_from(whole.rem_euclid(OPEN_SIZES.into())).unwrap_or(0),
        _ => 1,
    }
}

/// Whether the server may give a state in this type and shape.
fn may_be(spec: &Spec, state: &StateSpec, given: &Tensor) -> bool {
    let dims = given.shape.get(usize::from(spec.batches())..).unwrap_or_default();
    let fits = |(is, wanted): (&i64, &i64)| *wanted < 0 || is == wanted;
    let wanted = &state.tensor.dims;
    given.datatype == state.tensor.datatype && dims.len() == wanted.len() && dims.iter().zip(wanted).all(fits)
}

/// Looks whether the states of one sequence are of the declared types and shapes and, where they hold multiples, of one step.
///
/// # Errors
/// What they are instead.
pub(super) fn check(spec: &Spec, given: &[&Tensor], start: bool) -> Result<(), String> {
    let copies = spec.parameters.holds_copies;
    let in_order: Vec<usize> = (0..given.len()).collect();
    let is_sound = |order: &[usize]| fits(spec, given, order, !start);
    let is_right = !copies || is_sound(&in_order);
    if !is_right
        && !start
        && let Some(order) = permutations(given.len()).into_iter().find(|order| is_sound(order))
    {
        let moved = order.iter().enumerate().filter(|(place, state)| place != *state);
        let name = |place: usize| &spec.states[place].tensor.name;
        let moved: Vec<_> = moved.map(|(place, state)| format!("'{}' holds '{}'", name(place), name(*state))).collect();
        return Err(format!("states are exchanged: {}", moved.join(", ")));
    }
    for (state, given) in spec.states.iter().zip(given) {
        let name = &state.tensor.name;
        if given.datatype != state.tensor.datatype {
            return Err(format!("tensor '{name}': it is {} and not {}", given.datatype, state.tensor.datatype));
        }
        if !may_be(spec, state, given) {
            let (is, dims) = (&given.shape, &state.tensor.dims);
            return Err(format!("tensor '{name}': the server gives it the shape {is:?}, and its dims are {dims:?}"));
        }
    }
    // Without an initial state START finds anything.
    let is_defined = !start || spec.begins_with_given_states();
    if !is_right && is_defined { Err(not_of_one_step(spec, given, !start)) } else { Ok(()) }
}

/// Whether each given tensor is the state that `order` names for its place.
fn fits(spec: &Spec, given: &[&Tensor], order: &[usize], has_sizes: bool) -> bool {
    let sums = order.iter().zip(given).find(|(state, _)| **state == 0);
    let Some(sum) = sums.and_then(|(_, tensor)| sum_of(spec, tensor)) else { return false };
    order.iter().zip(given).all(|(state, tensor)| holds(spec, *state, tensor, sum, has_sizes))
}

fn sum_of(spec: &Spec, tensor: &Tensor) -> Option<Number> {
    may_be(spec, &spec.states[0], tensor).then(|| first_number(tensor.datatype, &tensor.data)).flatten()
}

fn holds(spec: &Spec, place: usize, given: &Tensor, sum: Number, has_sizes: bool) -> bool {
    let state = &spec.states[place];
    if !may_be(spec, state, given) {
        return false;
    }
    let dims = state.tensor.dims.iter().map(|size| if *size < 0 { open_size(sum) } else { *size });
    if has_sizes && !given.shape.ends_with(&dims.collect::<Vec<_>>()) {
        return false;
    }
    let element = multiple(spec, place, sum).to_le_bytes();
    let count = usize::try_from(given.shape.iter().product::<i64>()).unwrap_or(0);
    // A server's zeros of texts have no digits.
    let empty = given.datatype == Datatype::Bytes && sum.is_zero() && given.data == [0; 4].repeat(count);
    given.data == element.repeat(count) || empty
}

fn not_of_one_step(spec: &Spec, given: &[&Tensor], has_sizes: bool) -> String {
    let name = |place: usize| &spec.states[place].tensor.name;
    let first = sum_of(spec, given[0]).unwrap_or_else(|| spec.number(0));
    let wrong =
        (0..given.len()).find(|place| !holds(spec, *place, given[*place], first, has_sizes)).unwrap_or_default();
    let is = first_number(given[wrong].datatype, &given[wrong].data);
    format!(
        "states are not of one step: '{}' is {first}, so that '{}' has to be {} of size {}, and it is {} of shape {:?}",
        name(0),
        name(wrong),
        multiple(spec, wrong, first),
        open_size(first),
        is.map_or("no number".to_owned(), |number| number.to_string()),
        given[wrong].shape,
    )
}

/// The orders in which so many things can be.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..count {
        let longer = |order: &Vec<usize>| {
            let missing = (0..count).filter(|one| !order.contains(one));
            missing.map(|one| [&order[..], &[one]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}
