//! The backends that models are written for.

use sequence_stress_formats::format::Format;

use super::options::CorridType;
use crate::proto::model_instance_group::Kind;

macro_rules! backends {
    ($($backend:ident $name:literal $token:literal $in_config:literal $what:literal;)*) => {
        /// A backend, of TensorFlow's each of its two forms.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Backend { $(#[doc = $what] $backend,)* }

        impl Backend {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$backend),*];

            /// Its name on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$backend => $name,)* }
            }

            /// What models' names begin with, as in Triton's own repositories.
            #[must_use]
            pub fn token(self) -> &'static str {
                match self { $(Self::$backend => $token,)* }
            }

            /// Its name in configurations.
            pub(super) fn in_config(self) -> &'static str {
                match self { $(Self::$backend => $in_config,)* }
            }
        }
    };
}

backends! {
    Onnxruntime "onnxruntime" "onnx" "onnxruntime" "ONNX.";
    Openvino "openvino" "openvino" "openvino" "OpenVINO's IR.";
    Pytorch "pytorch" "libtorch" "pytorch" "TorchScript.";
    Savedmodel "savedmodel" "savedmodel" "tensorflow" "TensorFlow's SavedModel.";
    Graphdef "graphdef" "graphdef" "tensorflow" "TensorFlow's GraphDef.";
    Tensorrt "tensorrt" "plan" "tensorrt" "ONNX, of which `trtexec` makes a plan.";
    Python "python" "python" "python" "Triton's Python backend.";
    Native "native" "custom" "sequence_stress" "The native backend of this project.";
}

impl Backend {
    /// The format of its files; none of the backends whose models are programs.
    pub(super) fn format(self) -> Option<Format> {
        match self {
            Self::Onnxruntime | Self::Tensorrt => Some(Format::Onnx),
            Self::Openvino => Some(Format::OpenVino),
            Self::Pytorch => Some(Format::TorchScript),
            Self::Savedmodel => Some(Format::SavedModel),
            Self::Graphdef => Some(Format::GraphDef),
            Self::Python | Self::Native => None,
        }
    }

    /// Whether its models are this project's programs, which keep any state and obey the parameters.
    pub(super) fn is_program(self) -> bool {
        self.format().is_none()
    }

    /// Whether a model can keep state by row: the place in the batch.
    pub(super) fn keeps_by_row(self) -> bool {
        matches!(self, Self::Openvino | Self::Pytorch | Self::Savedmodel)
    }

    /// What configurations say besides the backend.
    pub(super) fn platform(self) -> &'static str {
        match self {
            Self::Savedmodel => "tensorflow_savedmodel",
            Self::Graphdef => "tensorflow_graphdef",
            _ => "",
        }
    }

    /// On what instances run.
    pub(super) fn kind(self) -> Kind {
        if self == Self::Tensorrt { Kind::Gpu } else { Kind::Cpu }
    }

    /// The type of the CORRID control where nobody asks for one: the client's own, and where a format has none such the nearest.
    pub(super) fn corrid(self) -> CorridType {
        match self {
            Self::Pytorch => CorridType::Int64,
            // Before TensorRT 10 there is no INT64.
            Self::Tensorrt => CorridType::Int32,
            _ => CorridType::Uint64,
        }
    }

    /// The last release of the server that has it, where there is one: YEAR.MONTH.
    pub(super) fn last_release(self) -> Option<&'static str> {
        matches!(self, Self::Savedmodel | Self::Graphdef).then_some("25.02")
    }
}
