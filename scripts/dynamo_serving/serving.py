"""Runs Dynamo's KServe front end and its workers on free loopback ports."""

import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

from running import Ports, Running, ServerError, prepare_child
from triton.hosting import Messages

from . import install

FOLDER = Path(__file__).resolve().parent
WORKER, FRONT = "worker.py", "front.py"
ENDPOINT = "sequence-stress.sums.generate"
MODEL = "custom_sequence_int32"
READY_SECONDS = 60
STOP_SECONDS = 10
# Nothing listens on another address.
LOOPBACK = {"DYN_TCP_RPC_HOST": "127.0.0.1", "DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1"}
# Of the model that the workers are. Each keeps any number of sequences by their IDs, as Oldest does.
CONFIG = """
name: "{name}"
backend: "dynamo"
max_batch_size: 1
input {{ name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] }}
output {{ name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] }}
sequence_batching {{
  max_sequence_idle_microseconds: {idle_limit_us}
  control_input {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} }}
  control_input {{ name: "READY" control {{ kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] }} }}
  oldest {{ max_candidate_sequences: 1024 }}
}}
parameters {{ key: "sequence_stress_formula" value {{ string_value: "running-sum" }} }}
"""


class Dynamo(Running):
    """A front end with its workers; a context manager that stops them whatever happens."""

    PREFIX = "with-dynamo-"

    def __init__(self, workers=1, routing="round-robin", idle_limit_ms=1000, fault=None):
        self.packages = install.runtime()
        self.workers, self.routing, self.idle_limit_ms, self.fault = workers, routing, idle_limit_ms, fault
        self.ports, self.processes = None, []

    def __exit__(self, *_):
        # The front end first, which waits for workers otherwise.
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()
        if self.ports:
            self.ports.release()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def start(self):
        self.log = self.scratch / "dynamo.log"
        self.ports = Ports(1)
        (self.port,) = self.ports.numbers
        text, config = self.scratch / "config.pbtxt", self.scratch / "config"
        text.write_text(CONFIG.format(name=MODEL, idle_limit_us=1000 * self.idle_limit_ms))
        config.write_bytes(Messages().parsed(text).SerializeToString())
        for _ in range(self.workers):
            self._spawn(WORKER, ENDPOINT, self.idle_limit_ms, *([self.fault] if self.fault else []))
        self._spawn(FRONT, self.port, ENDPOINT, MODEL, config, self.routing, self.workers)
        self._wait_until_ready(self.processes[-1])

    def _spawn(self, program, *words):
        environment = {**os.environ, **LOOPBACK, "DYN_FILE_KV": str(self.scratch / "discovery"), "DYN_LOG": "warn"}
        environment["PYTHONPATH"] = str(self.packages)
        command = [sys.executable, str(FOLDER / program), *map(str, words)]
        with open(self.log, "ab") as log:
            # The front end says when it is ready, and nothing else.
            out = subprocess.PIPE if program == FRONT else log
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=log, preexec_fn=prepare_child)
        self.processes.append(process)

    def _wait_until_ready(self, front):
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and not self.ended():
            if select.select([front.stdout], [], [], 0.1)[0]:
                if front.stdout.readline() != b"ready\n":
                    break
                return
        problem = (self.tail(1) or ["it logged nothing"])[-1]
        raise ServerError(f"Dynamo {install.VERSION} {self.ended() or f'was not ready after {READY_SECONDS} s'}: {problem}")

    def ended(self):
        """Which process ended by itself, and how; None where all are running."""
        names = [*(f"worker {number}" for number in range(1, self.workers + 1)), "front end"]
        return next((f"{name} exited with code {process.returncode}" for name, process in zip(names, self.processes) if process.poll() is not None), None)

    def tail(self, lines):
        return self.log.read_text(errors="replace").splitlines()[-lines:]

    def environment(self):
        """What a command needs to find it."""
        return {"SEQUENCE_STRESS_URL": f"127.0.0.1:{self.port}"}
