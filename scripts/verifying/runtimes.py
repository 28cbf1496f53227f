"""The runtimes: each loads a model and executes it. What is imported is there in the process of that runtime alone."""

from typing import ClassVar

NUMPY = {
    "BOOL": "bool",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    "TEXT": "object",
}


def array(element, shape, numbers):
    """A tensor for numpy; of BF16 its bits."""
    import numpy

    if element == "BF16":
        return (numpy.array(numbers, dtype="float32").view("uint32") >> 16).astype("uint16").reshape(shape)
    return numpy.array(numbers, dtype=NUMPY[element]).reshape(shape)


def numbers(element, values):
    """A tensor of numpy as its shape and a flat list."""
    import numpy

    if str(values.dtype) != {**NUMPY, "BF16": "uint16"}[element]:
        raise TypeError(f"an output is of {values.dtype}, not of {element}")
    if element == "BF16":
        values = (values.astype("uint32") << 16).view("float32")
    elif element == "TEXT":
        return list(values.shape), [str(one) for one in values.reshape(-1)]
    return list(values.shape), numpy.asarray(values).reshape(-1).tolist()


class Onnxruntime:
    """The onnx checker, and then onnxruntime on a CPU; of TensorRT's models, the file that a plan is made of."""

    formats = ("onnx", "tensorrt")
    exact: ClassVar = {}

    def __init__(self):
        import onnx
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        self.onnx, self.runtime = onnx, onnxruntime
        self.versions = f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}"

    def cannot(self, model):
        takes_bf16 = hasattr(self.runtime.OrtValue, "ortvalue_from_numpy_with_onnx_type")
        return None if takes_bf16 or model["element"] != "BF16" else "this onnxruntime takes no BF16 from Python"

    def load(self, model, folder):
        path = folder / "model.onnx"
        self.onnx.checker.check_model(str(path), full_check=True)
        element = model["element"]
        outputs = {output["name"]: "FP32" if output["element"] == "BF16" else output["element"] for output in model["outputs"]}
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        file = self.with_readable_outputs(path) if element == "BF16" else path.read_bytes()
        session = self.runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

        def execute(given):
            answers = session.run(None, {name: self.value(*tensor) for name, tensor in given.items()})
            return {name: numbers(of_output, answer) for (name, of_output), answer in zip(outputs.items(), answers)}

        return execute

    def network(self, folder):
        """What a network is, as its graph is called, and its weights by name."""
        graph = self.onnx.load(str(folder / "model.onnx")).graph
        return graph.name, {weights.name: self.onnx.numpy_helper.to_array(weights) for weights in graph.initializer}

    def with_readable_outputs(self, path):
        """The model with its outputs, which are of BF16, as FP32: numpy has no type for them."""
        helper, fp32 = self.onnx.helper, self.onnx.TensorProto.FLOAT
        model = self.onnx.load(str(path))
        for output in model.graph.output:
            model.graph.node.append(helper.make_node("Cast", [output.name], [f"{output.name}.fp32"], to=fp32))
            output.name, output.type.tensor_type.elem_type = f"{output.name}.fp32", fp32
        return model.SerializeToString()

    def value(self, element, shape, numbers):
        values = array(element, shape, numbers)
        if element == "BF16":
            return self.runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(values, self.onnx.TensorProto.BFLOAT16)
        return values


class OpenVino:
    """OpenVINO on a CPU, which reads TensorFlow's files, too."""

    formats = ("openvino", "savedmodel", "graphdef")
    FILES: ClassVar = {"openvino": "model.xml", "savedmodel": "model.savedmodel", "graphdef": "model.graphdef"}
    # Its CPU plugin has no more than 32 bits, and up to 2024 31 of UINT32.
    exact: ClassVar = {"INT64": "INT32", "UINT32": "INT32", "UINT64": "INT32", "FP64": "FP32"}

    def __init__(self):
        import openvino

        self.openvino = openvino
        self.core = openvino.Core()
        self.versions = f"OpenVINO {openvino.__version__}"
        self.config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}

    def cannot(self, model):
        """Why it does not run a model of TensorFlow's."""
        if "TEXT" in (model["element"], model["corrid"]):
            return "OpenVINO reads no numbers from texts"
        if model["format"] == "openvino":
            return None
        if self.openvino.__version__ < "2025" and model["element"] in ("INT8", "INT16", "UINT8", "UINT16"):
            return "OpenVINO of 2024 takes the nearest small number where TensorFlow takes the low bits"
        return None if model["initial"] is None else "OpenVINO takes TensorFlow's variables for constants"

    def load(self, model, folder):
        read = self.core.read_model(str(folder / self.FILES[model["format"]]))
        request = self.core.compile_model(read, "CPU", self.config).create_infer_request()
        names = {output["name"]: self.port(model, output["name"]) for output in model["outputs"]}
        element = model["element"]

        def execute(given):
            arrays = {name: array(*tensor) for name, tensor in given.items()}
            for name, (tensor_element, shape, _) in given.items():
                request.set_tensor(self.port(model, name), self.tensor(tensor_element, shape, arrays[name]))
            request.infer()
            answers = {name: request.get_tensor(port) for name, port in names.items()}
            return {name: self.read(element, answer) for name, answer in answers.items()}

        return execute

    def port(self, model, name):
        """What OpenVINO calls a tensor: of a frozen graph, the node's first output."""
        return f"{name}:0" if model["format"] == "graphdef" else name

    def tensor(self, element, shape, values):
        """A tensor, which in the case of BF16 uses the memory of the array."""
        return self.openvino.Tensor(values, shape, self.openvino.Type.bf16) if element == "BF16" else self.openvino.Tensor(values)

    def read(self, element, answer):
        values = answer.data
        return numbers(element, values.view("uint16") if element == "BF16" else values)


class TensorFlow:
    """TensorFlow on a CPU, as servers run it: a session, and of a SavedModel the signature."""

    formats = ("savedmodel", "graphdef")
    exact: ClassVar = {}

    def __init__(self):
        import tensorflow

        self.tensorflow = tensorflow
        self.v1 = tensorflow.compat.v1
        self.versions = f"TensorFlow {tensorflow.__version__}"

    def cannot(self, model):
        return None

    def load(self, model, folder):
        graph = self.tensorflow.Graph()
        options = self.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with graph.as_default():
            session = self.v1.Session(graph=graph, config=options)
            if model["format"] == "savedmodel":
                loaded = self.v1.saved_model.loader.load(session, ["serve"], str(folder / "model.savedmodel"))
                signature = loaded.signature_def["serving_default"]
                fed = {name: info.name for name, info in signature.inputs.items()}
                fetched = {name: info.name for name, info in signature.outputs.items()}
            else:
                definition = self.v1.GraphDef.FromString((folder / "model.graphdef").read_bytes())
                self.tensorflow.import_graph_def(definition, name="")
                fed, fetched = ({tensor["name"]: f"{tensor['name']}:0" for tensor in model[way]} for way in ("inputs", "outputs"))
        run = session.make_callable(list(fetched.values()), list(fed.values()))
        element = model["element"]

        def execute(given):
            answers = run(*(self.array(*given[name]) for name in fed))
            return {name: self.read(element, answer) for name, answer in zip(fetched, answers)}

        return execute

    def array(self, element, shape, numbers):
        values = array(element, shape, numbers)
        return values.view(self.tensorflow.bfloat16.as_numpy_dtype) if element == "BF16" else values

    def read(self, element, answer):
        if element == "TEXT":
            return list(answer.shape), [one.decode() for one in answer.reshape(-1)]
        return numbers(element, answer.view("uint16") if element == "BF16" else answer)


class Torch:
    """torch on a CPU."""

    formats = ("torchscript",)
    exact: ClassVar = {}

    def __init__(self):
        import torch

        torch.set_num_threads(1)
        self.torch = torch
        self.versions = f"torch {torch.__version__}"

    def cannot(self, model):
        return None

    def load(self, model, folder):
        module = self.torch.jit.load(str(folder / "model.pt"))
        module.eval()
        names = [output["name"] for output in model["outputs"]]
        element = model["element"]

        def execute(given):
            arguments = [self.tensor(*given[tensor["name"]]) for tensor in model["inputs"]]
            with self.torch.inference_mode():
                answers = module(*arguments)
            answers = answers if len(names) > 1 else (answers,)
            return {name: self.read(element, answer) for name, answer in zip(names, answers)}

        return execute

    def tensor(self, element, shape, numbers):
        if element == "TEXT":
            return numbers
        values = self.torch.from_numpy(array("FP32" if element == "BF16" else element, shape, numbers))
        return values.bfloat16() if element == "BF16" else values

    def read(self, element, answer):
        if element == "TEXT":
            return [len(answer)], answer
        if str(answer.dtype) != f"torch.{TORCH[element]}":
            raise TypeError(f"an output is of {answer.dtype}, not of {element}")
        return numbers("FP32" if element == "BF16" else element, (answer.float() if element == "BF16" else answer).numpy())


TORCH = {**NUMPY, "BF16": "bfloat16"}
RUNTIMES = {"onnxruntime": Onnxruntime, "openvino": OpenVino, "tensorflow": TensorFlow, "torch": Torch}
