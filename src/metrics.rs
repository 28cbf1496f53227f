//! What runs of this process have counted and measured, for systems that watch many things: as families of metrics, which one program
//! fetches and another is sent.

mod exposition;
mod families;
mod server;
mod values;
mod watching;

pub(crate) use self::{server::Exporter, values::Metrics, watching::Watching};
