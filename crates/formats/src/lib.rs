//! Small computation graphs as model files: ONNX, OpenVINO IR, TensorFlow (SavedModel and GraphDef) and TorchScript.
//!
//! A [`Graph`](graph::Graph) goes in, made with a [`GraphBuilder`](builder::GraphBuilder), of one of the [`formulas`] or of one of the
//! [`networks`]; the bytes of files come out, the same for the same graph. No runtime of any format is needed, or used. The modules
//! stand in the order in which each uses only those above it.
//!
//! ```
//! use formats::{
//!     format::Format,
//!     formulas::{Formula, Options, graph},
//! };
//!
//! let sum = graph(Formula::Stateful { initial: 0 }, &Options { batch: Some(8), ..Options::default() })?;
//! let files = Format::TorchScript.files(&sum)?;
//! assert_eq!(files[0].name, "model.pt");
//! let rejection = Format::Onnx.files(&sum).unwrap_err();
//! assert!(rejection.starts_with("ONNX: a graph keeps nothing"));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

pub mod element;
pub mod shape;

pub mod graph;

pub mod builder;

mod archive;
mod decimal;
pub mod formulas;
pub mod networks;
mod widening;

mod onnx;
mod openvino;
mod tensorflow;
mod torchscript;

pub mod format;
