//! Small computation graphs as model files: ONNX, OpenVINO IR, TensorFlow (SavedModel and GraphDef) and TorchScript.
//!
//! A [`Graph`](graph::Graph) goes in, made with a [`GraphBuilder`](builder::GraphBuilder) or of one of the [`formulas`]; the bytes of
//! files come out, the same for the same graph. No runtime of any format is needed, or used. The modules stand in the order in which
//! each uses only those above it.

pub mod element;
pub mod error;
pub mod shape;

pub mod graph;

pub mod builder;

mod archive;
mod decimal;
pub mod formulas;
mod widening;

pub mod onnx;
pub mod openvino;
pub mod tensorflow;
pub mod torchscript;

pub mod format;
