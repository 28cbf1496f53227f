//! The conversations that were written by hand, by theme.

pub(crate) mod basics;
pub(crate) mod batches;
pub(crate) mod calls;
pub(crate) mod cancel;
pub(crate) mod delays;
pub(crate) mod idle;
pub(crate) mod ids;
pub(crate) mod implicit;
pub(crate) mod inputs;
pub(crate) mod lifecycle;
pub(crate) mod over;
pub(crate) mod slots;
pub(crate) mod types;
pub(crate) mod versions;

use crate::{conversation::OnPython, setup::Setup};

/// Of conversations on state that the server keeps.
pub(crate) const NO_STATE: OnPython = OnPython::Not("the Python backend of this release keeps no implicit state");
/// Of conversations with models that are told texts as correlation IDs.
pub(crate) const NO_TEXTS: OnPython =
    OnPython::Not("the Python backend of this release rejects such a control, or dies of it");

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
