"""Tests of what each engine tells its ranks, and of the launches themselves; `python3 -m unittest engines.launch_tests` within scripts/ runs them.

What the engines answer on PMI, line by line, is in docs/RANKS-ENGINES.md. Versions differ in the order of the words, and in the words
that nobody needs, so these tests read words.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from triton.install import ROOT

from . import launch, processes
from .launch import ENGINES, Launch, LaunchError, is_here
from .skipping import skip_without

PROBE = Path(__file__).resolve().parent / "probe.py"
RANKS = ROOT / "scripts/ranks"
PAGE = ROOT / "docs/RANKS-ENGINES.md"
PYTHON = [sys.executable, "-S"]
COUNT = 4
# For a machine that hangs.
LIMIT_SECONDS = 300
FOREVER = "exec sleep 100000"
WITH_PMI = ["srun-pmi2", "mpich"]
# What nobody needs who has the answer's first word and `rc`.
ANSWERS = {
    "init": "response_to_init",
    "get_maxes": "maxes",
    "get_my_kvsname": "my_kvsname",
    "put": "put_result",
    "barrier_in": "barrier_out",
    "get": "get_result",
    "finalize": "finalize_ack",
}


def words(line):
    return dict(word.split("=", 1) for word in line.split())


class Engine:
    """The tests of one engine."""

    name = None

    @classmethod
    def setUpClass(cls):
        skip_without(cls.name)

    def ranks(self, *options, count=COUNT, limit=LIMIT_SECONDS):
        """Runs the probe under the engine; returns what came of it, and what each rank saw."""
        ran = launch.run(self.name, count, [*PYTHON, str(PROBE), *options], limit)
        self.assertTrue(ran.in_time, ran)
        seen = [json.loads(rank.output) if rank.output else None for rank in ran.ranks]
        return ran, seen

    def shell(self, script, limit=LIMIT_SECONDS):
        return Launch(self.name, COUNT, ["sh", "-c", script], limit)

    def assert_nothing_runs(self, pids):
        running = processes.running()
        self.assertEqual([pid for pid in pids if pid in running], [])

    def test_each_rank_knows_its_number_and_how_many_there_are(self):
        ran, seen = self.ranks()
        self.assertEqual((ran.code, [rank.code for rank in ran.ranks]), (0, [0] * COUNT), ran)
        self.assertEqual([(rank["rank"], rank["size"]) for rank in seen], [(number, COUNT) for number in range(COUNT)])
        self.assertEqual({rank["variable"] for rank in seen}, {self.variable})
        self.assertEqual(["pmi" in rank for rank in seen], [self.name in WITH_PMI] * COUNT)

    def test_one_rank_alone_is_a_rank_too(self):
        _, (seen,) = self.ranks(count=1)
        self.assertEqual((seen["rank"], seen["size"]), (0, 1))

    def test_an_exit_code_of_a_rank_is_told(self):
        ran, _ = self.ranks("--exit", "3", count=1)
        self.assertEqual((ran.code, ran.ranks[0].code), (3, 3), ran)

    def test_ranks_that_hang_are_ended_at_the_limit(self):
        with self.shell(FOREVER, limit=2) as running:
            pids = [running.pid(rank) for rank in range(COUNT)]
            ran = running.wait()
        self.assertEqual((ran.in_time, ran.code), (False, 124), ran)
        self.assert_nothing_runs(pids)

    def test_a_signal_to_the_engine_ends_all_ranks(self):
        with self.shell(FOREVER) as running:
            pids = [running.pid(rank) for rank in range(COUNT)]
            running.signal(signal.SIGTERM)
            ran = running.wait()
        self.assertNotEqual(ran.code, 0, ran)
        self.assert_nothing_runs(pids)

    def test_a_signal_to_the_ranks_reaches_each(self):
        script = "trap 'echo heard; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
        with self.shell(script) as running:
            for rank in range(COUNT):
                running.until(lambda rank=rank: running.printed(rank), f"rank {rank} printed nothing")
            running.signal_ranks(signal.SIGTERM)
            ran = running.wait()
        self.assertEqual([(rank.code, rank.output) for rank in ran.ranks], [(0, "ready\nheard\n")] * COUNT, ran)

    def test_a_launch_that_is_left_ends_its_ranks(self):
        with self.shell(f"trap '' TERM; {FOREVER}") as running:
            pids = [running.pid(rank) for rank in range(COUNT)]
            folder = running.folder
        self.assert_nothing_runs(pids)
        self.assertFalse(folder.exists())

    def test_a_command_that_is_not_there_is_told(self):
        ran = launch.run(self.name, COUNT, ["nothing-of-this-name"], LIMIT_SECONDS)
        self.assertNotEqual(ran.code, 0, ran)
        self.assertIn("cannot run 'nothing-of-this-name'", ran.output)

    def test_the_documentation_starts_ranks_this_way(self):
        if self.name != "indexed":
            line = ENGINES[self.name].words.format(count=COUNT)
            self.assertRegex(PAGE.read_text(), rf"(?m)^{re.escape(line)} sequence-stress ")


class WithPmi(Engine):
    """The tests of an engine that speaks PMI."""

    def test_the_values_of_all_ranks_reach_each_rank(self):
        _, seen = self.ranks()
        values = [str(rank) * 512 for rank in range(COUNT)]
        self.assertEqual([rank["values"] for rank in seen], [values] * COUNT)

    def test_each_answer_is_one_line_that_begins_with_its_name(self):
        _, seen = self.ranks()
        for line, answer in (pair for rank in seen for pair in rank["pmi"]):
            self.assertEqual(words(answer)["cmd"], ANSWERS[words(line)["cmd"]], (line, answer))
            # An answer without `rc` is a success.
            if "nobody-put-it" in line:
                self.assertNotEqual(words(answer)["rc"], "0", answer)
            else:
                self.assertEqual(words(answer).get("rc", "0"), "0", (line, answer))

    def test_the_limits_allow_what_the_tool_puts(self):
        _, seen = self.ranks(count=2)
        for rank in seen:
            (limits,) = (words(answer) for line, answer in rank["pmi"] if line == "cmd=get_maxes")
            self.assertGreaterEqual((int(limits["keylen_max"]), int(limits["vallen_max"])), (64, 512))

    def test_the_socket_reaches_a_process_that_the_rank_starts(self):
        # `sh` does not close it, and neither does a script around the tool.
        ran = launch.run(self.name, COUNT, ["sh", "-c", f"'{sys.executable}' -S '{PROBE}'; exit $?"], LIMIT_SECONDS)
        self.assertEqual([json.loads(rank.output)["values"][COUNT - 1] for rank in ran.ranks], ["3" * 512] * COUNT, ran)


class Srun(Engine, unittest.TestCase):
    name, variable = "srun", "SLURM_PROCID"

    def probes_on_slurm(self, script):
        """What each probe saw that a shell script ran with a cluster of two nodes, ordered by rank."""
        with tempfile.TemporaryDirectory() as folder:
            script = script.format(probe=f"{sys.executable} -S {PROBE} --into {folder}")
            command = [sys.executable, str(launch.WITH_SLURM), "-N2", "--", "sh", "-c", script]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
            seen = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))
        return sorted(seen, key=lambda rank: (rank["rank"] is None, rank["rank"]))

    def test_a_step_has_an_id_and_a_batch_script_has_none(self):
        seen = self.probes_on_slurm("sbatch -Q -N2 -n2 --wait -o /dev/null --wrap 'srun -N2 -n2 {probe}; {probe}'")
        self.assertEqual([(rank["rank"], rank["size"]) for rank in seen], [(0, 2), (1, 2), (None, None)])
        self.assertEqual([rank["variables"].get("SLURM_STEP_ID") for rank in seen], ["0", "0", None])
        # But for the step, a batch script looks like rank 0 of several.
        batch = seen[2]["variables"]
        self.assertEqual((batch["SLURM_PROCID"], batch["SLURM_NTASKS"]), ("0", "2"))
        self.assertEqual([name for name in batch if name.startswith("SLURM_STEP")], [])

    def test_a_shell_of_salloc_has_no_number_and_no_step(self):
        (shell,) = self.probes_on_slurm("salloc -Q -N2 -n2 {probe}")
        self.assertEqual((shell["rank"], shell["variables"].get("SLURM_NTASKS")), (None, "2"))
        self.assertEqual([name for name in shell["variables"] if name.startswith(("SLURM_STEP", "SLURM_PROCID"))], [])

    def test_an_engine_within_an_allocation_hides_the_step(self):
        for name in filter(is_here, ("openmpi", "mpich")):
            with self.subTest(name):
                words = " ".join(launch.engine_words(name, COUNT, "/tmp"))
                seen = self.probes_on_slurm(f"salloc -Q -N2 -n{COUNT} {words} {{probe}}")
                self.assertEqual([(rank["rank"], rank["size"]) for rank in seen], [(number, COUNT) for number in range(COUNT)])
                # The step is that of the engine's helpers, one on each node.
                self.assertEqual({rank["variables"]["SLURM_STEP_NUM_TASKS"] for rank in seen}, {"2"})


class SrunPmi2(WithPmi, unittest.TestCase):
    name, variable = "srun-pmi2", "PMI_RANK"


class Mpich(WithPmi, unittest.TestCase):
    name, variable = "mpich", "PMI_RANK"

    def test_a_rank_that_ends_without_finalize_ends_the_others(self):
        script = f"'{sys.executable}' -S '{PROBE}' --without-finalize; [ $PMI_RANK = 0 ] || {FOREVER}"
        ran = launch.run(self.name, 2, ["sh", "-c", script], LIMIT_SECONDS)
        # mpiexec ends the ranks when rank 0 closes the socket, which may be before rank.py has written the code.
        self.assertIn([rank.code for rank in ran.ranks], ([0, None], [None, None]), ran)
        self.assertTrue(ran.in_time, ran)


class OpenMpi(Engine, unittest.TestCase):
    name, variable = "openmpi", "OMPI_COMM_WORLD_RANK"


class Indexed(Engine, unittest.TestCase):
    name, variable = "indexed", "JOB_COMPLETION_INDEX"

    def test_all_ranks_have_the_same_meeting_place(self):
        _, seen = self.ranks()
        (place,) = {rank["variables"]["SEQUENCE_STRESS_RENDEZVOUS"] for rank in seen}
        self.assertRegex(place, r"^127\.0\.0\.1:\d+$")


class Script(unittest.TestCase):
    def ran(self, *arguments, **variables):
        """Exit code, output and errors of scripts/ranks."""
        command = [sys.executable, str(RANKS), *arguments]
        environment = {**os.environ, **variables}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT_SECONDS, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_it_prints_what_became_of_each_rank(self):
        code, out, err = self.ran("indexed", "-n", "3", "--", "sh", "-c", "echo out; echo err >&2; exit $JOB_COMPLETION_INDEX")
        told = json.loads(out)
        self.assertEqual((code, told["code"], told["in_time"]), (0, 2, True), err)
        self.assertEqual(told["ranks"], [{"code": number, "output": "out\n", "errors": "err\n"} for number in range(3)])

    def test_a_rank_that_a_signal_ends_has_the_number_of_the_signal(self):
        _, out, err = self.ran("indexed", "-n", "1", "--", "sh", "-c", "kill -KILL $$")
        self.assertEqual((json.loads(out)["ranks"][0]["code"], json.loads(out)["code"]), (-signal.SIGKILL, 128 + signal.SIGKILL), err)

    def test_wrong_options_are_told(self):
        for words_, expected in [
            (["nobody", "--", "true"], "invalid choice: 'nobody'"),
            (["indexed"], "a COMMAND is missing"),
            (["indexed", "-n", "0", "--", "true"], "'0' is not"),
        ]:
            code, _, err = self.ran(*words_)
            self.assertEqual(code, 2)
            self.assertIn(expected, err)

    def test_an_engine_that_is_missing_is_told_with_its_package(self):
        code, _, err = self.ran("mpich", "--", "true", PATH="/nowhere")
        self.assertEqual(code, 125)
        self.assertIn("ranks: 'mpiexec.hydra' is missing: install it with 'apt-get install --no-install-recommends mpich'", err)

    def test_a_rank_that_does_not_start_is_told(self):
        with Launch("indexed", 1, ["true"], LIMIT_SECONDS) as running, self.assertRaisesRegex(LaunchError, "rank 1 did not start"):
            running.pid(1)


if __name__ == "__main__":
    unittest.main()
