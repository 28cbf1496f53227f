//! The conversations that were written by hand, by theme.

pub(crate) mod basics;
pub(crate) mod batches;
pub(crate) mod calls;
pub(crate) mod cancel;
pub(crate) mod delays;
pub(crate) mod idle;
pub(crate) mod ids;
pub(crate) mod inputs;
pub(crate) mod lifecycle;
pub(crate) mod slots;

use crate::setup::Setup;

/// A strategy's name, and a model that has it.
type Kind = (&'static str, fn() -> Setup);

/// A model of one instance with two slots, under each strategy.
fn both() -> [Kind; 2] {
    [("direct", || Setup::direct().batch(2)), ("oldest", || Setup::oldest().batch(2).candidates(2))]
}

/// A model of one slot, under each strategy.
fn both_with_one_slot() -> [Kind; 2] {
    [("direct", || Setup::direct().batch(1)), ("oldest", || Setup::oldest().batch(1).candidates(1))]
}
