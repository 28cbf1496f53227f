"""Tests of the worker, and of the tool before Dynamo's KServe front end; `python3 -m unittest dynamo_serving.tests` within scripts/ runs them."""

import contextlib
import importlib
import json
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from downloads import InstallError
from triton import native

from . import install
from .serving import Dynamo
from .words import BY_SEQUENCE, FAULTS, ROUND_ROBIN

RUN_SECONDS = 120
# One request under way at a time: Dynamo's errors over a stream do not name theirs.
SCENARIO = """
load = { workers = 4, iterations = 30 }
limits = { settle_ms = 300, quiet_ms = 20 }
length = { min = 4, max = 8 }
patterns.common = { valid = 5, valid-valid = 1, valid-no-end = 1, no-start = 2, no-end = 1, after-end = 1 }
sending.window = 1
claims = {}
"""


def worker():
    """The module of the worker, without Dynamo."""
    core = types.SimpleNamespace(DistributedRuntime=None)
    with mock.patch.dict(sys.modules, {"dynamo": types.ModuleType("dynamo"), "dynamo._core": core}):
        return importlib.import_module("dynamo_serving.worker")


def request(value, sequence=7, start=False, end=False, name="INPUT"):
    tensor = {"metadata": {"name": name, "data_type": "Int32", "shape": [1, 1]}, "data": {"data_type": "Int32", "values": [value]}}
    parameters = {"sequence_id": {"int64": sequence}, "sequence_start": {"bool": start}, "sequence_end": {"bool": end}}
    return {"id": "x", "model": "m", "tensors": [tensor], "parameters": parameters}


class Worker(unittest.TestCase):
    def setUp(self):
        self.time = 0.0
        self.module = worker()
        self.sums = self.module.Sums(1.0, now=lambda: self.time)

    def step(self, *what, sums=None, **more):
        response = (sums or self.sums).step(request(*what, **more))
        (tensor,) = response["tensors"]
        self.assertEqual((response["id"], tensor["metadata"]["name"], tensor["metadata"]["shape"]), ("x", "OUTPUT", [1, 1]))
        return tensor["data"]["values"][0]

    def test_a_sequence_is_summed_from_start_to_end(self):
        self.assertEqual([self.step(5, start=True), self.step(7), self.step(-1, end=True)], [5, 12, 11])
        with self.assertRaisesRegex(ValueError, "sequence 7 to model 'm' must specify the START flag"):
            self.step(1)

    def test_sequences_are_kept_apart_and_start_begins_anew(self):
        self.assertEqual([self.step(5, start=True), self.step(9, sequence=8, start=True), self.step(1), self.step(1, start=True)], [5, 9, 6, 1])

    def test_an_idle_sequence_is_forgotten_after_its_limit(self):
        self.step(5, start=True)
        self.time = 1.0
        self.assertEqual(self.step(1), 6)
        self.time = 2.1
        with self.assertRaisesRegex(ValueError, "must specify the START flag"):
            self.step(1)

    def test_sums_wrap_around_in_32_bits(self):
        self.step(2**31 - 1, start=True)
        self.assertEqual(self.step(1), -(2**31))

    def test_what_cannot_be_summed_is_an_error(self):
        for what in [{"sequence": 0}, {"name": "OTHER"}]:
            with self.assertRaisesRegex(ValueError, "non-zero|takes one number"):
                self.step(1, start=True, **what)

    def test_each_fault_is_committed(self):
        for fault in FAULTS:
            sums = self.module.Sums(1.0, fault, now=lambda: self.time)
            self.step(0, sums=sums, start=True)
            seen = []
            for _ in range(self.module.EVERY):
                try:
                    seen.append(self.step(1, sums=sums))
                except ValueError:
                    seen.append(None)
            self.assertNotEqual(seen, list(range(1, self.module.EVERY + 1)), fault)
            self.assertEqual(seen[:-1], list(range(1, self.module.EVERY)), fault)


class FrontEnd(unittest.TestCase):
    """The tool and Dynamo's own front end."""

    @classmethod
    def setUpClass(cls):
        try:
            install.runtime()
        except InstallError as problem:
            print(f"skipping the tests of Dynamo's front end: {problem}", flush=True)
            raise unittest.SkipTest(str(problem)) from problem
        cls.tool = native.tool()

    def result(self, *words, **options):
        """The result of a run before a front end of these options."""
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            dynamo = stack.enter_context(Dynamo(**options))
            scenario, result = folder / "small.toml", folder / "result.json"
            scenario.write_text(SCENARIO)
            command = [self.tool, dynamo.environment()["SEQUENCE_STRESS_URL"], "--scenario", scenario, "-r", "1", "-q", "--json", result, *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
            self.assertTrue(result.is_file(), done.stdout + done.stderr)
            return json.loads(result.read_text())

    def test_a_correct_worker_is_valid_and_what_is_not_checked_is_said(self):
        result = self.result()
        self.assertEqual((result["verdict"], result["violations"]), ("valid", []))
        outcomes = result["outcomes"]
        self.assertGreater(outcomes["rejected"], 5, outcomes)
        self.assertNotIn("indeterminate", outcomes)
        parts = {part["part"]: part["has"] for part in result["endpoint_parts"]}
        self.assertEqual(parts, {"health": True, "streaming": True, "metadata": True, "model-configuration": True, "statistics": False})
        self.assertEqual((result["server_counts"]["result"], result["slots_check"]["result"]), ("not-checkable", "not-checkable"))
        self.assertIn("the server's own counts", " ".join(result["notes"]))

    def test_unary_calls_are_valid_too(self):
        result = self.result("--transport", "grpc-unary")
        self.assertEqual((result["verdict"], result["violations"]), ("valid", []))
        # Dynamo has one code for whatever a worker raises.
        self.assertIn("gRPC code 13: ", " ".join(result["notes"]))

    def test_several_workers_are_valid_where_each_sequence_stays_on_one(self):
        self.assertEqual(self.result(workers=2, routing=BY_SEQUENCE)["verdict"], "valid")

    def test_several_workers_in_turn_split_sequences(self):
        result = self.result(workers=2, routing=ROUND_ROBIN)
        self.assertEqual(result["verdict"], "invalid")
        self.assertIn("spurious-start-error", result["violations_by_kind"])

    def test_the_faults_of_a_worker_are_found(self):
        for fault, kind in [("forget", "spurious-start-error"), ("add-one", "wrong-sum")]:
            found = self.result(fault=fault)["violations_by_kind"]
            self.assertIn(kind, found, fault)


if __name__ == "__main__":
    unittest.main()
