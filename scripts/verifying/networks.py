"""The networks of `sequence-stress repository` once more, in NumPy: by the weights of the file, and in 64 bits. NumPy is there in the
processes of the runtimes alone."""

import random

import numpy

from .runs import Difference

STEPS = 40
LONGEST = 36
# FP32 has some 7 digits, and a cell adds up what is rounded over the steps of a sequence.
TOLERANCE = 2e-5


def sigmoid(values):
    return 1 / (1 + numpy.exp(-values))


def head(weights, values):
    return numpy.tanh(values @ weights["head.weight"] + weights["head.bias"])


def gates(weights, count):
    """The weights of each gate: for INPUT, for the state, and the biases of both."""
    of_input, of_state, bias = (weights[name][0] for name in ("cell.W", "cell.R", "cell.B"))
    biases = numpy.split(bias, 2 * count)
    return list(zip(numpy.split(of_input, count), numpy.split(of_state, count), biases[:count], biases[count:]))


def gru(weights, given, state):
    update, reset, new = gates(weights, 3)

    def parts(gate):
        return given @ gate[0].T + gate[2], state @ gate[1].T + gate[3]

    share, forget = sigmoid(sum(parts(update))), sigmoid(sum(parts(reset)))
    of_input, of_state = parts(new)
    after = (1 - share) * numpy.tanh(of_input + forget * of_state) + share * state
    return [head(weights, after)], [after]


def lstm(weights, given, hidden, cell):
    of_gates = (given @ gate[0].T + gate[2] + hidden @ gate[1].T + gate[3] for gate in gates(weights, 4))
    takes, shows, keeps, new = of_gates
    cell = sigmoid(keeps) * cell + sigmoid(takes) * numpy.tanh(new)
    hidden = sigmoid(shows) * numpy.tanh(cell)
    return [head(weights, hidden)], [hidden, cell]


def conv(weights, given, cache):
    frames = numpy.concatenate([cache, given[..., None]], axis=-1)
    mixed = (frames * weights["conv.weight"][:, 0, :]).sum(axis=-1) + weights["conv.bias"]
    return [head(weights, mixed)], [frames[..., 1:]]


def two_state(weights, given, zeta, alpha):
    zeta = zeta * [1, weights["zeta.fade"][1]] + given @ weights["zeta.weight"] + [1, 0]
    alpha = alpha * weights["alpha.fade"] + numpy.tanh(given @ weights["alpha.weight"]) * weights["alpha.share"]
    output = numpy.tanh(zeta @ weights["head.zeta"] + alpha @ weights["head.alpha"] + given @ weights["head.input"])
    return [output, numpy.trunc(zeta[..., :1])], [zeta, alpha]


NETWORKS = {"gru": gru, "lstm": lstm, "conv": conv, "two_state": two_state}


def run(model, network, weights, execute):
    """Sends whole sequences, one in each slot, with idle slots in between, and compares every output and state. `execute(inputs) -> outputs`
    takes and gives, by name, (element type, shape, flat list)."""
    step = NETWORKS[network]
    weights = {name: values.astype("float64") for name, values in weights.items()}
    generator = random.Random(7)
    inputs, states = model["inputs"], model["states"]
    sizes = {tensor["name"]: tensor["dims"][1:] if model["batch"] else tensor["dims"] for tensor in inputs}
    slots = [{"left": 0} for _ in range(model["batch"] or 1)]
    for index in range(STEPS):
        rows = slots[: generator.randint(1, len(slots))]
        for row in rows:
            begin(row, states, sizes, generator)
        given = [[generator.uniform(-1, 1) for _ in range(sizes["INPUT"][0])] for _ in rows]
        before = [numpy.stack([row[state["input"]] for row in rows]) for state in states]
        values = dict(zip([tensor["name"] for tensor in inputs], [numpy.array(given), *before]))
        answers = execute({name: tensor(model, rows, array) for name, array in values.items()})
        outputs, after = step(weights, *(array.astype("float32").astype("float64") for array in values.values()))
        for output, expected in zip(model["outputs"], [*outputs, *after]):
            compare(model, f"execution {index}", output, expected, answers[output["name"]])
        for place, row in enumerate(rows):
            # What an idle slot leaves nobody keeps.
            if row["left"]:
                row["left"] -= 1
                row.update((state["input"], values[place].astype("float32")) for state, values in zip(states, after))


def begin(row, states, sizes, generator):
    """A step of a sequence, which may be its first, or of an idle slot, in which there is whatever was there before."""
    is_idle = generator.random() < 0.2
    if not row["left"] and not is_idle:
        row["left"] = generator.randint(1, LONGEST)
        row.update((state["input"], numpy.zeros(sizes[state["input"]])) for state in states)
    elif not row["left"]:
        row.update((state["input"], numpy.full(sizes[state["input"]], generator.uniform(-3, 3))) for state in states)


def tensor(model, rows, array):
    array = array if model["batch"] else array[0]
    return "FP32", list(array.shape), array.reshape(-1).tolist()


def compare(model, where, output, expected, answer):
    expected = expected if model["batch"] else expected[0]
    shape, values = answer
    if list(shape) != list(expected.shape):
        raise Difference(f"{where}: {output['name']} has the shape {list(shape)}, not {list(expected.shape)}")
    apart = numpy.abs(numpy.array(values).reshape(shape) - expected)
    # Written so that what is no number is seen, too.
    if not (apart <= TOLERANCE * numpy.maximum(1, numpy.abs(expected))).all():
        place = tuple(int(one) for one in numpy.unravel_index(apart.argmax(), apart.shape))
        raise Difference(f"{where}: {output['name']}{list(place)} is {float(apart[place])} off {float(expected[place])}")
