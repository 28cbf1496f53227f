"""Tests of the gate's own parts, without cargo: `cd scripts && python3 -m unittest -q testing.tests`."""

import contextlib
import io
import stat
import tempfile
import unittest
from pathlib import Path

from .executables import LINE, Built, Executable
from .gate import Missing, step
from .results import Results

# An executable that answers as libtest's do: with `--list` it names its tests, else it runs what its words do not skip.
LIKE_LIBTEST = """#!/bin/sh
case "$*" in
*--list*) echo "quiet::idle: test"; exit 0;;
*--skip*) echo "test a::one ... ok <0.250s>"; echo "test a::two ... FAILED <1.500s>"; echo "test a::three ... ignored"; exit 101;;
*) echo "test quiet::idle ... ok <2.000s>"; exit 0;;
esac
"""


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

    def test_each_test_is_taken_down_and_quiet_ones_run_after_the_others(self):
        results = self.run_quietly(self.executable(LIKE_LIBTEST))
        self.assertEqual(results.passed, ["tool::a::one", "tool::quiet::idle"])
        self.assertEqual(list(results.failed), ["tool::a::two"])
        self.assertEqual(results.seconds["tool::a::two"], 1.5)

    def test_an_executable_that_dies_has_failed(self):
        results = self.run_quietly(self.executable("#!/bin/sh\nkill -ABRT $$\n"))
        self.assertEqual(list(results.failed), ["tool"])
        self.assertIn("code -6", results.failed["tool"])

    def test_an_executable_that_hangs_is_ended(self):
        results = self.run_quietly(self.executable("#!/bin/sh\ncase $* in *--list*) exit 0;; esac\nsleep 1000 & wait\n"), limit=0.2)
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
        self.assertIsNone(tool.filters(["real::server"]))


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
                artifact("oracle", "bench"),
                artifact("tool"),
                artifact("sequence-stress", "bin", is_test=False, executable="/bin/tool"),
                artifact("bare_client", "example", is_test=False, executable="/bin/bare"),
                artifact("triton_sequence_stress", "cdylib", is_test=False, executable=None, files=["/lib/libtriton_sequence_stress.so"]),
            ]
        )
        self.assertEqual([test.name for test in built.tests], ["lib", "tool", "oracle", "real"])
        variables = {"SEQUENCE_STRESS_TOOL": "/bin/tool", "SEQUENCE_STRESS_BARE_CLIENT": "/bin/bare", "SEQUENCE_STRESS_BACKEND": "/lib/libtriton_sequence_stress.so"}
        self.assertEqual(built.environment(), variables)

    def test_the_summary_ends_with_what_failed_and_how_many_passed(self):
        results = Results()
        for number in range(12):
            results.add(f"tool::t{number}", True, number)
        results.add("real::bad", False, 0.5, "exit code 1")
        results.skipped_for_packages(Missing("procps some_test\n").pairs)
        lines = list(results.summary([("build", 61.2)]))
        self.assertEqual(sum(" s  tool::" in line for line in lines), 10)
        self.assertIn("time: build 61 s", lines)
        self.assertIn("skipped, because the Debian package procps is missing: some_test", lines)
        self.assertIn("  scripts/test real::bad  (exit code 1)", lines)
        self.assertEqual(lines[-1], "12 passed, 1 failed, 1 skipped")


if __name__ == "__main__":
    unittest.main()
