//! What runs of this process have counted and measured, for systems that watch many things: as families of metrics, which one program
//! fetches and another is sent.

mod exposition;
mod families;
#[cfg(feature = "otlp")]
mod otlp;
mod server;
mod values;
mod watching;

#[cfg(feature = "otlp")]
pub(crate) use self::otlp::Otlp;
pub(crate) use self::{server::Exporter, values::Metrics, watching::Watching};
