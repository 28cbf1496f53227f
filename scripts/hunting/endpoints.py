"""The servers of a hunt: the real ones, by release, or one that a command starts."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import threading
import urllib.request

from triton import install, server

ANSWER_SECONDS = 60
STOP_SECONDS = 15
# How long the first line of a server may be, and how much of the end of its output is kept.
LINE_BYTES_MAX = 4096
END_BYTES = 1 << 20
READ_BYTES = 1 << 16
# How long the rest of the output of a server that has ended is waited for.
CLOSE_SECONDS = 1
# What `sequence-stress serve` prints first.
SERVING = re.compile(r"serving gRPC at (\S+)\s*\n")


class EndpointError(Exception):
    """Why there is no server, on one line."""


class Tritons:
    """A server of each of some programs, each with the same models."""

    can_reload = True

    def __init__(self, served, settings, instances, batch, idle_limit_ms):
        self.programs = {program.name: program for program in served}
        self.releases, self.settings = list(self.programs), settings
        self.shape = f"{instances}x{batch}"
        self.models = {"instances": instances, "batch": batch, "idle_limit_ms": idle_limit_ms}

    def settings_of(self, release):
        """The settings of the servers of a release: those with a delay that it does not know are no others."""
        return list(dict.fromkeys(setting.known_to(self.programs[release]) for setting in self.settings))

    @contextlib.contextmanager
    def at(self, release, setting, model=None):
        """A server that was just started with a setting, with this model loaded, or with none."""
        try:
            # Nobody needs what is still under way in a server that is stopped.
            arguments = ["--model-control-mode=explicit", "--exit-timeout-secs=1"]
            its = setting.known_to(self.programs[release])
            models = {**self.models, "parameters": {"execute_delay_ms": its.execution_ms}}
            with server.Server(self.programs[release], models, arguments=arguments, variables=its.variables()) as triton:
                running = Triton(triton)
                if model:
                    running.load(model)
                yield running
        except (install.InstallError, server.ServerError) as problem:
            raise EndpointError(str(problem)) from problem

    def starter(self, release, setting):
        """The command that starts such a server for another command."""
        program = self.programs[release]
        options = f"--shape {self.shape} --idle-limit-ms {self.models['idle_limit_ms']} {setting.known_to(program).options()}"
        return f"scripts/with-triton {shlex.join(program.options)} {options}"


class Triton:
    """A tritonserver that is running."""

    def __init__(self, triton):
        self.triton = triton
        # Both, because each transport takes the endpoint that speaks it.
        self.url = f"127.0.0.1:{triton.grpc_port},http://127.0.0.1:{triton.http_port}"
        self.metrics = f"127.0.0.1:{triton.metrics_port}"
        self.model = None
        self.restart_command = server.restarts_on_signal(triton, self.has_its_model_again)

    def has_its_model_again(self):
        """Loads the model that was there before a restart; whether that could be done."""
        try:
            if self.model:
                self.load(self.model)
            return True
        except EndpointError:
            return False

    def load(self, model):
        """Loads a model, or loads it anew: then all its slots are free."""
        self.model = model
        url = f"http://127.0.0.1:{self.triton.http_port}/v2/repository/models/{model}/load"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(urllib.request.Request(url, b"{}"), timeout=ANSWER_SECONDS):
                pass
        except OSError as problem:
            raise EndpointError(f"{self.triton.label()} does not load {model}: {self.triton.death() or problem}") from problem

    def death(self):
        """How it died, or None."""
        return self.triton.death()

    def log(self, lines):
        return self.triton.log_tail(lines)


class Commanded:
    """A server that a command starts, in place of a tritonserver; it serves all its models from the beginning."""

    can_reload = False
    # The command says how it is set.
    settings = (None,)

    def __init__(self, words):
        self.words = words
        self.releases = ["endpoint"]

    def settings_of(self, _release):
        return self.settings

    @contextlib.contextmanager
    def at(self, _release, _setting, _model=None):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        try:
            process = subprocess.Popen(self.words, **pipes, start_new_session=True)
        except OSError as problem:
            raise EndpointError(f"cannot run '{self.words[0]}': {problem.strerror}") from problem
        output, errors = Output(process.stdout), Output(process.stderr)
        try:
            yield Started(process, errors, output.first_line())
        finally:
            stop(process)
            output.close()
            errors.close()

    def starter(self, _release, _setting):
        return " ".join(self.words)


class Started:
    """A server that a command started."""

    def __init__(self, process, errors, line):
        said = SERVING.match(line)
        if not said:
            raise EndpointError(f"'{process.args[0]}' did not say 'serving gRPC at HOST:PORT', but '{line.strip()}'")
        self.process, self.errors, self.url, self.metrics, self.restart_command = process, errors, said[1], None, None

    def load(self, _model):
        """Its models are there already."""

    def death(self):
        code = self.process.poll()
        if code is None:
            return None
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    def log(self, lines):
        return self.errors.end().splitlines()[-lines:]


class Output:
    """What a process prints into a pipe. A thread reads all of it: a pipe that nobody reads gets full, and then the process hangs. The first
    line and the end are kept."""

    def __init__(self, pipe):
        self.pipe, self.head, self.tail = pipe, b"", b""
        # The first line is there, or nothing more comes.
        self.has_line = threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while chunk := os.read(self.pipe.fileno(), READ_BYTES):
            if not self.has_line.is_set():
                self.head = (self.head + chunk)[:LINE_BYTES_MAX]
            self.tail = (self.tail + chunk)[-END_BYTES:]
            if b"\n" in self.head or len(self.head) == LINE_BYTES_MAX:
                self.has_line.set()
        self.has_line.set()

    def first_line(self, limit=ANSWER_SECONDS):
        """The first line with its newline; what was printed so far, where nothing more comes or `limit` seconds pass before the newline."""
        self.has_line.wait(limit)
        line, newline, _ = self.head.partition(b"\n")
        return (line + newline).decode(errors="replace")

    def end(self):
        """The end of what a process printed that has ended."""
        self.thread.join(CLOSE_SECONDS)
        return self.tail.decode(errors="replace")

    def close(self):
        """Lets go of the pipe, when the process has ended. Another process that it started may still hold the other end."""
        self.thread.join(CLOSE_SECONDS)
        if not self.thread.is_alive():
            self.pipe.close()


def stop(process):
    """Ends a process in good order, or else the hard way."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
