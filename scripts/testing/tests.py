"""Tests of the gate's own parts, without cargo: `cd scripts && python3 -m unittest -q testing.tests`."""

import contextlib
import io
import os
import signal
import stat
import tempfile
import time
import unittest
from pathlib import Path

from . import ending
from .executables import LINE, Built, Executable
from .gate import Missing, step, takes
from .results import Results

# What an executable prints, as libtest's do.
LIKE_LIBTEST = """#!/bin/sh
echo "running 3 tests"
echo "test a::one ... ok <0.250s>"
echo "test a::two ... FAILED <1.500s>"
echo "test a::three ... ignored"
echo "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.75s"
exit 101
"""
# The gate must report each of these executables as failed.
INCOMPLETE = {
    "a test that ends the process": "echo 'running 2 tests'; echo 'test a::one ... ok <0.1s>'; exit 0",
    "a word that is not known": "echo 'error: bad option'; exit 101",
    "a line that is cut": "echo 'running 1 test'; echo 'sometest a::one ... FAILED <0.1s>'; "
    "echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out'; exit 101",
    "a failure without a test": "echo 'running 1 test'; echo 'test a::one ... ok <0.1s>'; "
    "echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'; exit 101",
    "nothing": "exit 0",
}


def artifact(name, kind="test", is_test=True, executable="/somewhere/it", files=()):
    return {
        "target": {"name": name, "kind": [kind]},
        "profile": {"test": is_test},
        "executable": executable,
        "filenames": list(files),
        "manifest_path": "/somewhere/Cargo.toml",
    }


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def executable(self, script, name="tool", **more):
        path = self.folder / "executable"
        path.write_text(script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return Executable(name, path, self.folder, **more)

    def run_quietly(self, executable, filters=(), limit=60):
        results = Results()
        with contextlib.redirect_stdout(io.StringIO()):
            executable.run(list(filters), [], False, results, limit)
        return results

    def test_each_test_is_taken_down(self):
        results = self.run_quietly(self.executable(LIKE_LIBTEST))
        self.assertEqual(results.passed, ["tool::a::one"])
        self.assertEqual(list(results.failed), ["tool::a::two"])
        self.assertEqual(results.seconds["tool::a::two"], 1.5)

    def test_an_executable_that_does_not_account_for_each_test_has_failed(self):
        for what, script in INCOMPLETE.items():
            with self.subTest(what):
                self.assertIn("tool", self.run_quietly(self.executable(f"#!/bin/sh\n{script}\n")).failed)

    def test_an_executable_whose_output_is_held_has_failed(self):
        ending.PATIENCE_SECONDS, before = 0.2, ending.PATIENCE_SECONDS
        self.addCleanup(setattr, ending, "PATIENCE_SECONDS", before)
        pid = self.folder / "pid"
        results = self.run_quietly(self.executable(f"{LIKE_LIBTEST.replace('exit 101', '')}setsid sh -c 'echo $$ > {pid}; exec sleep 60' &\nexit 101\n"))
        self.assertIn("still holds its output", results.failed["tool"])
        while not (pid.exists() and pid.read_text().strip()):
            time.sleep(0.01)
        os.kill(int(pid.read_text()), signal.SIGKILL)

    def test_an_executable_that_dies_has_failed(self):
        results = self.run_quietly(self.executable("#!/bin/sh\nkill -ABRT $$\n"))
        self.assertEqual(list(results.failed), ["tool"])
        self.assertIn("code -6", results.failed["tool"])

    def test_an_executable_that_hangs_is_ended(self):
        results = self.run_quietly(self.executable("#!/bin/sh\nsleep 1000 & wait\n"), limit=0.2)
        self.assertIn("was ended after 0.2 s", results.failed["tool"])

    def test_an_executable_without_libtest_is_one_test(self):
        self.assertEqual(self.run_quietly(self.executable("#!/bin/sh\ntrue\n", has_harness=False)).passed, ["tool"])
        self.assertEqual(list(self.run_quietly(self.executable("#!/bin/sh\nexit 3\n", has_harness=False)).failed), ["tool"])

    def test_a_step_that_fails_or_hangs_has_failed(self):
        results = Results()
        with contextlib.redirect_stdout(io.StringIO()):
            step("good", ["true"], results, 60)
            step("bad", ["false"], results, 60)
            step("slow", ["sleep", "1000"], results, 0.2)
        self.assertEqual((results.passed, results.failed), (["good"], {"bad": "exit code 1", "slow": "ended after 0.2 s"}))

    def test_filters_choose_an_executable_and_a_part_of_it(self):
        tool = Executable("tool", "", self.folder)
        self.assertEqual(tool.filters([]), [])
        self.assertEqual(tool.filters(["tool"]), [])
        self.assertEqual(tool.filters(["tool::run", "tool::slots::a"]), ["run", "slots::a"])
        self.assertEqual(tool.filters(["tool::run", "tool"]), [])
        self.assertIsNone(tool.filters(["real::server"]))
        self.assertIsNone(tool.filters(["t"]))

    def test_what_is_skipped_is_skipped_by_its_whole_path_too(self):
        results = Results()
        self.executable("#!/bin/sh\nexit 3\n").run(["tool::a::needs_a_package"], ["needs_a_package"], True, results, 60)
        self.assertEqual((results.passed, results.failed), ([], {}))

    def test_a_filter_takes_what_has_it_in_its_path(self):
        for text, path in [("tool", "tool::a::b"), ("tool::a", "tool::a::b"), ("tool::b", "tool::a::b"), ("python", "python"), ("long", "long::soak")]:
            self.assertTrue(takes(text, path), (text, path))
        for text, path in [("t", "tool::a::b"), ("tool::c", "tool::a::b"), ("real::a", "tool::a::b"), ("python::a", "python")]:
            self.assertFalse(takes(text, path), (text, path))


class Words(unittest.TestCase):
    def test_lines_of_libtest_are_read(self):
        for line, seen in [
            ("test a::b ... ok <0.003s>", ("a::b", "ok", "0.003")),
            ("test a::b - should panic ... ok <0.003s>", ("a::b", "ok", "0.003")),
            ("test a::b ... FAILED <12.000s>", ("a::b", "FAILED", "12.000")),
            ("test a::b ... ignored, needs a server", ("a::b", "ignored", None)),
        ]:
            self.assertEqual(LINE.match(line).groups(), seen, line)
        for line in ["test result: ok. 3 passed", "testing", "test a::b has been running for over 60 seconds"]:
            self.assertIsNone(LINE.match(line), line)

    def test_what_cargo_built_has_its_names(self):
        built = Built(
            [
                artifact("real"),
                artifact("sequence_stress", "lib"),
                artifact("judging", "bench"),
                artifact("oracle", "lib"),
                artifact("tool"),
                artifact("sequence-stress", "bin", is_test=False, executable="/bin/tool"),
                artifact("bare_client", "example", is_test=False, executable="/bin/bare"),
                artifact("triton_sequence_stress", "cdylib", is_test=False, executable=None, files=["/lib/libtriton_sequence_stress.so"]),
            ]
        )
        self.assertEqual([test.name for test in built.tests], ["lib", "oracle", "tool", "judging", "real"])
        variables = {
            "SEQUENCE_STRESS_TOOL": "/bin/tool",
            "SEQUENCE_STRESS_BARE_CLIENT": "/bin/bare",
            "SEQUENCE_STRESS_BACKEND": "/lib/libtriton_sequence_stress.so",
        }
        self.assertEqual(built.environment(), variables)

    def test_the_summary_ends_with_what_failed_and_how_many_passed(self):
        results = Results()
        for number in range(12):
            results.add(f"tool::t{number}", True, number)
        results.add("real::bad", False, 0.5, "exit code 1")
        missing = Missing("procps some_test\n")
        missing.add("the Python package x", ["other_test"])
        results.skipped_for_missing(missing.pairs)
        lines = list(results.summary([("build", 61.2)]))
        self.assertEqual(sum(" s  tool::" in line for line in lines), 10)
        self.assertIn("the slowest, at most 10:", lines)
        self.assertIn("time: build 61 s", lines)
        self.assertIn("skipped, because the Debian package procps is missing: some_test", lines)
        self.assertIn("skipped, because the Python package x is missing: other_test", lines)
        self.assertEqual((missing.has("procps"), missing.has("the Python"), missing.skips()), (True, False, ["some_test", "other_test"]))
        self.assertIn("  scripts/test --exact real::bad  # exit code 1", lines)
        self.assertEqual(lines[-1], "12 passed, 1 failed, 2 skipped")


if __name__ == "__main__":
    unittest.main()
