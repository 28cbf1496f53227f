"""Tests of what belongs to every script: its place in ruff.toml and in the index, and the check of the Rust version."""

import importlib.machinery
import importlib.util
import re
import tomllib
import unittest

from triton.install import ROOT

SCRIPTS = ROOT / "scripts"
# Neither a script nor a part of one.
OTHERS = {"README.md", "__pycache__"}


def script(name):
    """A script as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Sources(unittest.TestCase):
    def test_ruff_checks_every_python_script(self):
        scripts = [path for path in SCRIPTS.iterdir() if path.is_file() and path.read_text().startswith("#!/usr/bin/env python3\n")]
        self.assertGreater(len(scripts), 8)
        included = tomllib.loads((ROOT / "ruff.toml").read_text())["include"]
        self.assertEqual({f"scripts/{path.name}" for path in scripts}, {path for path in included if "*" not in path})

    def test_the_index_has_every_file(self):
        rows = re.findall(r"^\| `([\w.-]+)/?` \|", (SCRIPTS / "README.md").read_text(), re.MULTILINE)
        names = {path.name for path in SCRIPTS.iterdir()} - OTHERS
        self.assertEqual(sorted(rows), sorted(names))


def metadata(tool="1.88", formats="1.88", library="1.87.0", of_tests="1.94"):
    """cargo's metadata of two crates, with a library of one and a dependency of the other's tests."""
    versions = {"tool": tool, "formats": formats, "library": library, "of-tests": of_tests}
    packages = [{"id": name, "name": name, "version": "1.0.0", "rust_version": version} for name, version in versions.items()]

    def depends(package, kind):
        return {"pkg": package, "dep_kinds": [{"kind": kind}]}

    nodes = [
        {"id": "tool", "deps": [depends("formats", None), depends("library", "build")]},
        {"id": "formats", "deps": [depends("of-tests", "dev")]},
        {"id": "library", "deps": []},
        {"id": "of-tests", "deps": []},
    ]
    return {"packages": packages, "resolve": {"nodes": nodes}, "workspace_members": ["tool", "formats"]}


class Msrv(unittest.TestCase):
    def setUp(self):
        self.msrv = script("msrv")

    def test_a_version_that_holds(self):
        for library in ("1.87.0", "1.88", "1.88.0", None):
            self.assertEqual(self.msrv.problems(metadata(library=library)), [])

    def test_a_dependency_that_needs_a_later_version_is_told(self):
        (told,) = self.msrv.problems(metadata(library="1.88.1"))
        self.assertIn("library 1.0.0 needs Rust 1.88.1, and this project declares 1.88", told)

    def test_crates_that_disagree_are_told(self):
        for formats, expected in (("1.90", "1.88 by tool; 1.90 by formats"), (None, "1.88 by tool; none by formats")):
            self.assertIn(expected, self.msrv.problems(metadata(formats=formats))[0])
