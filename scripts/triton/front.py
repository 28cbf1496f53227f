"""Serves models with the front ends of the wheel `tritonfrontend` before a libtritonserver; the program that a hybrid is.

It takes those of tritonserver's flags that it has a use for. The extension in the wheel is bound to a stub of libtritonserver, so the
real library is loaded before it by LD_PRELOAD: this program starts itself again with that.
"""

import argparse
import ctypes
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import threading
from pathlib import Path

PRELOAD = "LD_PRELOAD"
# TRITONSERVER_ModelControlMode
MODES = {"none": 0, "poll": 1, "explicit": 2}
RATE_LIMITS = {"off": 0, "execution_count": 1}
# What tritonserver itself has where nothing is said. The extension wants each of them.
GRPC = {
    "reuse_port": False,
    "use_ssl": False,
    "server_cert": "",
    "server_key": "",
    "root_cert": "",
    "use_mutual_auth": False,
    "keepalive_time_ms": 7_200_000,
    "keepalive_timeout_ms": 20_000,
    "keepalive_permit_without_calls": False,
    "http2_max_pings_without_data": 2,
    "http2_min_recv_ping_interval_without_data_ms": 300_000,
    "http2_max_ping_strikes": 2,
    "max_connection_age_ms": 0,
    "max_connection_age_grace_ms": 0,
    "infer_compression_level": 0,
    "max_response_pool_size": 2**31 - 1,
    "forward_header_pattern": "",
}


class CannotServe(Exception):
    """Why there is no server, on one line."""


def is_true(text):
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"'{text}' is neither true nor false")
    return text == "true"


def parsed_options():
    parser = argparse.ArgumentParser(prog="hybrid", description=__doc__, allow_abbrev=False)
    parser.add_argument("--front-ends", type=Path, required=True, metavar="FILE", help="the extension of the wheel")
    parser.add_argument("--core", required=True, metavar="FILE", help="the libtritonserver")
    parser.add_argument("--id", default="triton", help="what the server calls itself")
    parser.add_argument("--model-repository", action="append", required=True)
    parser.add_argument("--backend-directory", required=True)
    parser.add_argument("--backend-config", action="append", default=[], metavar="BACKEND,NAME=VALUE")
    parser.add_argument("--model-control-mode", choices=MODES, default="none")
    parser.add_argument("--load-model", action="append", default=[])
    parser.add_argument("--rate-limit", choices=RATE_LIMITS, default="off")
    parser.add_argument("--strict-readiness", type=is_true, default=True)
    for name, port in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        parser.add_argument(f"--{name}-port", type=int, default=port)
        parser.add_argument(f"--{name}-address", default="127.0.0.1")
    parser.add_argument("--allow-metrics", type=is_true, default=True)
    parser.add_argument("--allow-gpu-metrics", type=is_true, default=False)
    parser.add_argument("--exit-timeout-secs", type=int, default=30)
    parser.add_argument("--grpc-infer-allocation-pool-size", type=int, default=8)
    parser.add_argument("--grpc-infer-thread-count", type=int, default=2)
    parser.add_argument("--http-thread-count", type=int, default=8)
    parser.add_argument("--log-verbose", type=int, default=0)
    return parser.parse_args()


def started_with(core):
    """Starts this program again where the core is not loaded before everything else."""
    core = os.path.realpath(core)
    if os.environ.get(PRELOAD) != core:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, PRELOAD: core})
    # What the server starts has no use for it.
    del os.environ[PRELOAD]


class Core:
    """The functions of the libtritonserver that was loaded first."""

    def __init__(self):
        self.library = ctypes.CDLL(None)

    def call(self, name, *arguments):
        try:
            function = getattr(self.library, f"TRITONSERVER_{name}")
        except AttributeError:
            raise CannotServe(f"the core has no function TRITONSERVER_{name}: it is too old for these front ends") from None
        function.restype = ctypes.c_void_p
        error = function(*arguments)
        if error:
            message = self.library.TRITONSERVER_ErrorMessage
            message.restype, message.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
            raise CannotServe(f"{name}: {message(error).decode(errors='replace')}")


def text(value):
    return ctypes.c_char_p(str(value).encode())


def flag(value):
    return ctypes.c_bool(value)


def settings(options):
    """The core's options, by the functions that set them."""
    yield "SetServerId", text(options.id)
    for repository in options.model_repository:
        yield "SetModelRepositoryPath", text(repository)
    yield "SetModelControlMode", ctypes.c_int(MODES[options.model_control_mode])
    for model in options.load_model:
        yield "SetStartupModel", text(model)
    yield "SetRateLimiterMode", ctypes.c_int(RATE_LIMITS[options.rate_limit])
    yield "SetBackendDirectory", text(options.backend_directory)
    for told in options.backend_config:
        backend, comma, setting = told.partition(",")
        name, equals, value = setting.partition("=")
        if not comma or not equals:
            raise CannotServe(f"--backend-config={told} is not BACKEND,NAME=VALUE")
        yield "SetBackendConfig", text(backend), text(name), text(value)
    yield "SetStrictModelConfig", flag(False)
    yield "SetStrictReadiness", flag(options.strict_readiness)
    yield "SetExitOnError", flag(True)
    yield "SetExitTimeout", ctypes.c_uint(options.exit_timeout_secs)
    yield "SetLogInfo", flag(True)
    yield "SetLogWarn", flag(True)
    yield "SetLogError", flag(True)
    yield "SetLogVerbose", ctypes.c_int(options.log_verbose)
    yield "SetMetrics", flag(options.allow_metrics)
    yield "SetGpuMetrics", flag(options.allow_gpu_metrics)
    yield "SetCpuMetrics", flag(False)


def served(core, options):
    """The address of a server that has loaded its models."""
    handle, server = ctypes.c_void_p(), ctypes.c_void_p()
    core.call("ServerOptionsNew", ctypes.byref(handle))
    for name, *values in settings(options):
        core.call(f"ServerOptions{name}", handle, *values)
    core.call("ServerNew", ctypes.byref(server), handle)
    return server


def front_ends(file):
    """The extension of the wheel. The package around it needs another package that cannot be had."""
    loader = importlib.machinery.ExtensionFileLoader("tritonfrontend_bindings", str(file))
    try:
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tritonfrontend_bindings", loader))
        loader.exec_module(module)
    except ImportError as problem:
        raise CannotServe(f"the front ends cannot be loaded: {problem}") from problem
    return module


def started(bindings, server, options):
    """The front ends, which take requests from now on."""
    grpc = {
        **GRPC,
        "address": options.grpc_address,
        "port": options.grpc_port,
        "infer_thread_count": options.grpc_infer_thread_count,
        "infer_allocation_pool_size": options.grpc_infer_allocation_pool_size,
    }
    http = {"address": options.http_address, "port": options.http_port, "reuse_port": False}
    made = [bindings.TritonFrontendGrpc(server.value, grpc)]
    made.append(bindings.TritonFrontendHttp(server.value, {**http, "thread_count": options.http_thread_count, "header_forward_pattern": ""}))
    if options.allow_metrics:
        metrics = {"address": options.metrics_address, "port": options.metrics_port, "thread_count": 1}
        made.append(bindings.TritonFrontendMetrics(server.value, metrics))
    for each in made:
        each.start()
    return made


def main():
    options = parsed_options()
    started_with(options.core)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        core = Core()
        server = served(core, options)
        made = started(front_ends(options.front_ends), server, options)
    except Exception as problem:
        print(f"E0000 hybrid: {problem}", file=sys.stderr, flush=True)
        # The threads of a core that was loaded keep the process alive.
        os._exit(1)
    print(f"hybrid: serving {json.dumps({'grpc': options.grpc_port, 'http': options.http_port})}", file=sys.stderr, flush=True)
    stop.wait()
    code = 0
    try:
        core.call("ServerStop", server)
    except CannotServe as problem:
        print(f"E0000 failed to stop server: {problem}", file=sys.stderr, flush=True)
        code = 1
    for each in made:
        each.stop()
    os._exit(code)


if __name__ == "__main__":
    main()
