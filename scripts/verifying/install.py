"""Gets the runtimes that run model files into an ignored folder, once: from PyPI, and torch from Debian.

The folder is `.models/` at the root of the repository (or $SEQUENCE_STRESS_MODELS_DIR). Nothing is installed on the system: Debian's
packages are unpacked.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import downloads
from downloads import PIP_SECONDS, InstallError
from triton.install import ROOT, once, unpack

HOME = Path(os.environ.get("SEQUENCE_STRESS_MODELS_DIR", ROOT / ".models"))
PACKAGES = {
    "onnxruntime": ["numpy==2.4.6", "onnx==1.23.2", "onnxruntime==1.32.0"],
    "openvino": ["numpy==2.4.6", "openvino==2026.4.1"],
    "tensorflow": ["tensorflow-cpu==2.21.0"],
}
# As servers of 2024 have them.
OLDER = {
    **PACKAGES,
    "onnxruntime": ["numpy==1.26.4", "onnx==1.16.2", "onnxruntime==1.19.2"],
    "openvino": ["numpy==1.26.4", "openvino==2024.4.0"],
}
# PyPI's torch does not come without CUDA's libraries.
DEBIAN_PYTHON = Path("/usr/bin/python3")
TORCH = "python3-torch"


def specifiers(runtime, is_older):
    """What pip needs for a runtime."""
    return (OLDER if is_older else PACKAGES)[runtime]


def set_name(runtime, is_older):
    """The set of wheels.txt that a runtime is."""
    is_other = specifiers(runtime, True) != PACKAGES[runtime]
    return f"{runtime}-older" if is_older and is_other else runtime


def folder_name(name, is_older):
    """The folder of a runtime of PyPI, within HOME."""
    versions = "-".join(re.findall(r"==([^ ]+)", " ".join(specifiers(name, is_older))))
    return f"{name}-python-{sys.version_info.major}.{sys.version_info.minor}-{versions}"


def from_pypi(name, is_older):
    """The command and the environment of a Python that has a runtime of PyPI."""

    def make(folder):
        downloads.install(set_name(name, is_older), specifiers(name, is_older), folder, HOME)

    folder = once(folder_name(name, is_older), make, HOME)
    return [sys.executable], {"PYTHONPATH": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}


def python_of(runtime, is_older):
    """The command and the environment of a Python that has this runtime."""
    if runtime == "torch":
        return torch()
    return from_pypi(runtime, is_older)


def debian_python_version():
    """The version of Debian's Python, as in 3.11."""
    return run([str(DEBIAN_PYTHON), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()


def torch():
    """The command and the environment of Debian's Python with its torch."""
    if not (shutil.which("apt-get") and DEBIAN_PYTHON.exists()):
        raise InstallError("torch comes from Debian here, and this system has no apt-get: TorchScript is not run")

    def make(folder):
        with downloads.fetched(packages_for(TORCH), HOME) as archives:
            unpack(archives, folder)

    root = installed_torch() or once(TORCH, make, HOME)
    system = root / f"usr/lib/{platform.machine()}-linux-gnu"
    libraries = [system, system / "blas", system / "lapack", root / "usr/lib", root / f"lib/{platform.machine()}-linux-gnu"]
    environment = {"LD_LIBRARY_PATH": ":".join(map(str, libraries)), "PYTHONPATH": str(root / "usr/lib/python3/dist-packages")}
    return [str(DEBIAN_PYTHON)], environment


def packages_for(package):
    """A Debian package and what it needs of what is not on this system, in the versions that apt would install."""
    plan = ["apt-get", "install", "--simulate", "--no-install-recommends", package]
    try:
        planned = run(plan)
    except InstallError:
        # A system that never looked what packages there are knows none.
        run(["apt-get", "update", "-q"])
        planned = run(plan)
    return [downloads.Debian(*found) for found in re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) ", planned, re.MULTILINE)]


def run(command, **more):
    """What a command prints."""
    what = " ".join(command[:3])
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PIP_SECONDS, check=False, **more)
    except subprocess.TimeoutExpired:
        raise InstallError(f"{what} took over {PIP_SECONDS} s: are the system's package sources reachable?") from None
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise InstallError(f"{what} failed: {last}")
    return done.stdout


def installed_torch():
    """The root of a system that has torch already."""
    return Path("/") if Path("/usr/lib/python3/dist-packages/torch").is_dir() else None
