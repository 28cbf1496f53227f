"""Tests of what compares answers: a right model passes, and each kind of wrong one is seen."""

import unittest

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
