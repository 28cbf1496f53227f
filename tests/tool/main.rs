//! The tool, the library and the reference server. Nothing but `balancers` needs more than this repository and Rust.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod access_http;
mod affinity;
mod balancers;
mod ci;
mod claims;
mod cli;
mod client_faults;
mod compare;
mod controls;
mod correct;
mod detection;
mod embedded;
mod ensembles;
mod errors;
mod export;
mod files;
mod first_runs;
mod goaway;
mod golden;
mod goodput;
mod health;
mod history;
mod hostile;
mod layers;
mod limit;
mod mean_step;
mod metrics;
mod model_repository;
mod mutations;
mod network;
mod network_calls;
mod other_models;
#[cfg(feature = "otlp")]
mod otlp;
mod pacing;
mod pending;
mod phases;
mod proto;
#[cfg(unix)]
mod ranks;
mod recording;
mod reference;
mod reference_bad_input;
mod reference_decoupled;
mod reference_memory;
mod reference_types;
mod reference_without_formula;
mod replay;
mod report;
mod repository;
mod run;
mod search;
mod series;
mod simulate;
mod slots;
mod soak;
mod stub_killed;
mod suite;
mod thresholds;
mod transports;
#[cfg(unix)]
mod tui;
mod versions;
mod window;
mod words;
