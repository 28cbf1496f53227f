//! The formats, and what their files are called.

use crate::{error::Rejection, graph::Graph, onnx, openvino, tensorflow, torchscript};

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
    /// OpenVINO IR.
    OpenVino,
    /// TensorFlow, as a SavedModel.
    SavedModel,
    /// TensorFlow, as a frozen GraphDef.
    GraphDef,
    /// TorchScript.
    TorchScript,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Onnx, Self::OpenVino, Self::SavedModel, Self::GraphDef, Self::TorchScript];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Onnx => "onnx",
            Self::OpenVino => "openvino",
            Self::SavedModel => "savedmodel",
            Self::GraphDef => "graphdef",
            Self::TorchScript => "torchscript",
        }
    }

    /// The files of a graph.
    ///
    /// # Errors
    /// When the format does not take the graph: one of its types, or state.
    pub fn files(self, graph: &Graph) -> Result<Vec<File>, Rejection> {
        let one = |name, bytes| vec![File { name, bytes }];
        match self {
            Self::Onnx => onnx::model(graph).map(|bytes| one("model.onnx", bytes)),
            Self::OpenVino => openvino::model(graph).map(|(xml, bin)| {
                vec![File { name: "model.xml", bytes: xml.into_bytes() }, File { name: "model.bin", bytes: bin }]
            }),
            Self::SavedModel => Ok(one("model.savedmodel/saved_model.pb", tensorflow::saved_model(graph))),
            Self::GraphDef => tensorflow::graph_def(graph).map(|bytes| one("model.graphdef", bytes)),
            Self::TorchScript => torchscript::model(graph).map(|bytes| one("model.pt", bytes)),
        }
    }
}
