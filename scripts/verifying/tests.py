"""Tests of what compares answers: a right model passes, and each kind of wrong one is seen."""

import sys
import unittest

from triton import install

from . import formulas, runs, steps


def model(formula, element="INT32", **more):
    of_state = [{"name": "INPUT_STATE", "element": element}] if formula.startswith("implicit") else []
    controls = [{"name": name, "element": "INT32"} for name in ("START", "READY")]
    of_end = [{"name": "END", "element": "INT32"}, {"name": "CORRID", "element": more["corrid"]}] if more.get("corrid") else []
    plain = {
        "name": f"x_{formula}_{element}",
        "formula": formula,
        "element": element,
        "batch": 4,
        "width": 1,
        "corrid": None,
        "adds_corrid": True,
        "initial": None,
    }
    inputs = [{"name": "INPUT", "element": element, "dims": [-1, -1]}, *of_state, *controls, *of_end]
    plain = {**plain, "inputs": inputs, **more}
    return {**plain, "exact_element": element, "exact_corrid": plain["corrid"]}


class Executor:
    """Computes a formula, and makes one mistake if it is told to."""

    def __init__(self, model, mistake=None):
        self.model, self.mistake = model, mistake
        self.sums = [model["initial"] or 0] * model["batch"]

    def __call__(self, given):
        answers, states = [], []
        _, shape, elements = given["INPUT"]
        count, width = shape
        for slot in range(count):
            row = {name.lower(): bool(given[name][2][slot]) for name in ("START", "READY")}
            row["end"] = bool(given["END"][2][slot]) if "END" in given else False
            row["corrid"] = given["CORRID"][2][slot] if "CORRID" in given else None
            row["input"] = [runs.counting(one) for one in elements[slot * width : (slot + 1) * width]]
            if self.mistake == "idle rows count":
                row["ready"] = True
            if self.mistake == "START is forgotten":
                row["start"] = False
            state = runs.counting(given["INPUT_STATE"][2][slot]) if "INPUT_STATE" in given else self.sums[slot]
            answer, after = formulas.step(self.model, row, state)
            self.sums[slot] = after + (self.mistake == "the state is wrong")
            answers += [answer + (self.mistake == "the answer is wrong")] * width
            states.append(self.sums[slot])
        if self.mistake == "rows too many":
            count, shape, answers, states = count + 1, [count + 1, width], [*answers, *answers[:width]], [*states, 0]
        outputs = {"OUTPUT": ([count] if self.mistake == "the shape is wrong" else shape, self.of_type(answers))}
        return {**outputs, "OUTPUT_STATE": ([count, 1], self.of_type(states))}

    def of_type(self, numbers):
        return [str(number) for number in numbers] if self.model["element"] == "TEXT" else numbers


class Runs(unittest.TestCase):
    def test_right_models_pass(self):
        for formula in ("implicit", "implicit-with-initial-state", "stateless"):
            for element in (*formulas.WIDTHS, *formulas.EXACT):
                for corrid in (None, *steps.CORRIDS):
                    of_formula = model(formula, element, corrid=corrid, width=2)
                    runs.run(of_formula, Executor(of_formula))
        for initial in (0, 10):
            stateful = model("stateful", initial=initial)
            runs.run(stateful, Executor(stateful))

    def test_each_mistake_is_seen(self):
        mistakes = {
            "stateful": ["idle rows count", "START is forgotten", "the state is wrong", "the answer is wrong", "the shape is wrong", "rows too many"],
            "implicit": ["rows too many", "START is forgotten", "the state is wrong", "the answer is wrong", "the shape is wrong"],
            "stateless": ["idle rows count", "START is forgotten", "the answer is wrong", "the shape is wrong"],
        }
        for formula, of_formula in mistakes.items():
            for mistake in of_formula:
                wrong = model(formula, initial=0 if formula == "stateful" else None)
                with self.subTest(formula=formula, mistake=mistake), self.assertRaises(runs.Difference):
                    runs.run(wrong, Executor(wrong, mistake))


SIZES = {"gru": {"STATE": [4]}, "lstm": {"HIDDEN": [4], "CELL": [4]}, "conv": {"CACHE": [3, 5]}, "two_state": {"ZETA": [2], "ALPHA": [5]}}
SHAPES = {
    "gru": {"cell.W": [1, 12, 3], "cell.R": [1, 12, 4], "cell.B": [1, 24], "head.weight": [4, 3], "head.bias": [3]},
    "lstm": {"cell.W": [1, 16, 3], "cell.R": [1, 16, 4], "cell.B": [1, 32], "head.weight": [4, 3], "head.bias": [3]},
    "conv": {"conv.weight": [3, 1, 6], "conv.bias": [3], "head.weight": [3, 3], "head.bias": [3]},
    "two_state": {
        "zeta.fade": [2],
        "zeta.weight": [3, 2],
        "alpha.fade": [5],
        "alpha.weight": [3, 5],
        "alpha.share": [5],
        "head.zeta": [2, 3],
        "head.alpha": [5, 3],
        "head.input": [3, 3],
    },
}


def with_numpy():
    """NumPy, and the networks, which need it."""
    packages = str(install.client_packages())  # NVIDIA's client comes with numpy.
    if packages not in sys.path:
        sys.path.insert(0, packages)
    import numpy

    from . import networks

    return numpy, networks


def network(name, batch=4):
    """A network of three elements: its model and its weights."""
    numpy, _ = with_numpy()

    def described(name, sizes, element="FP32"):
        return {"name": name, "element": element, "dims": [-1, *sizes] if batch else sizes}

    states = SIZES[name]
    counts = [described("COUNT", [1], "INT64")] if name == "two_state" else []
    after = [described(f"{state}_OUT", sizes) for state, sizes in states.items()]
    inputs = [described("INPUT", [3]), *(described(state, sizes) for state, sizes in states.items())]
    told = [{"input": state, "output": f"{state}_OUT"} for state in states]
    generator = numpy.random.default_rng(1)
    weights = {name: generator.uniform(-0.7, 0.7, shape).astype("float32") for name, shape in SHAPES[name].items()}
    return {"batch": batch, "inputs": inputs, "outputs": [described("OUTPUT", [3]), *counts, *after], "states": told}, weights


def executing(model, name, weights, mistake=None):
    """A network in 32 bits, as a runtime runs it, which makes one mistake if it is told to."""
    numpy, networks = with_numpy()

    def execute(given):
        values = [numpy.array(numbers, dtype="float32").reshape(shape if model["batch"] else [1, *shape]) for _, shape, numbers in given.values()]
        if mistake == "a state is forgotten":
            values[-1] = values[-1] * 0
        if mistake == "rows are exchanged":
            values[1] = values[1][::-1]
        outputs, after = networks.NETWORKS[name](weights, *values)
        if mistake == "a state is wrong":
            after[0] = after[0] + numpy.float32(1e-3)
        if mistake == "no number":
            outputs[0] = outputs[0] * numpy.nan
        arrays = [array if model["batch"] else array[0] for array in (*outputs, *after)]
        if mistake == "the shape is wrong":
            arrays[0] = arrays[0][..., :2]
        return {output["name"]: (list(array.shape), array.reshape(-1).tolist()) for output, array in zip(model["outputs"], arrays)}

    return execute


class Networks(unittest.TestCase):
    def run_network(self, name, batch=4, mistake=None, changed=None):
        _, networks = with_numpy()
        model, weights = network(name, batch)
        other = {**weights, changed: weights[changed] + weights[changed].dtype.type(0.01)} if changed else weights
        networks.run(model, name, other, executing(model, name, weights, mistake))

    def test_right_networks_pass(self):
        for name in SIZES:
            for batch in (4, None):
                self.run_network(name, batch)

    def test_each_mistake_is_seen(self):
        for name in SIZES:
            for mistake in ("a state is forgotten", "rows are exchanged", "a state is wrong", "no number", "the shape is wrong"):
                with self.subTest(name=name, mistake=mistake), self.assertRaises(runs.Difference):
                    self.run_network(name, mistake=mistake)

    def test_other_weights_are_seen(self):
        for name, shapes in SHAPES.items():
            for changed in shapes:
                with self.subTest(name=name, changed=changed), self.assertRaises(runs.Difference):
                    self.run_network(name, changed=changed)


class Formulas(unittest.TestCase):
    def test_numbers_wrap_in_their_width(self):
        for element, number, wrapped in [("INT8", 128, -128), ("UINT8", -1, 255), ("TEXT", 2**31, -(2**31)), ("UINT64", 2**64, 0)]:
            self.assertEqual(formulas.wrapped(element, number), wrapped)
        with self.assertRaises(ValueError):
            formulas.wrapped("BF16", 129)

    def test_identities_count_with_their_low_bits(self):
        self.assertEqual(formulas.identity("INT32", 2**32 + 5), 5)
        self.assertEqual(formulas.identity("UINT64", 2**63 + 5), 2**63 + 5)
        self.assertEqual(formulas.identity("INT64", "no number"), 0)


if __name__ == "__main__":
    unittest.main()
