"""Measures the tool with golden outputs beside a bare client that sends the same bytes, and how long a calibration takes.

The model is a GRU of 512 numbers in the reference server, whose outputs differ a little from batch to batch. The tool compares each
output with the golden one. The bare client (examples/bare_client) sends the same inputs, reads every response, and checks nothing.
CPU time is the system's count for the client's process, from its start to its end, user and system; both read the golden file.
"""

import time

from triton.arguments import positive

from .measuring import IDLE_LIMIT_MS, LENGTH, Load, Reference, bare_client, run, tool
from .rounds import CLIENT_COLUMNS, Pair, measured, report
from .rounds import QUICK as QUICK_ROUNDS
from .rounds import add_options as add_round_options
from .transports import BARE, OURS, endpoint_of, row_name

QUICK = {**QUICK_ROUNDS, "tracks": 4, "steps": 4}
TRANSPORTS = ("grpc-stream", "http-binary")
# The limit of the tool's CPU time, as a multiple of the bare client's.
RATIO_MAX = 1.5
MODEL = "gru_wide_float32"
WIDTH = 512
CONFIGURATION = f"""\
name: "{MODEL}"
max_batch_size: 4
input [ {{ name: "INPUT" data_type: TYPE_FP32 dims: [ {WIDTH} ] }} ]
output [ {{ name: "OUTPUT" data_type: TYPE_FP32 dims: [ {WIDTH} ] }} ]
sequence_batching {{
  max_sequence_idle_microseconds: {IDLE_LIMIT_MS * 1000}
  control_input [
    {{ name: "START" control [ {{ kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }} ] }},
    {{ name: "READY" control [ {{ kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] }} ] }}
  ]
}}
parameters [
  {{ key: "sequence_stress_formula" value {{ string_value: "gru" }} }},
  {{ key: "sequence_stress_batch_noise" value {{ string_value: "1e-6" }} }}
]
"""
# The calibration that is timed: of a model that takes a millisecond for each step. The timer of the reference server makes that two.
CALIBRATED = ["--embedded", "-m", "gru_float32", "--execution-time", "1ms"]
CALIBRATION_SECONDS_MAX = 30


def add_options(parser):
    add_round_options(parser, rounds=7, iterations=120)
    parser.add_argument("--tracks", type=positive, default=64, metavar="N", help="number of tracks of a calibration (default: %(default)s)")
    parser.add_argument("--steps", type=positive, default=32, metavar="N", help="steps of each track of the timed calibration (default: %(default)s)")


def repository(folder):
    """A model repository with the model."""
    model = folder / "models" / MODEL
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(CONFIGURATION)
    return folder / "models"


def bench(options, scratch):
    binary, bare = tool(), bare_client()
    load = Load(options, scratch)
    path = scratch / "model.golden"

    def calibrate(*words):
        command = [binary, "golden", *words, "--tracks", options.tracks, "-o", path]
        began = time.monotonic()
        run("the calibration", command, load.log, options.time_limit)
        return time.monotonic() - began

    seconds = calibrate(*CALIBRATED, "--steps", options.steps)
    with Reference(binary, repository=repository(scratch)) as server:
        calibrate(server.endpoint, "-m", MODEL, "--steps", LENGTH)

        def measure(program, transport, seed):
            send, client = (load.run_tool, binary) if program == OURS else (load.run_bare, bare)
            endpoint = endpoint_of(server, transport, False)
            return send(f"{program} over {transport}", client, endpoint, MODEL, seed, "--transport", transport, "--golden", path).row()

        groups = [
            [(row_name(transport, program), lambda seed, program=program, transport=transport: measure(program, transport, seed)) for program in (OURS, BARE)]
            for transport in TRANSPORTS
        ]
        rounds = measured(options, groups)
    pairs = [
        Pair(f"CPU over {transport}, {OURS} / {BARE}", row_name(transport, OURS), row_name(transport, BARE), at_most=RATIO_MAX) for transport in TRANSPORTS
    ]
    told = f"calibration of {options.tracks} tracks of {options.steps} steps of a model that takes 1 ms: {seconds:.1f} s (limit: {CALIBRATION_SECONDS_MAX} s)"
    more = [(told, seconds <= CALIBRATION_SECONDS_MAX, {"seconds": seconds})]
    return report(options, scratch, f"of {WIDTH} FP32 to the reference server", rounds, CLIENT_COLUMNS, pairs, more)
