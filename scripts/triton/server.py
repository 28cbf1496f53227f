"""Writes a model repository and runs a real tritonserver on it, on free loopback ports."""

import ast
import ctypes
import os
import re
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from . import install

MODELS = install.ROOT / "models"
READY_SECONDS = 90
STOP_SECONDS = 30
START_ATTEMPTS = 3
# Without a pool this large the server can die under streaming load, in its gRPC front end's reuse of request state.
ALLOCATION_POOL_SIZE = 4096
PR_SET_PDEATHSIG = 1


class ServerError(Exception):
    """Why the server did not start, on one line."""


def write_repository(folder, instances, batch, idle_limit_ms, parameters):
    """Writes every model of `models/` into `folder`; `parameters` are those of all the configurations."""
    text = ",\n  ".join(f'{{ key: "{key}" value: {{ string_value: "{value}" }} }}' for key, value in parameters.items())
    for template in sorted(MODELS.glob("*/config.pbtxt")):
        model = folder / template.parent.name
        (model / "1").mkdir(parents=True)
        config = string.Template(template.read_text()).substitute(
            instances=instances, batch=batch, idle_limit_us=idle_limit_ms * 1000, parameters=text
        )
        (model / "config.pbtxt").write_text(config)
        shutil.copy(MODELS / "accumulator.py", model / "1/model.py")


def fault_names():
    """The names of the faults that can be planted in the models."""
    module = ast.parse((MODELS / "accumulator.py").read_text())
    (faults,) = (node.value for node in module.body if isinstance(node, ast.Assign) and node.targets[0].id == "FAULTS")
    return list(ast.literal_eval(faults))


def free_ports(count):
    """`count` different ports of the loopback address that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def prepare_child():
    """Runs in the server's process: it dies with its parent, and a Ctrl-C at the terminal does not reach it."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """A running tritonserver; a context manager that stops it whatever happens."""

    def __init__(self, release, repository_options, allocation_pool=True, arguments=(), variables=None):
        self.release = release
        self.wheel = install.server(release)
        self.python = install.model_python()
        self.libraries = [install.python_library_folder(), self.wheel / "nvidia_pytriton.libs"]
        self.repository_options = repository_options
        self.arguments = list(arguments)
        self.variables = variables or {}
        if allocation_pool:
            self.arguments.append(f"--grpc-infer-allocation-pool-size={ALLOCATION_POOL_SIZE}")
        self.process = None
        self.lines_before_ready = 0

    def __enter__(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="with-triton-"))
        self.log = self.scratch / "server.log"
        self.shared_memory = f"{self.scratch.name}-"
        try:
            write_repository(self.scratch / "models", **self.repository_options)
            self._start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        for leftover in Path("/dev/shm").glob(f"{self.shared_memory}*"):
            leftover.unlink(missing_ok=True)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _start(self):
        for attempt in range(START_ATTEMPTS):
            self.http_port, self.grpc_port, self.metrics_port = free_ports(3)
            self._spawn()
            if self._wait_until_ready():
                self.lines_before_ready = len(self.log_tail())
                return
            # Between finding a port free and the server's taking it somebody else may have.
            if "in use" not in self.log.read_text(errors="replace"):
                break
            self.stop()
        problem = (self.errors() or self.log_tail(1) or ["it logged nothing"])[-1]
        what = self.death() or f"was not ready after {READY_SECONDS} s"
        raise ServerError(f"tritonserver {self.release} {what}: {problem}")

    def _spawn(self):
        triton = self.wheel / "pytriton/tritonserver"
        command = [
            str(triton / "bin/tritonserver"),
            f"--model-repository={self.scratch / 'models'}",
            f"--backend-directory={triton / 'backends'}",
            f"--backend-config=python,shm-region-prefix-name={self.shared_memory}",
            f"--http-port={self.http_port}",
            f"--grpc-port={self.grpc_port}",
            f"--metrics-port={self.metrics_port}",
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            "--allow-gpu-metrics=false",
            "--exit-timeout-secs=10",
            *self.arguments,
        ]
        if self.release >= "23.10":
            command.append("--metrics-address=127.0.0.1")
        environment = dict(os.environ)
        environment["LD_LIBRARY_PATH"] = ":".join(map(str, self.libraries))
        # Bytecode beside a model changes the model's folder, and the server then takes the model for another one.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment.update(self.variables)
        environment["PATH"] = f"{self.python / 'bin'}:{environment.get('PATH', '')}"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, preexec_fn=prepare_child
            )

    def _wait_until_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with opener.open(f"http://127.0.0.1:{self.http_port}/v2/health/ready", timeout=2) as answer:
                    if answer.status == 200:
                        return True
            except OSError:
                pass
            time.sleep(0.05)
        return False

    def stop(self):
        """Stops the server in good order, or after STOP_SECONDS the hard way."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        # A server that dies leaves the processes of its Python models behind; they are in its group.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def death(self):
        """How the server died, or None where it is running."""
        code = self.process.poll()
        if code is None:
            return None
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    def errors(self):
        """The lines that the server logged as errors since it was ready, or else since it started."""
        # Without a GPU a healthy server logs an error about the CUDA driver while it starts.
        return [line for line in self.log_tail()[self.lines_before_ready :] if re.match(r"E\d{4} ", line)]

    def log_tail(self, lines=None):
        text = self.log.read_text(errors="replace").splitlines()
        return text if lines is None else text[-lines:]

    def environment(self):
        """What a command needs to find the server."""
        return {
            "SEQUENCE_STRESS_URL": f"127.0.0.1:{self.grpc_port}",
            "TRITON_GRPC": f"127.0.0.1:{self.grpc_port}",
            "TRITON_HTTP": f"127.0.0.1:{self.http_port}",
            "TRITON_METRICS": f"127.0.0.1:{self.metrics_port}",
            "TRITON_PID": str(self.process.pid),
            "TRITON_RELEASE": self.release,
        }
