"""Gets the real tritonserver, what its Python backend needs, perf_analyzer and NVIDIA's client into an ignored folder, once.

Everything is pinned by version and by hash, comes from the package index that `pip` is set up for, and lands in
`.triton/` at the root of the repository (or in $SEQUENCE_STRESS_TRITON_DIR). scripts/downloads.py keeps the downloaded files for
other clones where $SEQUENCE_STRESS_CACHE names a folder.
"""

import contextlib
import fcntl
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import downloads
from downloads import PIP_SECONDS, PYTHON_VERSION, InstallError

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("SEQUENCE_STRESS_TRITON_DIR", ROOT / ".triton"))

# Triton release -> (version of the nvidia-pytriton wheel that carries it, the wheel's SHA-256)
RELEASES = {
    "23.04": ("0.2.0", "25702845ab2df3d43458c575bc97709924ff0877ccf239e0fcb07975cfbe11de"),
    "23.07": ("0.3.1", "cf885f5581d3585ca2eb8c372e9d914e1ba1f6266fe8a7c057083d3e4a874a71"),
    "23.10": ("0.4.2", "8f79e8bda28961a49d5c64474c17664e10b1bb08018b7ee7bcbd81bcff86e266"),
    "24.01": ("0.5.1", "e02a98893f3c2503f542fa8273c3a63762e59b82858b5254738fc51a4f95a430"),
    "24.03": ("0.5.5", "986ee75b8fb67bba9e3b0058bd5ff3981b17be3b88e178b0b60971d89ba42a63"),
    "24.05": ("0.5.8", "cd3cdfb704db3a01f857adc97fea77d5413c9f9e89f9b7add91c9d16a0bec7f8"),
    "24.08": ("0.5.11", "4f3e20b0e10e1f3dc9190a15be51fe308b796c11d1f018cb34b9915ca2cb54c9"),
    "24.10": ("0.7.0", "21f063ff93bb426d0c06b7a55e7eb9efcfe62c0dddd9a908e9877e18710128df"),
}
DEFAULT_RELEASE = "24.10"
TRITONCLIENT = ("2.50.0", "421fbb69ae6ab8cdb2c35b82134fcef2fe11e7af7718b1fcbc53335ab9bfe889")
# The sets of wheels.txt.
CLIENT = "client"
MODEL_PYTHON = "model-python"
# The backend's stub was built against numpy 1: with numpy 2 it takes every tensor for one of 0 bytes.
NUMPY = ["numpy>=1.21,<2"]
STUB = "triton_python_backend_stub"


@contextlib.contextmanager
def locked(home):
    """Lets one process at a time install."""
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def once(folder, make, home=HOME):
    """The path of `folder` under `home`, made by `make(path of an empty folder)` the first time, whole or not at all."""
    done = home / folder
    if done.is_dir():
        return done
    with locked(home):
        if not done.is_dir():
            with tempfile.TemporaryDirectory(dir=home) as scratch:
                unfinished = Path(scratch) / "unfinished"
                unfinished.mkdir()
                make(unfinished)
                unfinished.rename(done)
    return done


def fetch_wheel(package, version, sha256, into, python=None):
    """Unzips the one wheel of `package==version` into the folder `into`, after checking its SHA-256; `python` is the version of Python
    that it is for, if that is not this one."""
    with downloads.fetched([downloads.Wheel(package, version, sha256, python)], HOME) as (wheel,), zipfile.ZipFile(wheel) as archive:
        archive.extractall(into)


def server(release):
    """The folder of the unzipped wheel that carries the tritonserver of `release`."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise InstallError(f"there is a tritonserver wheel for Linux on x86_64 only, not for {platform.system()} on {platform.machine()}")
    version, sha256 = RELEASES[release]

    def make(folder):
        fetch_wheel("nvidia-pytriton", version, sha256, folder)
        executable(folder / "pytriton/tritonserver/bin/tritonserver")

    return once(f"nvidia-pytriton-{version}", make)


def python_backend(release):
    """The folder of the Python backend of `release`, with the stub for this Python beside it, where the backend looks for it."""
    triton = server(release) / "pytriton/tritonserver"
    stubs = triton / "python_backend_stubs"
    stub = stubs / PYTHON_VERSION / STUB
    if not stubs.is_dir():
        raise InstallError(
            f"release {release} has no Python-backend stub for the Python in use, so it cannot serve the Python models: "
            "pick 23.07 or a later one, or serve native models alone"
        )
    if not stub.is_file():
        versions = ", ".join(sorted(path.name for path in stubs.iterdir()))
        raise InstallError(
            f"release {release} has Python-backend stubs for Python {versions}, not for {PYTHON_VERSION}: "
            "run with-triton with one of those, or serve native models alone"
        )

    def make(folder):
        for source in (*(triton / "backends/python").glob("*.*"), stub):
            shutil.copy2(source, folder)
        executable(folder / STUB)

    return once(f"python-backend-{RELEASES[release][0]}-python-{PYTHON_VERSION}", make)


def executable(path):
    path.chmod(path.stat().st_mode | 0o111)


def model_python():
    """A virtual environment with the Python packages that the models import; the backend's stub finds it by PATH."""

    def make(folder):
        if sys.version_info >= (3, 13):
            raise InstallError(
                f"the Python backend needs numpy 1, which Python {PYTHON_VERSION} does not have: "
                "run with-triton with Python 3.9 to 3.12, or serve native models alone"
            )
        # Without pip: some systems ship the module venv without what it needs to install pip.
        venv.create(folder, with_pip=False)
        (packages,) = folder.glob("lib/python*/site-packages")
        downloads.install(MODEL_PYTHON, NUMPY, packages, HOME)

    return once(f"model-python-{PYTHON_VERSION}-numpy-1", make)


def client_packages():
    """A folder with NVIDIA's Python client, whose descriptors the protocol is compared with."""
    version, _ = TRITONCLIENT
    return once(
        f"tritonclient-{version}-grpc-http-python-{PYTHON_VERSION}",
        lambda folder: downloads.install(CLIENT, client_specifiers(PYTHON_VERSION), folder, HOME),
    )


def client_specifiers(python):
    """What pip needs for NVIDIA's client on a version of Python."""
    version, _ = TRITONCLIENT
    if python == "3.12":
        # The client asks for geventhttpclient 2.0.2, which has no wheel for Python 3.12; 2.0.12 has one, and the same interface.
        return [f"tritonclient[grpc]=={version}", "aiohttp>=3.8.1,<4", "geventhttpclient==2.0.12"]
    return [f"tritonclient[grpc,http]=={version}"]


def system_library(name):
    """The folder of a shared library of this system or of this Python; None where there is none."""
    places = [sysconfig.get_config_var("LIBDIR"), f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64", "/usr/lib"]
    return next((Path(place) for place in places if place and (Path(place) / name).exists()), None)


def python_library_folder():
    """The folder that holds this Python's shared library, which the Python backend's stub is linked to."""
    package = f"libpython{PYTHON_VERSION}"
    folder = system_library(f"{package}.so.1.0")
    if folder:
        return folder
    return once(package, lambda folder: unpack_debian_package(package, folder)) / f"usr/lib/{platform.machine()}-linux-gnu"


def unpack_debian_package(package, folder, home=HOME):
    """Unpacks a Debian package into `folder` within `home`, without installing it."""
    with downloads.fetched([downloads.Debian(package)], home) as archives:
        unpack(archives, folder)


def unpack(archives, folder):
    """Unpacks files of Debian packages into `folder`."""
    for archive in archives:
        command = ["dpkg", "-x", str(archive), str(folder)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PIP_SECONDS, check=False)
        if done.returncode:
            raise InstallError(f"dpkg cannot unpack '{archive}': {done.stdout.strip()}")


def perf_analyzer():
    """The path of NVIDIA's C++ perf_analyzer, and the folders that its libraries are in."""
    version, sha256 = TRITONCLIENT
    libraries = server(DEFAULT_RELEASE) / "nvidia_pytriton.libs"

    def make(folder):
        fetch_wheel("tritonclient", version, sha256, folder)
        executable(folder / f"tritonclient-{version}.data/data/bin/perf_analyzer")
        if not system_library("libb64.so.0d"):
            unpack_debian_package("libb64-0d", folder)
        (cudart,) = libraries.glob("libcudart-*.so.*")
        (folder / "lib").mkdir()
        (folder / "lib/libcudart.so.12").symlink_to(cudart)

    folder = once(f"perf-analyzer-{version}", make)
    binary = folder / f"tritonclient-{version}.data/data/bin/perf_analyzer"
    return binary, [folder / "lib", folder / f"usr/lib/{platform.machine()}-linux-gnu", libraries]


def main():
    """`install.py client` prints where NVIDIA's client is, `install.py analyzer` where perf_analyzer is and, on the next line,
    its libraries; `install.py server RELEASE…` gets servers, `install.py python RELEASE…` what they need for Python models."""
    try:
        if sys.argv[1:] == ["client"]:
            print(client_packages())
        elif sys.argv[1:] == ["analyzer"]:
            binary, libraries = perf_analyzer()
            print(binary, ":".join(map(str, libraries)), sep="\n")
        elif sys.argv[1:2] == ["server"]:
            for release in sys.argv[2:]:
                server(release)
        elif sys.argv[1:2] == ["python"]:
            model_python()
            python_library_folder()
            for release in sys.argv[2:]:
                python_backend(release)
        else:
            sys.exit("usage: install.py client | analyzer | server RELEASE ... | python RELEASE ...")
    except InstallError as problem:
        sys.exit(f"install: {problem}")


if __name__ == "__main__":
    main()
