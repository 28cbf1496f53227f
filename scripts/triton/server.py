"""Runs a real tritonserver on free loopback ports, with models that are written for it."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from running import Ports, Running, ServerError, prepare_child

from . import native, programs, repository

# A machine that is very busy is no reason to give up: a server that dies is seen at once.
READY_SECONDS = 300
STOP_SECONDS = 30
# A model that is hosted may import a large runtime first.
STUB_SECONDS = 120
START_ATTEMPTS = 3
# Without a pool this large the server can die under streaming load, in its gRPC front end's reuse of request state.
ALLOCATION_POOL_SIZE = 4096


class Server(Running):
    """A running tritonserver; a context manager that stops it whatever happens."""

    PREFIX = "with-triton-"

    def __init__(self, program, repository_options, python=False, allocation_pool=True, arguments=(), variables=None, given=None):
        """`given` are the models to serve, if not those of the built-in table, which `repository_options` and `python` describe."""
        self.program = program
        self.release = program.name
        self.python = python
        self.given = given
        self.backends = given.backends if given else {repository.PYTHON if python else native.NAME}
        self.libraries = list(program.libraries)
        if repository.PYTHON in self.backends:
            self.python_backend = program.python()
            self.libraries[:0] = self.python_backend.libraries
        if native.NAME in self.backends:
            self.native_backend = native.library()
        self.repository_options = repository_options
        self.arguments = list(arguments)
        self.variables = variables or {}
        if allocation_pool:
            self.arguments.append(f"--grpc-infer-allocation-pool-size={ALLOCATION_POOL_SIZE}")
        self.process = None
        self.ports = None
        self.lines_before_ready = 0
        self.errors_before_restart = []

    def label(self):
        """What messages call it."""
        return self.program.label

    def start(self):
        self.log = self.scratch / "server.log"
        self.shared_memory = f"{self.scratch.name}-"
        self._install_backends()
        models = self.scratch / "models"
        self._write_models(models)
        # Bytecode beside a model changes the model's folder, and the server then takes the model for another one; the
        # interpreter within the Python backend looks at no variable that forbids it.
        for model in models.glob("*/*/model.py"):
            (model.parent / "__pycache__").touch()
        self._start()

    def __exit__(self, *_):
        self.stop()
        if self.ports:
            self.ports.release()
        for leftover in Path("/dev/shm").glob(f"{self.shared_memory}*"):
            leftover.unlink(missing_ok=True)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _write_models(self, folder):
        if self.given:
            self.given.write(folder)
        else:
            repository.write(folder, self.python, self.program.release, **self.repository_options)

    def _install_backends(self):
        """Makes the one folder that has to hold every backend."""
        backends = self.scratch / "backends"
        backends.mkdir()
        for own in self.program.backends.iterdir() if self.program.backends else ():
            (backends / own.name).symlink_to(own)
        if repository.PYTHON in self.backends and not (backends / repository.PYTHON).exists():
            (backends / repository.PYTHON).symlink_to(self.python_backend.backend)
        if native.NAME in self.backends:
            # A copy, because the next build replaces the library while this server may still run.
            (backends / native.NAME).unlink(missing_ok=True)
            (backends / native.NAME).mkdir()
            shutil.copy(self.native_backend, backends / native.NAME / native.LIBRARY)

    def _start(self):
        for _ in range(START_ATTEMPTS):
            if self.ports:
                self.ports.release()
            self.ports = Ports(3)
            self.http_port, self.grpc_port, self.metrics_port = self.ports.numbers
            self._spawn()
            if self._wait_until_ready():
                self.lines_before_ready = len(self.log_tail())
                return
            # Between finding a port free and the server's taking it somebody else may have.
            is_taken = "in use" in self.log.read_text(errors="replace")
            # tritonserver 24.10 with Python models has died of SIGABRT while it started on a busy machine.
            is_dead = (self.process.poll() or 0) < 0
            if not is_taken and not is_dead:
                break
            if is_dead:
                tail = "; ".join(self.log_tail(3))
                print(f"with-triton: {self.label()} {self.death()} while it started: {tail}", file=sys.stderr)
            self.stop()
        problem = (self.errors() or self.log_tail(1) or ["it logged nothing"])[-1]
        what = self.death() or f"was not ready after {READY_SECONDS} s"
        raise ServerError(f"{self.label()} {what}: {problem}")

    def _spawn(self):
        command = [
            *self.program.words,
            f"--model-repository={self.scratch / 'models'}",
            f"--backend-directory={self.scratch / 'backends'}",
            f"--http-port={self.http_port}",
            f"--grpc-port={self.grpc_port}",
            f"--metrics-port={self.metrics_port}",
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            "--allow-gpu-metrics=false",
            "--exit-timeout-secs=10",
            *self.arguments,
        ]
        if self.program.release is None:
            command.append("--allow-metrics=false")
        elif self.program.release >= "23.10":
            command.append("--metrics-address=127.0.0.1")
        environment = dict(os.environ)
        libraries = [*self.libraries, *(self.given.libraries() if self.given else [])]
        # An installed server may need what was there.
        before = [environment.get("LD_LIBRARY_PATH")] if self.program.backends else []
        environment["LD_LIBRARY_PATH"] = ":".join(map(str, filter(None, [*libraries, *before])))
        environment.update(self.variables)
        if repository.PYTHON in self.backends:
            command.append(f"--backend-config=python,shm-region-prefix-name={self.shared_memory}")
            command.append(f"--backend-config=python,stub-timeout-seconds={STUB_SECONDS}")
            if self.python_backend.path:
                environment["PATH"] = f"{self.python_backend.path}:{environment.get('PATH', '')}"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, preexec_fn=prepare_child)

    def _wait_until_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with self.get("/v2/health/ready") as answer:
                    if answer.status == 200:
                        return True
            except OSError:
                pass
            time.sleep(0.05)
        return False

    def get(self, path):
        """What the server answers at a path."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(f"http://127.0.0.1:{self.http_port}{path}", timeout=2)

    def restart(self):
        """Kills the server and starts it again, on the same ports; returns whether it is ready."""
        self.errors_before_restart = self.errors()
        self._kill()
        self._spawn()
        is_ready = self._wait_until_ready()
        self.lines_before_ready = len(self.log_tail())
        return is_ready

    def _kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._end_group()

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
        self._end_group()

    def _end_group(self):
        # A server that dies leaves the processes of its Python models behind; they are in its group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def death(self):
        """How the server died, or None where it is running."""
        code = self.process.poll()
        if code is None:
            return None
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    def errors(self):
        """The lines that the server logged as errors since it was ready, or else since it started."""
        # Without a GPU a healthy server logs an error about the CUDA driver while it starts.
        since = [line for line in self.log_tail()[self.lines_before_ready :] if re.match(r"E\d{4} ", line)]
        return self.errors_before_restart + since

    def log_tail(self, lines=None):
        text = self.log.read_text(errors="replace").splitlines()
        return text if lines is None else text[-lines:]

    def environment(self):
        """What a command needs to find the server."""
        return {
            "SEQUENCE_STRESS_URL": f"127.0.0.1:{self.grpc_port}",
            "SEQUENCE_STRESS_METRICS": f"127.0.0.1:{self.metrics_port}",
            "SEQUENCE_STRESS_HTTP_URL": f"http://127.0.0.1:{self.http_port}",
            "TRITON_GRPC": f"127.0.0.1:{self.grpc_port}",
            "TRITON_HTTP": f"127.0.0.1:{self.http_port}",
            "TRITON_METRICS": f"127.0.0.1:{self.metrics_port}",
            "TRITON_PID": str(self.process.pid),
            "TRITON_RELEASE": self.release,
        }


class NoModels:
    """What a server serves that is only asked something."""

    backends = frozenset()

    def write(self, folder):
        folder.mkdir()

    def libraries(self):
        return []


def asked(program):
    """The program with the release that its version stands for, which it is asked for where it is not known."""
    if program.release:
        return program
    with Server(program, {}, arguments=["--model-control-mode=explicit"], given=NoModels()) as server, server.get("/v2") as answer:
        return programs.told(program, json.loads(answer.read()).get("version", ""))


def restarts_on_signal(triton, is_whole_again=lambda: True):
    """Has a signal restart the server; returns the shell command that sends it, and waits until that is done. What has to be done with
    the new server is `is_whole_again`, which tells whether it could be."""
    told = triton.scratch / "restarts"
    outcomes = []

    def restart(_number, _frame):
        outcomes.append("ready" if triton.restart() and is_whole_again() else "not ready")
        new = told.with_suffix(".new")
        new.write_text("".join(f"{outcome}\n" for outcome in outcomes))
        new.rename(told)

    told.write_text("")
    signal.signal(signal.SIGUSR1, restart)
    file = shlex.quote(str(told))
    wait = f"n=$(wc -l <{file}); kill -USR1 {os.getpid()}; while [ $(wc -l <{file}) = $n ]; do sleep 0.02; done"
    return f'{wait}; [ "$(tail -n 1 {file})" = ready ]'
