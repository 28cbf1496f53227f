"""The formulas once more, in plain Python: what a row is answered with, and the state that it leaves."""

WIDTHS = {"INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64, "UINT8": 8, "UINT16": 16, "UINT32": 32, "UINT64": 64, "TEXT": 32}
# What configurations say in place of a formula; networks.py has what is computed then.
NO_FORMULA = "none"
UNSIGNED = {"UINT8", "UINT16", "UINT32", "UINT64"}
# Up to where a floating-point type has all whole numbers, and halves up to half of that.
EXACT = {"FP16": 2**11, "BF16": 2**8, "FP32": 2**24, "FP64": 2**53}


def wrapped(element, number):
    """A number in the width of its type. Texts are of INT32."""
    if element in EXACT:
        if abs(number) > EXACT[element] / 2:
            raise ValueError(f"{number} may not be exact as {element}: the steps are badly chosen")
        return number
    width = WIDTHS[element]
    least = 0 if element in UNSIGNED else -(2 ** (width - 1))
    return (number - least) % 2**width + least


def identity(element, corrid):
    """What a correlation ID counts as: all of its bits where the numbers have 64, else the low 32 as INT32."""
    if isinstance(corrid, str):
        corrid = int(corrid) if corrid.isascii() and corrid.isdigit() and int(corrid) < 2**64 else 0
    return wrapped(element, corrid if element in ("INT64", "UINT64") else wrapped("INT32", corrid))


def step(model, row, state):
    """The answer to a row and the state after it; `state` is what is kept by whoever keeps it."""
    element, formula = model["element"], model["formula"]
    # Of the formula 'sum', which has no controls, it is all.
    total = 0
    for number in row["input"]:
        total = wrapped(element, total + number)
    answer = after = total
    if (formula == "implicit" and row["ready"] and not row["start"]) or formula == "implicit-with-initial-state":
        answer = after = wrapped(element, total + state)
    elif formula == "stateless":
        answer = wrapped(element, total + row["start"]) if row["ready"] else 0
    elif formula.startswith("stateful"):
        after = wrapped(element, total + (model["initial"] if row["start"] else state)) if row["ready"] else state
        answer = after if row["ready"] else 0
    if model["corrid"] and model["adds_corrid"] and row["end"]:
        answer = wrapped(element, answer + identity(element, row["corrid"]))
    return answer, after
