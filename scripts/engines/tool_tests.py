"""Tests of sequence-stress under each engine, against the reference server; `scripts/test python` runs them.

Alone, they need a built tool: `SEQUENCE_STRESS_TOOL=FILE python3 -m unittest engines.tool_tests` within scripts/.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from triton.install import ROOT

from . import launch
from .launch import Launch
from .skipping import skip_without

TOOL = os.environ.get("SEQUENCE_STRESS_TOOL")
SBATCH = ROOT / "examples/slurm/sequence-stress.sbatch"
COUNT = 4
# For a machine that hangs.
LIMIT_SECONDS = 300
# How long the ranks may take to meet, on a machine that is very busy.
PATIENCE = ["--rendezvous-limit", "120s"]
SMALL = ["-t", "8", "-i", "5", "-r", "42", *PATIENCE]
# It ends by a signal.
LONG = ["-t", "8", "-d", "1h", "-r", "42", "-v", *PATIENCE]
FIRST_STEP = "worker 0 context 0 request 0-0-0-0: sent "


class Tool:
    """The tests of the tool under one engine."""

    name = None

    @classmethod
    def setUpClass(cls):
        if not TOOL:
            print("skipping the tests of the tool under engines: SEQUENCE_STRESS_TOOL names no tool; run scripts/test python", file=sys.stderr, flush=True)
            raise unittest.SkipTest("there is no tool")
        skip_without(cls.name)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = Path(folder.name) / "results"

    def server(self, *options):
        """The address of a reference server of this test's own."""
        command = [TOOL, "serve", "--grpc-port", "0", "--http-port", "0", "--metrics-port", "0", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())[0]

    def command(self, server, *options):
        return [TOOL, server, "--results", self.results, *options]

    def begun(self, server):
        """Ranks of a long run in which rank 0 has sent a step."""
        running = self.enterContext(Launch(self.name, COUNT, self.command(server, *LONG), LIMIT_SECONDS))
        running.until(lambda: FIRST_STEP in running.printed(0), "rank 0 sent nothing")
        return running

    def test_the_ranks_hold_one_run(self):
        ran = launch.run(self.name, COUNT, self.command(self.server(), *SMALL), LIMIT_SECONDS)
        self.assertRegex(ran.ranks[0].output, r"(?m)^VALID: \d+ responses checked", ran)
        self.assertIn(f"{COUNT} on 1 host", " ".join(ran.ranks[0].output.split()))
        self.assertEqual((ran.code, [rank.code for rank in ran.ranks]), (0, [0] * COUNT), ran)
        # Only rank 0 reports.
        self.assertEqual([rank.output for rank in ran.ranks[1:]], [""] * (COUNT - 1))
        self.assertEqual(sorted(path.name for path in self.results.glob("rank-*.json")), [f"rank-{rank}.json" for rank in range(COUNT)])

    def test_a_violation_is_the_exit_code_of_all(self):
        ran = launch.run(self.name, COUNT, self.command(self.server("--fault", "off-by-one:once@50"), *SMALL), LIMIT_SECONDS)
        self.assertRegex(ran.ranks[0].output, r"(?m)^INVALID: 1 violation: 1 wrong-sum", ran)
        self.assertEqual((ran.code, ran.ranks[0].code, self.codes_of_others(ran)), (1, 1, [0] * (COUNT - 1)), ran)

    def codes_of_others(self, ran):
        return [rank.code for rank in ran.ranks[1:]]

    def test_a_signal_to_all_ranks_ends_the_run_in_good_order(self):
        running = self.begun(self.server())
        running.signal_ranks(signal.SIGTERM)
        ran = running.wait()
        self.assertRegex(ran.ranks[0].output, r"(?m)^UNKNOWN: the run was interrupted", ran)
        self.assertEqual((ran.in_time, ran.ranks[0].code), (True, 3), ran)

    def test_a_rank_that_is_lost_ends_the_run(self):
        running = self.begun(self.server())
        os.kill(running.pid(2), signal.SIGKILL)
        ran = running.wait()
        self.assertNotEqual(ran.code, 0, ran)
        self.assertTrue(ran.in_time, ran)
        self.assert_loss_is_told(ran)

    def assert_loss_is_told(self, ran):
        self.assertRegex(ran.ranks[0].output, r"(?m)^UNKNOWN: .*\brank 2 was lost", ran)
        self.assertEqual(ran.ranks[0].code, 3, ran)


class Srun(Tool, unittest.TestCase):
    name = "srun"

    def test_the_batch_script_of_the_examples_runs_the_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            # The script finds the tool by its name.
            (Path(folder) / "sequence-stress").symlink_to(TOOL)
            output = Path(folder) / "out"
            command = ["sbatch", "-Q", "--wait", "-o", output, SBATCH, *self.command(self.server(), *SMALL)[1:]]
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
            words = [sys.executable, launch.WITH_SLURM, f"-N{COUNT}", "--time-limit", str(LIMIT_SECONDS), "--", *command]
            done = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * LIMIT_SECONDS, check=False)
            told = output.read_text() if output.exists() else ""
        self.assertEqual(done.returncode, 0, (told, done.stderr))
        self.assertRegex(told, r"(?m)^VALID: ")
        self.assertIn(f"{COUNT} on 1 host", " ".join(told.split()))


class SrunPmi2(Tool, unittest.TestCase):
    name = "srun-pmi2"


class Mpich(Tool, unittest.TestCase):
    name = "mpich"

    def assert_loss_is_told(self, ran):
        # mpiexec kills all ranks at once when one is killed, so nobody is left to report.
        self.assertIn("CLEANING UP REMAINING PROCESSES", ran.output)


class OpenMpi(Tool, unittest.TestCase):
    name = "openmpi"

    # mpirun kills all ranks a second after one is lost or exits with another code than 0, so whether another rank gets to its end is chance.

    def codes_of_others(self, ran):
        return [rank.code or 0 for rank in ran.ranks[1:]]

    def assert_loss_is_told(self, ran):
        self.assertIn("the job has been aborted", ran.output)
        if ran.ranks[0].code is not None:
            super().assert_loss_is_told(ran)


class Indexed(Tool, unittest.TestCase):
    name = "indexed"

    def test_pods_that_are_started_again_after_a_loss_accuse_nobody(self):
        server = self.server()
        running = self.begun(server)
        os.kill(running.pid(2), signal.SIGKILL)
        lost = running.wait()
        # Each of them failed, so Kubernetes starts each of them again.
        self.assertEqual([rank.code for rank in lost.ranks if rank.code == 0], [], lost)
        ran = launch.run(self.name, COUNT, self.command(server, *SMALL), LIMIT_SECONDS)
        self.assertRegex(ran.ranks[0].output, r"(?m)^VALID: \d+ responses checked", ran)
        # Sequences of the rank that was killed may live on under the IDs from 1 on.
        self.assertIn("correlation IDs 1000001 to 1010800 are reserved", ran.ranks[0].output)


if __name__ == "__main__":
    unittest.main()
