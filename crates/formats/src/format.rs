//! The formats, and what their files are called.

use crate::{graph::Graph, onnx, openvino, tensorflow, torchscript};

/// A file, by its name within the folder of a model; folders in it are set apart by `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: String,
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

    /// The files of a graph.
    ///
    /// # Errors
    /// Why the format does not take the graph, on one line: one of its types, state, or layers of a network.
    pub fn files(self, graph: &Graph) -> Result<Vec<File>, String> {
        if graph.is_network() && self != Self::Onnx {
            return Err(format!("{self:?}: layers of networks are written as ONNX alone"));
        }
        let file = |name: &str, bytes| File { name: name.to_owned(), bytes };
        Ok(match self {
            Self::Onnx => vec![file("model.onnx", onnx::model(graph)?)],
            Self::OpenVino => {
                let (xml, bin) = openvino::model(graph)?;
                vec![file("model.xml", xml.into_bytes()), file("model.bin", bin)]
            }
            Self::SavedModel => vec![file("model.savedmodel/saved_model.pb", tensorflow::saved_model(graph))],
            Self::GraphDef => vec![file("model.graphdef", tensorflow::graph_def(graph)?)],
            Self::TorchScript => vec![file("model.pt", torchscript::model(graph)?)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Format;
    use crate::networks::{Network, graph};

    #[test]
    fn a_network_is_written_as_onnx_alone() {
        let graph = graph(Network::Lstm, false, 4).expect("it has one");
        assert!(Format::Onnx.files(&graph).is_ok());
        for format in Format::ALL.into_iter().filter(|format| *format != Format::Onnx) {
            let rejection = format.files(&graph).expect_err("it is rejected");
            assert_eq!(rejection, format!("{format:?}: layers of networks are written as ONNX alone"));
        }
    }
}
