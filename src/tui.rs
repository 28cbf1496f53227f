//! A view of a run while it goes on, for a terminal: what is shown, keys that change it, and how it is drawn. No input or output.

mod chart;
mod draw;
mod keys;
mod layout;
mod paint;
mod panes;
mod state;

pub(crate) use self::{
    draw::draw,
    keys::Wish,
    paint::Look,
    state::{About, Judged, News, Stage, State},
};

#[cfg(test)]
mod tests;
