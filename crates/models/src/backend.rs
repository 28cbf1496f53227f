//! The backends that models are written for.

use formats::format::Format;

use super::options::CorridType;
use wire::proto::model_instance_group::Kind;

/// What a backend is like.
pub(super) struct Traits {
    /// What models' names begin with, as in Triton's own repositories.
    pub(super) token: &'static str,
    /// Its name in configurations.
    pub(super) in_config: &'static str,
    /// The format of its files; none of the backends whose models are programs.
    pub(super) format: Option<Format>,
    /// Whether a model can keep state by row: the place in the batch.
    pub(super) keeps_by_row: bool,
    /// What configurations say besides the backend.
    pub(super) platform: &'static str,
    /// On what instances run.
    pub(super) kind: Kind,
    /// The type of the CORRID control where nobody asks for one: the client's own, and where a format has none such the nearest.
    pub(super) corrid: CorridType,
    /// The last release of the server that has it, where there is one: YEAR.MONTH.
    pub(super) last_release: Option<&'static str>,
}

const PROGRAM: Traits = Traits {
    token: "",
    in_config: "",
    format: None,
    keeps_by_row: false,
    platform: "",
    kind: Kind::Cpu,
    corrid: CorridType::Uint64,
    last_release: None,
};
const TENSORFLOW: Traits = Traits { in_config: "tensorflow", last_release: Some("25.02"), ..PROGRAM };

workload::table! {
    /// A backend, of TensorFlow's each of its two forms.
    pub enum Backend: Traits {
        /// ONNX.
        Onnxruntime = "onnxruntime",
            Traits { token: "onnx", in_config: "onnxruntime", format: Some(Format::Onnx), ..PROGRAM };
        /// OpenVINO's IR.
        Openvino = "openvino", Traits {
            token: "openvino",
            in_config: "openvino",
            format: Some(Format::OpenVino),
            keeps_by_row: true,
            ..PROGRAM
        };
        /// TorchScript.
        Pytorch = "pytorch", Traits {
            token: "libtorch",
            in_config: "pytorch",
            format: Some(Format::TorchScript),
            keeps_by_row: true,
            corrid: CorridType::Int64,
            ..PROGRAM
        };
        /// TensorFlow's SavedModel.
        Savedmodel = "savedmodel", Traits {
            token: "savedmodel",
            format: Some(Format::SavedModel),
            keeps_by_row: true,
            platform: "tensorflow_savedmodel",
            ..TENSORFLOW
        };
        /// TensorFlow's GraphDef.
        Graphdef = "graphdef", Traits {
            token: "graphdef",
            format: Some(Format::GraphDef),
            platform: "tensorflow_graphdef",
            ..TENSORFLOW
        };
        /// ONNX, of which `trtexec` makes a plan.
        Tensorrt = "tensorrt", Traits {
            token: "plan",
            in_config: "tensorrt",
            format: Some(Format::Onnx),
            kind: Kind::Gpu,
            // Before TensorRT 10 there is no INT64.
            corrid: CorridType::Int32,
            ..PROGRAM
        };
        /// Triton's Python backend.
        Python = "python", Traits { token: "python", in_config: "python", ..PROGRAM };
        /// The native backend of this project.
        Native = "native", Traits { token: "custom", in_config: "sequence_stress", ..PROGRAM };
    }
}

impl Backend {
    /// What sets it apart.
    pub(super) fn traits(self) -> &'static Traits {
        self.row()
    }

    /// Whether its models are this project's programs, which keep any state and obey the parameters.
    pub(super) fn is_program(self) -> bool {
        self.row().format.is_none()
    }
}
