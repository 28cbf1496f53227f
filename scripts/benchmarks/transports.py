"""Measures the tool over each transport, with TLS and without, beside a bare client of the same libraries.

The reference server is a process of its own. In each round both clients send the same requests over each transport, one program
after the other, over the same number of connections and from the same number of threads. The bare client (examples/bare_client) is
written with tonic, or with hyper and serde_json: it reads every response, adds up the numbers, and checks nothing. CPU time is the
system's count for the client's process, from its start to its end, user and system.
"""

import contextlib
import subprocess

from .measuring import MODEL, OUTPUTS, BenchError, Load, Reference, bare_client, tool
from .rounds import CLIENT_COLUMNS, Pair, check_requests, measured, report
from .rounds import QUICK as QUICK_ROUNDS
from .rounds import add_options as add_round_options

QUICK = QUICK_ROUNDS
OURS, BARE = "sequence-stress", "bare client"
TRANSPORTS = ("grpc-stream", "grpc-unary", "http", "http-binary")
# The limit of the tool's CPU time, as a multiple of the bare client's.
STREAM_RATIO_MAX, CALL_RATIO_MAX = 1.15, 1.25


def add_options(parser):
    add_round_options(parser, rounds=7, iterations=1000)
    parser.add_argument(
        "--transport", choices=TRANSPORTS, action="append", metavar="NAME", help=f"only this transport, of {', '.join(TRANSPORTS)} (repeatable; default: all)"
    )
    parser.add_argument("--skip-tls", action="store_true", help="leave TLS out")


def kind_name(transport, is_secured):
    return f"{transport}, TLS" if is_secured else transport


def row_name(kind, program):
    return f"{kind}: {program}"


def certificate(folder):
    """A key and a self-signed certificate for the loopback address."""
    key, cert = folder / "server.key", folder / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    try:
        words = [*command, "-keyout", str(key), "-out", str(cert)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise BenchError(f"cannot make a certificate: {problem}; pass --skip-tls to go without one") from problem
    if done.returncode:
        raise BenchError(f"openssl made no certificate: {' '.join(done.stderr.split()[-20:])}; pass --skip-tls to go without one")
    return key, cert


def endpoint_of(server, transport, is_secured):
    if transport.startswith("grpc"):
        return f"grpc{'s' * is_secured}://{server.endpoint}"
    return f"http{'s' * is_secured}://{server.http.rpartition('/')[2]}"


def pairs_of(transports, with_tls):
    """The tool beside the bare client over each transport, and TLS beside no TLS for each of the two."""
    kinds = [(transport, is_secured) for transport in transports for is_secured in (False, True)[: 1 + with_tls]]
    pairs = []
    for transport, is_secured in kinds:
        kind = kind_name(transport, is_secured)
        limit = STREAM_RATIO_MAX if transport == TRANSPORTS[0] else CALL_RATIO_MAX
        pairs.append(Pair(f"CPU over {kind}, {OURS} / {BARE}", row_name(kind, OURS), row_name(kind, BARE), at_most=limit))
    for transport in transports if with_tls else ():
        plain, secured = kind_name(transport, False), kind_name(transport, True)
        for program in (OURS, BARE):
            label = f"CPU us/request that TLS adds to {transport}, {program}"
            pairs.append(Pair(label, row_name(secured, program), row_name(plain, program), is_ratio=False))
    return kinds, pairs


def bench(options, scratch):
    binary, bare = tool(), bare_client()
    load = Load(options, scratch, OUTPUTS)
    size = ["--instances", "1", "--max-batch-size", "4"]
    transports = options.transport or TRANSPORTS
    kinds, pairs = pairs_of(transports, not options.skip_tls)
    with contextlib.ExitStack() as stack:
        servers = {False: stack.enter_context(Reference(binary, *size))}
        trust = {False: []}
        if not options.skip_tls:
            key, cert = certificate(scratch)
            servers[True] = stack.enter_context(Reference(binary, *size, "--tls-cert", str(cert), "--tls-key", str(key)))
            trust[True] = ["--ca", cert]

        def measure(program, transport, is_secured, seed):
            send, path = (load.run_tool, binary) if program == OURS else (load.run_bare, bare)
            endpoint = endpoint_of(servers[is_secured], transport, is_secured)
            name = f"{program} over {kind_name(transport, is_secured)}"
            return send(name, path, endpoint, MODEL, seed, "--transport", transport, *trust[is_secured]).row()

        groups = [
            [(row_name(kind_name(*kind), program), lambda seed, program=program, kind=kind: measure(program, *kind, seed)) for program in (OURS, BARE)]
            for kind in kinds
        ]
        rounds = measured(options, groups)
    check_requests(rounds)
    return report(options, scratch, "over each transport", rounds, CLIENT_COLUMNS, pairs)
