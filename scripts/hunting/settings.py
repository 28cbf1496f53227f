"""The settings of the servers that a hunt goes through: how long executions take, and delays that make the windows of races wide.

The front ends of tritonserver read the delays from their environment, for tests of their own. A race that needs two events within
microseconds is then one of milliseconds.
"""

import dataclasses
import shlex

# The names here -> the variables, each a number of ms. The last five are of front ends newer than 24.10.
DELAYS = {
    "process": "TRITONSERVER_DELAY_GRPC_PROCESS",
    "response": "TRITONSERVER_DELAY_GRPC_RESPONSE",
    "complete": "TRITONSERVER_DELAY_GRPC_COMPLETE",
    "process-entry": "TRITONSERVER_DELAY_GRPC_PROCESS_ENTRY",
    "notification": "TRITONSERVER_DELAY_GRPC_NOTIFICATION",
    "enqueue": "TRITONSERVER_DELAY_GRPC_ENQUEUE",
    "response-execution": "TRITONSERVER_DELAY_RESPONSE_COMPLETE_EXEC",
    "response-completion": "TRITONSERVER_DELAY_RESPONSE_COMPLETION",
}
DELAY_MS = 5
ALL = "all"


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a server is set."""

    execution_ms: int
    # One of DELAYS, or none.
    delay: str = ""
    delay_ms: int = 0

    def __str__(self):
        delay = f", {self.delay} {self.delay_ms} ms" if self.delay else ""
        return f"execution {self.execution_ms} ms{delay}"

    def variables(self):
        """The variables of the server's environment."""
        return {DELAYS[self.delay]: str(self.delay_ms)} if self.delay else {}

    def options(self):
        """The words that have with-triton start such a server."""
        variables = [f"--server-env={name}={value}" for name, value in self.variables().items()]
        return shlex.join(["--execute-delay-ms", str(self.execution_ms), *variables])

    def known_to(self, program):
        """The setting, without a delay that a program has not."""
        return self if not self.delay or program.knows(DELAYS[self.delay]) else dataclasses.replace(self, delay="", delay_ms=0)


def delays(text):
    """Delays on a command line, NAME=MS,..., as pairs; `all` is each of them."""
    if text == ALL:
        return [(name, DELAY_MS) for name in DELAYS]
    pairs = []
    for word in filter(None, text.split(",")):
        name, equals, ms = word.partition("=")
        if name not in DELAYS:
            raise ValueError(f"'{name}' is none of {', '.join(DELAYS)}, or {ALL}")
        if equals and not (ms.isdigit() and 0 < int(ms) <= 1000):
            raise ValueError(f"'{word}' is not {name}=MS with 1 to 1000 ms")
        pairs.append((name, int(ms) if equals else DELAY_MS))
    return pairs


def axes(executions_ms, pairs):
    """The settings in turn: each execution time without a delay, and then each delay with each of them."""
    plain = [Setting(ms) for ms in executions_ms]
    return plain + [Setting(ms, name, delay_ms) for name, delay_ms in pairs for ms in executions_ms]
