//! Model repositories: the sequence models that Triton's own tests have, and those that this project tests itself with, for every
//! backend of the server; their names, their configurations and their files.

mod backend;
mod config;
mod dtype;
mod family;
mod matrix;
mod model;
mod options;
mod tensorrt;
pub mod text;
mod write;

pub use backend::Backend;
pub use dtype::Dtype;
pub use family::{Family, Form};
pub use matrix::{Made, Matrix};
pub use model::Model;
pub use options::{ControlType, CorridType, Extra, InitialState, ModelOptions, Options};
pub use write::{Written, make_plans, write};
