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
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("SEQUENCE_STRESS_MODELS_DIR", ROOT / ".models"))
SECONDS = 900
PACKAGES = ["numpy==2.4.6", "onnx==1.23.2", "onnxruntime==1.32.0", "openvino==2026.4.1"]
TENSORFLOW = ["tensorflow-cpu==2.21.0"]
# PyPI's torch does not come without CUDA's libraries.
DEBIAN_PYTHON = Path("/usr/bin/python3")
TORCH = "python3-torch"


class InstallError(Exception):
    """What could not be installed, why, and what to do, on one line."""


def once(folder, make):
    """The path of `folder` under HOME, made by `make(path of an empty folder)` the first time, whole or not at all."""
    done = HOME / folder
    if not done.is_dir():
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as scratch:
            unfinished = Path(scratch) / "unfinished"
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(done)
    return done


def run(command, **more):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, **more)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise InstallError(f"{' '.join(command[:4])} did not end well: {problem}")
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise InstallError(f"{' '.join(command[:4])} failed: {last}")
    return done.stdout


def from_pypi(name, packages):
    """The command and the environment of a Python that has these packages."""

    def make(folder):
        print(f"verify-models: getting {', '.join(packages)} (once, into {HOME})", file=sys.stderr)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--only-binary=:all:"]
        run([*pip, "--target", str(folder), *packages])

    versions = "-".join(re.findall(r"==([^ ]+)", " ".join(packages)))
    folder = once(f"{name}-python-{sys.version_info.major}.{sys.version_info.minor}-{versions}", make)
    return [sys.executable], {"PYTHONPATH": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}


def python_of(runtime):
    """The command and the environment of a Python that has this runtime."""
    if runtime == "torch":
        return torch()
    return from_pypi("tensorflow", TENSORFLOW) if runtime == "tensorflow" else from_pypi("pypi", PACKAGES)


def torch():
    """The command and the environment of Debian's Python with its torch."""
    if not (shutil.which("apt-get") and DEBIAN_PYTHON.exists()):
        raise InstallError("torch comes from Debian here, and this system has no apt-get: TorchScript is not run")

    def make(folder):
        plan = run(["apt-get", "install", "--simulate", "--no-install-recommends", TORCH])
        packages = re.findall(r"^Inst (\S+)", plan, re.MULTILINE)
        print(f"verify-models: getting {TORCH} and what it needs, {len(packages)} packages (once, into {HOME})", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=HOME) as scratch:
            # apt downloads as a user of its own.
            os.chmod(scratch, 0o777)
            run(["apt-get", "download", "-q", *packages], cwd=scratch)
            for archive in Path(scratch).glob("*.deb"):
                run(["dpkg", "-x", str(archive), str(folder)])

    root = installed_torch() or once(TORCH, make)
    system = root / f"usr/lib/{platform.machine()}-linux-gnu"
    libraries = [system, system / "blas", system / "lapack", root / "usr/lib", root / f"lib/{platform.machine()}-linux-gnu"]
    environment = {"LD_LIBRARY_PATH": ":".join(map(str, libraries)), "PYTHONPATH": str(root / "usr/lib/python3/dist-packages")}
    return [str(DEBIAN_PYTHON)], environment


def installed_torch():
    """The root of a system that has torch already."""
    return Path("/") if Path("/usr/lib/python3/dist-packages/torch").is_dir() else None
