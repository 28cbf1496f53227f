//! In which gaps between the acts of a failure it fails: each gap is made shorter and longer, and the failure is had again each time.

mod curve;
mod gaps;
mod search;

pub use self::{
    curve::{CONFIDENCE, Count, Curve, Point, Window},
    gaps::{Gap, Mark, gaps},
    search::{Came, Search, Trial},
};
