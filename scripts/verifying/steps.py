"""What is sent to a model: whole sequences, one in each slot, with idle slots in between."""

import random

from . import formulas

EXECUTIONS = 40
NOBATCH_EXECUTIONS = 24
LONGEST = 6
# What a state begins with where the server gives one.
INITIAL = 7
# What stands in tensors where nothing does: memory of whatever was there before.
GARBAGE_TEXTS = ["", "\0\0\0", "no number", "99999999999999999999", "-"]
CORRIDS = {
    "INT32": [1, 40, 2**31 - 1, -5],
    "UINT32": [1, 41, 2**31, 2**32 - 1],
    "INT64": [1, 42, 2**40 + 3, -(2**33) - 1],
    "UINT64": [1, 43, 2**40 + 3, 2**63 + 5, 2**64 - 1],
    "TEXT": ["1", "44", "no number", "", "007", "4294967297", "18446744073709551615", "18446744073709551616", "99999999999999999999"],
}
SMALL_CORRIDS = [1, 9, 12]


def inputs(model, generator):
    """One number of the model's type: small ones, and such as make sums wrap, where the runtime has all of the type's numbers."""
    element = model["element"]
    if element == "BF16":
        return generator.choice([0, 1, 2])
    if element in formulas.EXACT:
        return generator.choice([0, 1, 2.5, -3, 7])
    if model["exact_element"] != element:
        return generator.choice([0, 1, 3, 5, 2**24 + 1])
    width = formulas.WIDTHS[element]
    greatest = 2**width - 1 if element in formulas.UNSIGNED else 2 ** (width - 1) - 1
    return generator.choice([0, 1, 3, 5, greatest, greatest // 2, wrapped_negative(element)])


def wrapped_negative(element):
    return formulas.wrapped(element, -9)


def garbage(model, generator):
    """An element that must not count."""
    element = model["element"]
    if element == "TEXT":
        return generator.choice(GARBAGE_TEXTS)
    if element in formulas.EXACT:
        return generator.choice([0.0, float("nan"), float("inf"), 3.0])
    return inputs(model, generator)


def corrid(model, generator):
    """A correlation ID; of models that cannot hold a large one exactly a small one."""
    kind = model["corrid"]
    if kind is None:
        return None
    if model["exact_element"] in formulas.EXACT and model["exact_element"] != "FP64":
        small = generator.choice(SMALL_CORRIDS)
        return str(small) if kind == "TEXT" else small
    return generator.choice([one for one in CORRIDS[kind] if is_exact(model, one)])


def is_exact(model, corrid):
    """The runtime has this ID, and the sums that it is added to."""
    if model["exact_corrid"] == model["corrid"] and model["exact_element"] == model["element"]:
        return True
    return abs(corrid) < 2**24 and (corrid >= 0 or model["element"] not in formulas.UNSIGNED)


class Slot:
    """The sequences of one slot, one after the other, with idle times."""

    def __init__(self, model, generator):
        self.model, self.generator, self.left, self.corrid, self.idle = model, generator, 0, None, 0

    def row(self, width):
        if (not self.left and self.generator.random() < 0.2) or (self.left and self.generator.random() < 0.1):
            return self.idle_row(width)
        start = not self.left
        if start:
            self.left = self.generator.randint(1, LONGEST)
            self.corrid = corrid(self.model, self.generator)
        self.left -= 1
        numbers = [inputs(self.model, self.generator) for _ in range(width)]
        return {"input": numbers, "start": start, "end": not self.left, "ready": True, "corrid": self.corrid}

    def idle_row(self, width):
        numbers = [garbage(self.model, self.generator) for _ in range(width)]
        nothing = {"TEXT": ""}.get(self.model["corrid"], 0)
        return {"input": numbers, "start": False, "end": False, "ready": False, "corrid": nothing}


def executions(model):
    """The rows of each execution: always the same ones for a model."""
    generator = random.Random(model["name"].partition("_")[2])
    slots = [Slot(model, generator) for _ in range(model["batch"] or 1)]
    for _ in range(EXECUTIONS if model["batch"] else NOBATCH_EXECUTIONS):
        width = model["width"] or generator.choice([1, 2, 5])
        yield [slot.row(width) for slot in slots[: generator.randint(1, len(slots))]]
