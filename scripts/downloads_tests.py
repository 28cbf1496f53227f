"""Tests of downloads, their cache, and the table of Debian packages; `python3 -m unittest downloads_tests` within scripts/ runs them.

pip is the real one, with a folder of small wheels in place of a package index; apt-get and dpkg are shell scripts.
"""

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import os
import re
import sys
import tempfile
import threading
import time
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import downloads
from engines import kubernetes, launch, launch_tests, tool_tests
from speech import wheel
from testing import gate
from triton import install
from verifying import install as runtimes

ROOT = Path(__file__).resolve().parents[1]
# Appends its arguments to $CALLS, and "downloads" the packages that it is asked for.
APT = """#!/bin/sh
echo "$@" >> "$CALLS"
[ -z "$REFUSED" ] || { echo "E: $REFUSED"; exit 100; }
[ -z "$INSTALLED" ] || printf '#!/bin/sh\\n' > "$INSTALLED"
[ -z "$INSTALLED" ] || chmod +x "$INSTALLED"
[ "$1" = download ] || exit 0
shift 2
for package; do echo "content of $package" > "${package%%=*}_1%3a2.0-1_amd64.deb"; done
[ -z "$UNVERIFIED" ] || { echo "E: $UNVERIFIED"; exit 100; }
"""


def write_wheel(folder, package, version="1.0"):
    """Writes a wheel with one module, and returns its pin."""
    path = folder / f"{package}-{version}-py3-none-any.whl"
    about = f"{package}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{package}.py", f"VERSION = '{version}'\n")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return downloads.Wheel(package, version, hashlib.sha256(path.read_bytes()).hexdigest())


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


class Scratch(unittest.TestCase):
    """A folder for each test: `index` for pip, `bin` for programs, `home` of an installer, and the cache."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        for name in ("index", "bin", "home"):
            (self.folder / name).mkdir()
        self.index, self.home, self.cache = (self.folder / name for name in ("index", "home", "cache"))
        write_program(self.folder / "bin/apt-get", APT)
        self.environment = {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.index),
            "CALLS": str(self.folder / "calls"),
            "REFUSED": "",
            "UNVERIFIED": "",
            "INSTALLED": "",
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            downloads.VARIABLE: str(self.cache),
        }
        self.change(**self.environment)

    def change(self, **variables):
        changed = mock.patch.dict(os.environ, variables)
        changed.start()
        self.addCleanup(changed.stop)

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def take_network(self):
        """Leaves pip and apt-get without anything to download."""
        for path in self.index.iterdir():
            path.unlink()
        self.change(REFUSED="no network")

    def kept(self):
        """The files in the cache, without the lock."""
        return sorted(path for path in self.cache.rglob("*") if path.is_file() and path.name != "lock")

    @contextlib.contextmanager
    def said(self, *texts):
        """Has the body say these texts on stderr; without texts nothing."""
        with contextlib.redirect_stderr(io.StringIO()) as told:
            yield
        for text in texts:
            self.assertIn(text, told.getvalue())
        if not texts:
            self.assertEqual(told.getvalue(), "")

    @contextlib.contextmanager
    def rejected(self, *texts):
        """Has the body fail with one line that has these texts."""
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(downloads.InstallError) as caught:
            yield
        for text in texts:
            self.assertIn(text, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))


class Wheels(Scratch):
    def setUp(self):
        super().setUp()
        pins = [write_wheel(self.index, "large"), write_wheel(self.index, "small", "2.1")]
        self.pins = self.folder / "wheels.txt"
        self.pins.write_text("".join(f"both {downloads.PYTHON_VERSION} {pin.package}=={pin.version} {pin.sha256}\n" for pin in pins))
        for name, value in {"PINS": self.pins, "runs_pinned_wheels": lambda: True}.items():
            patched = mock.patch.object(downloads, name, value)
            patched.start()
            self.addCleanup(patched.stop)

    def install(self, name="first"):
        folder = self.home / name
        downloads.install("both", ["large==1.0"], folder, self.home)
        return sorted(path.name for path in folder.glob("*.py"))

    def test_a_second_clone_needs_no_network(self):
        with self.said("getting large==1.0 (once"):
            self.assertEqual(self.install(), ["large.py", "small.py"])
        self.take_network()
        with self.said(f"taking large==1.0 from the cache '{self.cache}'"):
            self.assertEqual(self.install("second"), ["large.py", "small.py"])
        self.assertEqual([path.name for path in self.cache.iterdir() if path.name.startswith(downloads.UNFINISHED)], [])

    def test_a_damaged_file_is_named_and_fetched_again(self):
        with self.said("getting"):
            self.install()
        damaged = next(path for path in self.kept() if path.name.startswith("small"))
        damaged.write_bytes(damaged.read_bytes() + b"?")
        with self.said(f"'{damaged}' is damaged", "getting small 2.1 (once, into"):
            self.assertEqual(self.install("second"), ["large.py", "small.py"])
        self.take_network()
        with self.said("from the cache"):
            self.install("third")

    def test_a_damaged_file_is_not_used_without_network(self):
        with self.said("getting"):
            self.install()
        damaged = next(path for path in self.kept() if path.name.startswith("small"))
        damaged.write_bytes(b"")
        self.take_network()
        with self.rejected("pip download of small 2.1 failed"):
            self.install("second")

    def test_a_file_that_no_pin_names_is_rejected_and_not_kept(self):
        write_wheel(self.index, "small", "2.1")
        with zipfile.ZipFile(self.index / "small-2.1-py3-none-any.whl", "a") as archive:
            archive.writestr("other.py", "")
        with self.rejected("pip download of large 1.0 and 1 more failed", "which is not the pinned one"):
            self.install()
        self.assertEqual(self.kept(), [])

    def test_without_the_variable_nothing_is_kept(self):
        self.change(**{downloads.VARIABLE: ""})
        with self.said(f"getting large==1.0 (once, into {self.home})"):
            self.assertEqual(self.install(), ["large.py", "small.py"])
        self.assertEqual([path.name for path in self.home.iterdir()], ["first"])
        self.assertFalse(self.cache.exists())

    def test_a_cache_that_is_no_folder_is_one_line(self):
        self.cache.write_text("a file")
        with self.rejected(downloads.VARIABLE, "where no files can be kept", "name another folder, or unset"):
            self.install()
        self.change(**{downloads.VARIABLE: "cache"})
        with self.rejected("'cache', which is not an absolute path"):
            self.install()

    def test_what_a_killed_process_left_is_removed(self):
        left = self.cache / f"{downloads.UNFINISHED}x"
        left.mkdir(parents=True)
        (left / "part.whl").touch()
        with self.said("getting"):
            self.install()
        self.assertFalse(left.exists())

    def test_clones_that_download_at_the_same_time_wait_for_each_other(self):
        fetched, download = [], downloads.download_wheels

        def slow(wheels, folder):
            fetched.extend(map(str, wheels))
            time.sleep(0.5)
            download(wheels, folder)

        def get():
            with downloads.fetched(downloads.pinned("both"), self.home) as files:
                found.append(files)

        found = []
        with mock.patch.object(downloads, "download_wheels", slow), self.said("waiting: another process adds files"):
            threads = [threading.Thread(target=get) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(fetched, ["large 1.0", "small 2.1"])
        self.assertEqual(len(found), 3)
        self.assertEqual(found[0], found[1])

    def test_without_pins_pip_picks_the_versions(self):
        self.pins.write_text("both 2.7 large==1.0 0\n")
        with self.said("getting large==1.0", "not kept in the cache: wheels.txt pins nothing"):
            self.assertEqual(self.install(), ["large.py"])
        self.assertEqual(self.kept(), [])


class Debian(Scratch):
    def content(self, package="libx", version=None):
        with downloads.fetched([downloads.Debian(package, version)], self.home) as (path,):
            return path.read_text()

    def test_a_second_clone_needs_no_network(self):
        with self.said("getting libx"):
            self.content()
        self.take_network()
        with self.said("taking libx from the cache"):
            self.assertEqual(self.content(), "content of libx\n")
        self.assertEqual(self.calls(), ["download -q libx"])

    def test_a_damaged_file_is_named_and_fetched_again(self):
        with self.said("getting libx"):
            self.content()
        self.kept()[0].write_text("?")
        with self.said("is damaged", "getting libx"):
            self.assertEqual(self.content(), "content of libx\n")

    def test_another_version_is_another_file(self):
        with self.said("getting libx"):
            self.content(version="1:2.0-1")
        self.take_network()
        with self.said("from the cache"):
            self.content(version="1:2.0-1")
        with self.rejected("libx could not be downloaded (E: no network): install it with 'apt-get install libx'"):
            self.content(version="1:2.0-2")

    def test_a_file_that_apt_could_not_verify_is_not_taken(self):
        self.change(UNVERIFIED="Hash Sum mismatch")
        with self.rejected("libx could not be downloaded (E: Hash Sum mismatch): install it with 'apt-get install libx'"):
            self.content()
        self.assertEqual(list(self.cache.rglob("*.deb")), [])

    def test_without_the_variable_nothing_is_kept(self):
        self.change(**{downloads.VARIABLE: ""})
        with self.said(f"getting libx (once, into {self.home})"):
            self.content()
        self.assertEqual(list(self.home.iterdir()), [])

    def test_what_apt_would_install_is_fetched_in_those_versions(self):
        plan = "Inst liba (1.0-2 Debian:12/stable [amd64])\nInst libb [1.0] (2:3.0-1+b1 Debian:12/stable [amd64])\nConf liba (1.0-2 Debian)\n"
        with mock.patch.object(runtimes, "run", return_value=plan):
            self.assertEqual(runtimes.packages_for("libb"), [("liba", "1.0-2"), ("libb", "2:3.0-1+b1")])


class Pins(unittest.TestCase):
    """wheels.txt has what the installers ask for; scripts/pin-wheels writes it."""

    def test_each_line_is_a_pin(self):
        lines = [line for line in downloads.PINS.read_text().splitlines() if not line.startswith("#")]
        for line in lines:
            self.assertRegex(line, r"^[a-z-]+ (3\.\d+,?)+ [a-z0-9._-]+==\S+ [0-9a-f]{64}$")
        self.assertEqual(len(lines), len(set(lines)))

    def test_pins_are_of_the_versions_that_the_installers_ask_for(self):
        sets = {runtimes.set_name(runtime, older): runtimes.specifiers(runtime, older) for runtime in runtimes.PACKAGES for older in (False, True)}
        for version in ("3.11", "3.12"):
            of_version = {**sets, install.CLIENT: install.client_specifiers(version), install.MODEL_PYTHON: install.NUMPY}
            for name, specifiers in of_version.items():
                pinned = {wheel.package: wheel.version for wheel in downloads.pinned(name, version)}
                exact = (re.fullmatch(r"([\w-]+)(?:\[.*\])?==(.+)", specifier) for specifier in specifiers)
                for package, expected in (found.groups() for found in exact if found):
                    with self.subTest(set=name, python=version, package=package):
                        self.assertEqual(pinned.get(package), expected, "run scripts/pin-wheels")
                self.assertIn("numpy", pinned, f"{name} for Python {version}: run scripts/pin-wheels")

    def test_the_wheel_of_silero_vad_is_pinned_alone(self):
        for version in ("3.11", "3.12"):
            (pinned,) = downloads.pinned(wheel.SET, version)
            self.assertEqual([f"{pinned.package}=={pinned.version}"], wheel.SPECIFIERS, "run scripts/pin-wheels")

    def test_the_schemas_of_kubernetes_are_pinned(self):
        for version in ("3.11", "3.12"):
            pinned = {f"{wheel.package}=={wheel.version}" for wheel in downloads.pinned(kubernetes.SET, version)}
            self.assertEqual(set(kubernetes.SPECIFIERS) - pinned, set(), "run scripts/pin-wheels")
            self.assertGreater(len(pinned), 1, "run scripts/pin-wheels")

    def test_each_python_of_with_triton_has_a_client_and_numpy(self):
        for version in ("3.8", "3.9", "3.10", "3.11", "3.12"):
            pinned = {wheel.package: wheel for wheel in downloads.pinned(install.CLIENT, version)}
            self.assertEqual((pinned["tritonclient"].version, pinned["tritonclient"].sha256), install.TRITONCLIENT)
            (numpy,) = downloads.pinned(install.MODEL_PYTHON, version)
            self.assertTrue(numpy.version.startswith("1."), numpy)


def load_packages():
    """The script scripts/packages as a module."""
    loader = importlib.machinery.SourceFileLoader("packages", str(ROOT / "scripts/packages"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("packages", loader))
    with mock.patch.object(sys, "dont_write_bytecode", True):
        loader.exec_module(module)
    return module


class Packages(Scratch):
    def setUp(self):
        super().setUp()
        self.packages = load_packages()
        row = self.packages.Package("stress-browser", "stress-browser-of-tests", ["a_page_is_drawn", "a_page_is_whole"])
        rows = mock.patch.object(self.packages, "PACKAGES", [row])
        rows.start()
        self.addCleanup(rows.stop)

    def run_as(self, user):
        with mock.patch.object(os, "geteuid", return_value=user), contextlib.redirect_stdout(io.StringIO()) as printed:
            self.packages.main()
        return printed.getvalue()

    def test_root_with_apt_get_installs_what_is_missing(self):
        self.change(INSTALLED=str(self.folder / "bin/stress-browser-of-tests"))
        with self.said("packages: installing stress-browser"):
            self.assertEqual(self.run_as(0), "")
        options = " ".join(self.packages.OPTIONS)
        self.assertEqual(self.calls(), [f"{options} update", f"{options} install -y --no-install-recommends stress-browser"])
        with self.said():
            self.assertEqual(self.run_as(0), "")

    def test_others_skip_the_tests_aloud(self):
        with self.said("skipping tests: 'stress-browser-of-tests' is missing (Debian package stress-browser): a_page_is_drawn, a_page_is_whole"):
            self.assertEqual(self.run_as(1000), "stress-browser a_page_is_drawn\nstress-browser a_page_is_whole\n")
        self.assertEqual(self.calls(), [])

    def test_root_without_apt_get_skips_the_tests_aloud(self):
        self.change(PATH=str(self.folder / "empty"))
        with self.said("Debian package stress-browser"):
            self.assertIn("stress-browser a_page_is_drawn", self.run_as(0))

    def test_an_installation_that_fails_is_one_line(self):
        self.change(REFUSED="Unable to locate package")
        with self.said("installing"), self.assertRaisesRegex(SystemExit, r"^packages: 'apt-get update' failed: E: Unable to locate package$"):
            self.run_as(0)

    def test_a_library_is_unpacked_where_there_is_apt_get(self):
        row = self.packages.Package("libx", "libx-of-tests.so.1", ["a_library_is_used"], is_library=True)
        with mock.patch.object(self.packages, "PACKAGES", [row]):
            with self.said():
                self.assertEqual(self.run_as(1000), "")
            self.change(PATH=str(self.folder / "empty"))
            with self.said("skipping tests: 'libx-of-tests.so.1' is missing (Debian package libx)"):
                self.assertEqual(self.run_as(1000), "libx a_library_is_used\n")


class Table(unittest.TestCase):
    def setUp(self):
        self.packages = load_packages().PACKAGES
        self.sources = {path: path.read_text() for path in (ROOT / "tests").rglob("*.rs")}

    def test_each_test_of_the_table_is_one(self):
        names = [name for source in self.sources.values() for name in re.findall(r"^\s*(?:async )?fn (\w+)\(", source, re.MULTILINE)]
        for test in (test for package in self.packages for test in package.needed_by):
            module, dot, name = test.rpartition(".")
            with self.subTest(test=test):
                if dot:
                    self.assertTrue(issubclass(getattr(importlib.import_module(module), name), unittest.TestCase))
                    self.assertIn(module, gate.UNIT_TESTS)
                    continue
                # cargo test skips every test whose name contains the text.
                self.assertEqual([name for name in names if test in name], [test])

    def test_each_engine_is_in_the_table_with_its_tests(self):
        rows = {package.name: package for package in self.packages}
        for name, engine in launch.ENGINES.items():
            if engine.package:
                self.assertEqual(launch.is_here(name), rows[engine.package].is_here())
                for module in (launch_tests, tool_tests):
                    (tests,) = (case for case in vars(module).values() if isinstance(case, type) and getattr(case, "name", None) == name)
                    self.assertIn(f"{tests.__module__}.{tests.__name__}", rows[engine.package].needed_by)

    def test_each_file_that_runs_kill_is_in_the_table(self):
        (procps,) = (package for package in self.packages if package.name == "procps")
        for path, source in self.sources.items():
            if 'Command::new("kill")' in source:
                self.assertTrue(any(f"fn {test}(" in source for test in procps.needed_by), path)


if __name__ == "__main__":
    unittest.main()
