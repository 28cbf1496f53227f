"""The runtimes: each loads a model and executes it. What is imported is there in the process of that runtime alone."""

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

    if element == "BF16":
        values = (values.astype("uint32") << 16).view("float32")
    elif element == "TEXT":
        return list(values.shape), [str(one) for one in values.reshape(-1)]
    return list(values.shape), numpy.asarray(values).reshape(-1).tolist()


class Onnxruntime:
    """The onnx checker, and then onnxruntime on a CPU."""

    formats = ["onnx"]

    def __init__(self):
        import onnx
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        self.onnx, self.runtime = onnx, onnxruntime
        self.versions = f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}"

    def load(self, model, folder):
        path = folder / "model.onnx"
        self.onnx.checker.check_model(str(path), full_check=True)
        element = model["element"]
        names = [output["name"] for output in model["outputs"]]
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        file = self.with_readable_outputs(path) if element == "BF16" else path.read_bytes()
        session = self.runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

        def execute(given):
            answers = session.run(None, {name: self.value(*tensor) for name, tensor in given.items()})
            return {name: numbers("FP32" if element == "BF16" else element, answer) for name, answer in zip(names, answers)}

        return execute

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

    formats = ["openvino"]
    FILES = {"openvino": "model.xml"}

    def __init__(self):
        import openvino

        self.openvino = openvino
        self.core = openvino.Core()
        self.versions = f"OpenVINO {openvino.__version__}"
        self.config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}

    def load(self, model, folder):
        read = self.core.read_model(str(folder / self.FILES[model["format"]]))
        request = self.core.compile_model(read, "CPU", self.config).create_infer_request()
        names = [output["name"] for output in model["outputs"]]
        element = model["element"]

        def execute(given):
            arrays = {name: array(*tensor) for name, tensor in given.items()}
            for name, (tensor_element, shape, _) in given.items():
                request.set_tensor(name, self.tensor(tensor_element, shape, arrays[name]))
            request.infer()
            answers = {name: request.get_tensor(name) for name in names}
            return {name: self.read(element, answer) for name, answer in answers.items()}

        return execute

    def tensor(self, element, shape, values):
        """A tensor, which in the case of BF16 uses the memory of the array."""
        return self.openvino.Tensor(values, shape, self.openvino.Type.bf16) if element == "BF16" else self.openvino.Tensor(values)

    def read(self, element, answer):
        values = answer.data
        return numbers(element, values.view("uint16") if element == "BF16" else values)


RUNTIMES = {"onnxruntime": Onnxruntime, "openvino": OpenVino}
