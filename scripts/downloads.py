"""Downloads Python packages and Debian packages, and keeps the files in the folder that $SEQUENCE_STRESS_CACHE names.

`wheels.txt` pins the Python packages by version and SHA-256. Debian packages have no pin: apt verifies a Debian package when apt
downloads the file, and the cache records the file's SHA-256 then. Each file is verified before each use.

The cache is `wheels/SHA256/FILE` and `debian/SYSTEM/PACKAGE/SHA256/FILE`. Files come by a rename, so a file in the cache is whole.
"""

import collections
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VARIABLE = "SEQUENCE_STRESS_CACHE"
PINS = Path(__file__).resolve().parent / "wheels.txt"
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
OS_RELEASE = Path("/etc/os-release")
# Every pinned wheel runs with this version of glibc.
OLDEST_GLIBC = (2, 28)
PIP_SECONDS = 900
BLOCK_BYTES = 1 << 20
UNFINISHED = "unfinished-"


class InstallError(Exception):
    """What could not be installed, why, and what to do, on one line."""


class Wheel(collections.namedtuple("Wheel", "package version sha256 python", defaults=[None])):
    """A Python package of which one file is pinned: for this Python, or for another version of it."""

    def __str__(self):
        return f"{self.package} {self.version}"


class Debian(collections.namedtuple("Debian", "package version", defaults=[None])):
    """A Debian package: of this version, or of the one that apt picks."""

    def __str__(self):
        return self.package


def say(text):
    program = Path(sys.argv[0]).name or "downloads"
    print(f"{program}: {text}", file=sys.stderr, flush=True)


def listed(items):
    """The first of some items, and how many others there are."""
    first, *others = map(str, items)
    return f"{first} and {len(others)} more" if others else first


def digest(path):
    """The SHA-256 of a file, as 64 hexadecimal digits."""
    computed = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            block = file.read(BLOCK_BYTES)
            if not block:
                return computed.hexdigest()
            computed.update(block)


def cache_folder():
    """The folder that $SEQUENCE_STRESS_CACHE names; None where the variable is unset or empty."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    if not os.path.isabs(name):
        raise InstallError(f"{VARIABLE} is '{name}', which is not an absolute path: name a folder by its absolute path, or unset {VARIABLE}")
    return Path(name)


def pip(what, *arguments):
    """Runs pip; `what` names the packages in an error."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PIP_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise InstallError(f"pip {arguments[0]} of {what} took over {PIP_SECONDS} s: is the package index reachable?") from None
    if done.returncode:
        other = re.search(r"Got +([0-9a-f]{64})", done.stdout)
        if other:
            raise InstallError(f"pip {arguments[0]} of {what} failed: the package index has a file with the SHA-256 {other[1]}, which is not the pinned one")
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise InstallError(f"pip {arguments[0]} of {what} failed: {last}")


def apt_download(packages, folder):
    """Downloads Debian packages into `folder`; learns what packages there are where apt does not know them yet."""
    if not shutil.which("apt-get"):
        raise InstallError(f"{listed(packages)}: not on this machine, and without apt-get not downloadable: install it with the system's package manager")
    download = ["apt-get", "download", "-q", *(f"{package}={version}" if version else package for package, version in packages)]
    for attempt in (download, ["apt-get", "update", "-q"], download):
        try:
            done = subprocess.run(attempt, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PIP_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise InstallError(f"{' '.join(attempt[:2])} took over {PIP_SECONDS} s: are the system's package sources reachable?") from None
        # The exit code tells that each file is what its source's signed index says.
        if attempt is download and done.returncode == 0 and len(list(folder.glob("*.deb"))) == len(packages):
            return
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    raise InstallError(f"{listed(packages)} could not be downloaded ({last}): install it with 'apt-get install {packages[0]}'")


def system():
    """The name and version of the operating system and its machine, as in `debian-12-x86_64`."""
    told = {}
    with contextlib.suppress(OSError):
        told = dict(re.findall(r'^(ID|VERSION_ID)="?([\w.]+)"?$', OS_RELEASE.read_text(), re.MULTILINE))
    return f"{told.get('ID', 'linux')}-{told.get('VERSION_ID', 'rolling')}-{platform.machine()}"


class Store:
    """A folder of downloaded files: the cache, or a temporary folder."""

    def __init__(self, folder, is_cache):
        self.folder, self.is_cache = folder, is_cache

    def files_of(self, item):
        """The files that may be the item's; the name of a file's folder is the file's SHA-256."""
        if isinstance(item, Wheel):
            return (self.folder / "wheels" / item.sha256).glob("*.whl")
        version = item.version.replace(":", "%3a") if item.version else "*"
        return (self.folder / "debian" / system() / item.package).glob(f"*/{item.package}_{version}_*.deb")

    def found(self, item):
        """The item's file; None where the store has no undamaged one."""
        return next((path for path in sorted(self.files_of(item)) if digest(path) == path.parent.name), None)

    def files(self, items, home, what):
        """The verified files of the items, in their order; fetches those that the store has not. `what` names the items in a message."""
        files = {item: self.found(item) for item in items}
        missing = [item for item in items if not files[item]]
        if self.is_cache and not missing:
            say(f"taking {what} from the cache '{self.folder}'")
        if missing:
            with self.locked():
                # Another process may have fetched them.
                missing = [item for item in missing if not self.found(item)]
                for item in missing:
                    self.remove_damaged(item)
                if missing:
                    say(f"getting {what if missing == items else listed(missing)} (once, into {self.folder if self.is_cache else home})")
                    self.fetch([item for item in missing if isinstance(item, Wheel)], download_wheels)
                    self.fetch([item for item in missing if isinstance(item, Debian)], apt_download)
            files = {item: files[item] or self.found(item) for item in items}
        for item in (item for item in items if not files[item]):
            raise InstallError(f"{item} was downloaded, and the file is not the pinned one")
        return [files[item] for item in items]

    def remove_damaged(self, item):
        for path in self.files_of(item):
            if digest(path) != path.parent.name:
                say(f"'{path}' is damaged: the file's SHA-256 is not {path.parent.name}; fetching the file again")
                shutil.rmtree(path.parent)

    @contextlib.contextmanager
    def locked(self):
        """Lets one process at a time add files to the cache."""
        if not self.is_cache:
            yield
            return
        with open(self.folder / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"waiting: another process adds files to the cache '{self.folder}'")
                fcntl.flock(lock, fcntl.LOCK_EX)
            # A process that was killed left them.
            for folder in self.folder.glob(f"{UNFINISHED}*"):
                shutil.rmtree(folder, ignore_errors=True)
            yield

    def fetch(self, items, download):
        """Has `download(items, folder)` write the files of the items into a folder, and moves each file to its place."""
        if not items:
            return
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=UNFINISHED) as scratch:
            # apt downloads as a user of its own where it can.
            os.chmod(scratch, 0o755)
            files = Path(scratch) / "files"
            files.mkdir()
            download(items, files)
            for path in sorted(files.iterdir()):
                self.keep(path)

    def keep(self, path):
        """Moves a file to its place, by one rename of the folder that is named by the file's SHA-256."""
        sha256 = digest(path)
        unfinished = path.parent.parent / sha256
        unfinished.mkdir()
        path.rename(unfinished / path.name)
        package = path.name.partition("_")[0]
        shelf = self.folder / "wheels" if path.suffix == ".whl" else self.folder / "debian" / system() / package
        shelf.mkdir(parents=True, exist_ok=True)
        if not (shelf / sha256).exists():
            unfinished.rename(shelf / sha256)


def download_wheels(wheels, folder):
    """Downloads pinned wheels into `folder`; pip compares the hashes."""
    requirements = folder.parent / "requirements.txt"
    for python in sorted({wheel.python for wheel in wheels}, key=str):
        its = [wheel for wheel in wheels if wheel.python == python]
        requirements.write_text("".join(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in its))
        for_it = ["--python-version", python] if python else []
        pip(listed(its), "download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", str(folder), *for_it, "-r", str(requirements))


@contextlib.contextmanager
def fetched(items, home, what=None):
    """The verified files of `items`: of the cache, or else in a temporary folder within `home`. `what` names the items in a message."""
    folder, what = cache_folder(), what or listed(items)
    if folder:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files = Store(folder, is_cache=True).files(items, home, what)
        except OSError as problem:
            why = f"{VARIABLE} is '{folder}', where no files can be kept: {problem.strerror}"
            raise InstallError(f"{why}: name another folder, or unset {VARIABLE}") from problem
        yield files
    else:
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            os.chmod(scratch, 0o755)
            yield Store(Path(scratch), is_cache=False).files(items, home, what)


def pinned(name, python=PYTHON_VERSION):
    """The wheels of a set for a version of Python, from wheels.txt; an empty list where there are no pins."""
    wheels = []
    for line in PINS.read_text().splitlines():
        words = line.split()
        if words[:1] == [name] and python in words[1].split(","):
            package, version = words[2].split("==")
            wheels.append(Wheel(package, version, words[3]))
    return wheels


def runs_pinned_wheels():
    """Whether this machine is one that the pinned wheels are for."""
    library, version = platform.libc_ver()
    is_recent = library == "glibc" and tuple(map(int, version.split(".")[:2])) >= OLDEST_GLIBC
    return (platform.system(), platform.machine()) == ("Linux", "x86_64") and is_recent


def install(name, specifiers, folder, home):
    """Installs a set of wheels.txt into `folder`; where the set has no pins for this Python and machine, pip picks the versions."""
    wheels = pinned(name) if runs_pinned_wheels() else []
    if wheels:
        with fetched(wheels, home, ", ".join(specifiers)) as files:
            pip(listed(wheels), "install", "--no-index", "--no-deps", "--only-binary=:all:", "--target", str(folder), *map(str, files))
        return
    say(f"getting {', '.join(specifiers)} (once, into {home})")
    if cache_folder():
        say(f"not kept in the cache: wheels.txt pins nothing of this set for Python {PYTHON_VERSION} on {platform.system()} {platform.machine()}")
    pip(", ".join(specifiers), "install", "--only-binary=:all:", "--target", str(folder), *specifiers)
