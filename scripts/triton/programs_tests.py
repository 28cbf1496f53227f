"""Tests of the programs that serve models; `python3 -m unittest triton.programs_tests` within scripts/ runs them."""

import argparse
import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import arguments, front, install, programs, server

CORE = install.DEFAULT_RELEASE


def core():
    """The folder of the default release's server, as an installed one is, and its libtritonserver."""
    wheel = install.server(CORE)
    return wheel / "pytriton/tritonserver", next((wheel / "nvidia_pytriton.libs").glob("libtritonserver-*.so"))


def unknown():
    return programs.Program("server", "the server of 'x'", None, ("x",), (), ("--server", "x"), Path("x"))


class Programs(unittest.TestCase):
    def test_releases_come_in_their_order_and_hybrids_last(self):
        names = programs.names()
        releases = [name for name in names if programs.is_release(name)]
        self.assertEqual(releases, sorted(install.RELEASES))
        self.assertEqual(names[len(releases) :], ["hybrid-26.08"])

    def test_a_release_is_started_by_its_options(self):
        program = programs.named(CORE)
        self.assertEqual((program.name, program.release, program.options), (CORE, CORE, ("--release", CORE)))
        self.assertTrue(Path(program.words[0]).is_file())
        self.assertTrue(program.knows("TRITONSERVER_DELAY_GRPC_COMPLETE"))
        self.assertFalse(program.knows("TRITONSERVER_DELAY_GRPC_ENQUEUE"), "that is of newer front ends")

    def test_a_version_stands_for_the_newest_release_that_is_not_newer(self):
        for version, release in [("2.51.0", "24.10"), ("2.60.1", "24.10"), ("2.33.0", "23.04"), ("2.72.0", "26.08"), ("3.0.0", "26.08")]:
            told = programs.told(unknown(), version)
            self.assertEqual((told.release, told.name), (release, f"server-{version}"))
            self.assertIn(version, told.label)

    def test_a_version_that_is_none_or_too_old_is_an_error(self):
        for version, problem in [("dev", "which is no version such as 2.51.0"), ("", "which is no version"), ("2.30.0", "the oldest that is served with")]:
            with self.assertRaisesRegex(install.InstallError, problem):
                programs.told(unknown(), version)

    def test_two_servers_of_one_version_are_told_apart(self):
        served = [programs.told(unknown(), version) for version in ("2.51.0", "2.60.0", "2.51.0")]
        self.assertEqual([program.name for program in programs.told_apart(served)], ["server-2.51.0", "server-2.60.0", "server-2.51.0-2"])

    def test_a_folder_without_a_server_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(install.InstallError, "has no tritonserver: there is no program '.*/bin/tritonserver'"):
                programs.installed(folder)
            program = Path(folder) / "bin/tritonserver"
            program.parent.mkdir()
            program.touch(mode=0o755)
            with self.assertRaisesRegex(install.InstallError, "has no backends: there is no folder '.*/backends'"):
                programs.installed(folder)

    def test_a_library_that_is_not_there_is_an_error(self):
        with self.assertRaisesRegex(install.InstallError, "there is no library 'x.so'"):
            programs.hybrid("26.08", "x.so")

    def test_without_the_python_of_the_front_ends_there_is_one_line(self):
        programs.python.cache_clear()
        self.addCleanup(programs.python.cache_clear)
        with mock.patch.object(programs, "FRONTEND_PYTHON", "2.99"), self.assertRaisesRegex(install.InstallError, "need Python 2.99"):
            programs.python()

    def test_an_installed_server_is_asked_its_version(self):
        folder, _ = core()
        program = server.asked(programs.installed(folder))
        self.assertEqual((program.name, program.release), ("server-2.51.0", CORE))
        self.assertEqual(program.options, ("--server", str(folder)))

    def test_a_library_before_newer_front_ends_is_asked_its_version(self):
        try:
            program = programs.hybrid("26.08", core()[1])
        except install.InstallError as problem:
            print(f"skipping a test of hybrids: {problem}", flush=True)
            self.skipTest(str(problem))
        program = server.asked(program)
        self.assertEqual((program.name, program.release), ("hybrid-26.08-library-2.51.0", CORE))


class Options(unittest.TestCase):
    def said(self, *words):
        """What is said of options that do not go together."""
        parser = argparse.ArgumentParser(prog="x")
        arguments.add_program(parser)
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            arguments.check_program(parser, parser.parse_args(words))
        return said.getvalue()

    def test_two_servers_or_half_of_one_are_an_error(self):
        self.assertIn("argument --frontend: not together with --release", self.said("--release", CORE, "--frontend", "26.08"))
        self.assertIn("argument --server: not together with --frontend", self.said("--server", "x", "--frontend", "26.08"))
        self.assertIn("give --frontend 26.08, too", self.said("--library", "x"))
        self.assertIn("invalid choice", self.said("--release", "20.01"))


class Front(unittest.TestCase):
    """The program that a hybrid is, as far as it goes without a core."""

    def options(self, *words):
        needed = ["--front-ends=x", "--core=x", "--model-repository=x", "--backend-directory=x"]
        with mock.patch("sys.argv", ["front.py", *needed, *words]):
            return front.parsed_options()

    def test_tritonservers_flags_become_the_cores_options(self):
        options = self.options(
            "--model-repository=y",
            "--model-control-mode=explicit",
            "--load-model=a",
            "--load-model=b",
            "--backend-config=python,x=1",
            "--rate-limit=execution_count",
        )
        told = [(name, [value.value for value in values]) for name, *values in front.settings(options)]
        for expected in [
            ("SetModelRepositoryPath", [b"x"]),
            ("SetModelRepositoryPath", [b"y"]),
            ("SetModelControlMode", [2]),
            ("SetStartupModel", [b"a"]),
            ("SetStartupModel", [b"b"]),
            ("SetBackendConfig", [b"python", b"x", b"1"]),
            ("SetRateLimiterMode", [1]),
        ]:
            self.assertIn(expected, told)

    def test_a_backends_configuration_without_a_value_is_an_error(self):
        with self.assertRaisesRegex(front.CannotServe, "is not BACKEND,NAME=VALUE"):
            list(front.settings(self.options("--backend-config=python,x")))

    def test_front_ends_that_are_not_there_are_an_error(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(front.CannotServe, "the front ends cannot be loaded"):
            front.front_ends(Path(folder) / "x.so")


if __name__ == "__main__":
    unittest.main()
