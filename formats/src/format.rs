//! The formats, and what their files are called.

use crate::{error::Refusal, graph::Graph, onnx};

/// A file, by its name within the folder of a model; folders in it are set apart by `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A format of model files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// ONNX.
    Onnx,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::Onnx];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Onnx => "onnx",
        }
    }

    /// The files of a graph.
    ///
    /// # Errors
    /// When the format does not take the graph: one of its types, or state.
    pub fn files(self, graph: &Graph) -> Result<Vec<File>, Refusal> {
        let one = |name, bytes| vec![File { name, bytes }];
        match self {
            Self::Onnx => onnx::model(graph).map(|bytes| one("model.onnx", bytes)),
        }
    }
}
