//! The files that the writers make: their bytes, and what a runtime computes with them.

mod bytes;
mod networks;
mod rten;
