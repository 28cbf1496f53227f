"""The models that a real tritonserver serves for this project's tests: `sequence-stress repository` writes them."""

import ast
import re
import subprocess

from . import native
from .install import ROOT, InstallError

ACCUMULATOR = ROOT / "models/accumulator.py"
TABLE = ROOT / "crates/models/src/dtype.rs"
PYTHON = "python"
DEFAULT_DTYPE = "int32"
# Of the Python backend, each of whose instances is a process, where nobody asks for more: those that Triton's own tests have.
PLAINEST = ["sequence", "oldest", "dyna_sequence"]
WRITE_SECONDS = 60


class RepositoryError(Exception):
    """Why no repository was written, on one line."""


def dtypes():
    """The names of the data types, from the table of them."""
    table = re.search(r"^    pub enum Dtype: Row \{\n(.*?)^    \}", TABLE.read_text(), re.MULTILINE | re.DOTALL)
    names = re.findall(r'^        \w+ = "([^"]+)"', table[1], re.MULTILINE) if table else []
    if not names:
        raise InstallError(f"{TABLE.relative_to(ROOT)} has no table of data types")
    return names


def constant(program, name):
    """What a program of models/ calls `name`; the program is not run."""
    module = ast.parse(program.read_text())
    (value,) = (node.value for node in module.body if isinstance(node, ast.Assign) and node.targets[0].id == name)
    return ast.literal_eval(value)


def fault_names(python):
    """The names of the faults that can be planted in the models."""
    if not python:
        return native.fault_names()
    return list(constant(ACCUMULATOR, "FAULTS"))


def selections(python, chosen):
    """The flags that say which models there are, a call each: of these data types all that this project tests itself with. Without
    any those of INT32, and of the others the plainest; with the Python backend only the plainest."""
    backend = ["--backend", PYTHON, "--prefix", "custom"] if python else ["--backend", "native"]
    if chosen:
        return [[*backend, "--tester", "--dtype", ",".join(chosen)]]
    if python:
        return [[*backend, "--family", ",".join(PLAINEST)]]
    others = [name for name in dtypes() if name != DEFAULT_DTYPE]
    return [[*backend, "--tester"], [*backend, "--family", "sequence", "--dtype", ",".join(others)]]


def run(words):
    """What the tool prints."""
    try:
        done = subprocess.run([native.tool(), "repository", *words], capture_output=True, text=True, timeout=WRITE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RepositoryError(f"the models were not written in {WRITE_SECONDS} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        # What it says of flags of its own is of no use here.
        raise RepositoryError(said[-1].removeprefix("sequence-stress: ").partition(", or replace")[0])
    return done.stdout


def names(python, release, dtypes=None):
    """The names of the models, in order."""
    listed = [run([*selection, "--release", release, "--list"]) for selection in selections(python, dtypes)]
    return [line.split()[0] for text in listed for line in text.splitlines()]


def write(folder, python, release, dtypes=None, *, instances, batch, idle_limit_ms, parameters):
    """Writes the models into `folder`, which is empty or not there yet, and returns how many there are; `parameters` are those of each
    configuration, by name."""
    common = ["--release", release, "--instances", str(instances), "--max-batch-size", str(batch), "--idle-limit", f"{idle_limit_ms}ms"]
    for name, value in parameters.items():
        common += ["--execution-ms", str(value)] if name == "execute_delay_ms" else ["--parameter", f"{name}={value}"]
    count = 0
    for selection in selections(python, dtypes):
        force = ["--force"] if count else []
        written = run([str(folder), *selection, *common, *force])
        count += int(re.match(r"wrote (\d+)", written)[1])
    return count
