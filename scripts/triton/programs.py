"""The programs that serve models: the tritonserver of a release, an installed one, and the front ends of a newer release before a core.

The last is a hybrid: no release has both parts. It shows whether a fault is in the front ends or in the core.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

from . import install

# The release of the front ends -> (version of the tritonfrontend wheel that carries them, the wheel's SHA-256)
FRONTENDS = {
    "26.08": ("2.72.0", "1b36fcdf9c98d6b99b495f8cfca156aa5bb149bcbe8d7a62f070e42eb0eff020"),
}
# The extension in the wheel is built for this Python alone.
FRONTEND_PYTHON = "3.12"
HYBRID, SERVER = "hybrid-", "server-"
FRONT = Path(__file__).resolve().parent / "front.py"
BACKENDS, TRITONSERVER = "backends", "bin/tritonserver"
# The version of a server -> its release: what configurations may hold goes by the release.
VERSIONS = {
    "2.33": "23.04",
    "2.36": "23.07",
    "2.39": "23.10",
    "2.42": "24.01",
    "2.44": "24.03",
    "2.46": "24.05",
    "2.49": "24.08",
    "2.51": "24.10",
    "2.72": "26.08",
}
PYTHON_SECONDS = 20

Python = collections.namedtuple("Python", "backend path libraries")
Python.__doc__ = """The Python backend of a program: its folder, a folder for PATH before all others or None, and folders of libraries."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that serves models, and understands tritonserver's flags."""

    # A short name, which is also that of files.
    name: str
    # What messages call it.
    label: str
    # The release whose configurations its core knows; None as long as nobody asked it its version.
    release: str | None
    # The words before its flags.
    words: tuple
    # Folders of the libraries that it needs.
    libraries: tuple
    # The options of with-triton that start it.
    options: tuple
    # The file that its front ends are in.
    front_ends: Path
    # The folder of its own backends, where it has some.
    backends: Path | None = None

    def knows(self, variable):
        """Whether its front ends read a variable of the environment: the name is in the file that they are in."""
        return holds(self.front_ends, variable)

    def python(self):
        """Its Python backend."""
        if self.backends is None:
            return Python(install.python_backend(self.release), install.model_python() / "bin", [install.python_library_folder()])
        folder = self.backends / "python"
        if not folder.is_dir():
            raise install.InstallError(f"{self.label} has no Python backend: there is no folder '{folder}'")
        return Python(folder, None, [])


def names():
    """What `named` knows: the releases in their order, then the hybrids."""
    return [*install.RELEASES, *(HYBRID + frontend for frontend in FRONTENDS)]


def is_release(name):
    """Whether a server of this name has a place among the releases, in their order."""
    return not name.startswith((HYBRID, SERVER))


def named(name):
    """The program of a release, or a hybrid with the core of the default release."""
    if name.startswith(HYBRID):
        return hybrid(name.removeprefix(HYBRID))
    wheel = install.server(name)
    binary = wheel / "pytriton/tritonserver" / TRITONSERVER
    return Program(name, f"tritonserver {name}", name, (str(binary),), (wheel / "nvidia_pytriton.libs",), ("--release", name), binary)


def hybrid(frontend, library=None):
    """The front ends of a release before the core of the default release, or before the libtritonserver in a file."""
    wheel = install.server(install.DEFAULT_RELEASE) / "nvidia_pytriton.libs"
    name, release, options = HYBRID + frontend, install.DEFAULT_RELEASE, ["--frontend", frontend]
    label = f"{name} (front ends of {frontend}, core of {release})"
    if library is None:
        (core,) = wheel.glob("libtritonserver-*.so")
    else:
        core = Path(library).resolve()
        if not core.is_file():
            raise install.InstallError(f"there is no library '{library}'")
        label = f"{name} (front ends of {frontend}, core of '{library}')"
        name, release, options = f"{name}-library", None, [*options, "--library", str(library)]
    extension = front_ends(frontend)
    words = (python(), str(FRONT), f"--front-ends={extension}", f"--core={core}", f"--id={HYBRID}{frontend}")
    return Program(name, label, release, words, (core.parent, wheel), tuple(options), extension)


def front_ends(frontend):
    """The file that has the front ends of a release: an extension of Python."""
    version, sha256 = FRONTENDS[frontend]

    def make(folder):
        install.fetch_wheel("tritonfrontend", version, sha256, folder, python=FRONTEND_PYTHON)

    (extension,) = install.once(f"tritonfrontend-{version}", make).glob("tritonfrontend/_c/tritonfrontend_bindings*.so")
    return extension


@functools.cache
def holds(file, text):
    """Whether a file has these bytes."""
    return text.encode() + b"\0" in file.read_bytes()


@functools.cache
def python():
    """An interpreter of the version that the front ends are built for."""
    name = f"python{FRONTEND_PYTHON}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [sys.executable, shutil.which(name), *sorted(pyenv.glob(f"versions/{FRONTEND_PYTHON}*/bin/{name}"))]
    asks = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(None, map(str, candidates)):
        try:
            done = subprocess.run([candidate, "-c", asks], capture_output=True, text=True, timeout=PYTHON_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.stdout.strip() == FRONTEND_PYTHON:
            return candidate
    raise install.InstallError(f"the front ends need Python {FRONTEND_PYTHON}, and there is no {name}: install it, or leave the hybrid out")


def installed(folder):
    """The tritonserver in a folder as NVIDIA's images have it at /opt/tritonserver, with its own backends."""
    place = Path(folder).resolve()
    binary = place / TRITONSERVER
    if not os.access(binary, os.X_OK):
        raise install.InstallError(f"'{folder}' has no tritonserver: there is no program '{binary}'")
    if not (place / BACKENDS).is_dir():
        raise install.InstallError(f"'{folder}' has no backends: there is no folder '{place / BACKENDS}'")
    libraries = tuple(path for path in (place / "lib", place / "lib64") if path.is_dir())
    return Program(SERVER.rstrip("-"), f"the tritonserver of '{folder}'", None, (str(binary),), libraries, ("--server", str(folder)), binary, place / BACKENDS)


def told(program, version):
    """A program that was asked its version, such as 2.51.0: the newest release of the table that is not newer is taken for its own."""
    try:
        numbers = parsed(version)
    except ValueError:
        raise install.InstallError(f"{program.label} says that its version is '{version}', which is no version such as 2.51.0") from None
    older = [release for known, release in VERSIONS.items() if parsed(known) <= numbers]
    if not older:
        raise install.InstallError(f"{program.label} is of version {version}: the oldest that is served with is {next(iter(VERSIONS))}")
    return dataclasses.replace(program, name=f"{program.name}-{version}", label=f"{program.label}, {version}", release=older[-1])


def told_apart(served):
    """The programs, each with a name of its own: those of one version get numbers."""
    names, apart = collections.Counter(), []
    for program in served:
        names[program.name] += 1
        number = names[program.name]
        apart.append(program if number == 1 else dataclasses.replace(program, name=f"{program.name}-{number}"))
    return apart


def parsed(version):
    return tuple(map(int, version.split(".")[:2]))
