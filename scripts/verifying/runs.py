"""Runs one model over whole sequences and compares every answer."""

import math

from . import formulas, steps


class Difference(Exception):
    """Where a model's answer is not the right one."""


def run(model, execute):
    """`execute(inputs) -> outputs` takes and gives, by name, (element type, shape, flat list of numbers or texts)."""
    has_state = model["formula"].startswith("implicit")
    generator = steps.random.Random(7)
    states = [0 if not model["initial"] else model["initial"]] * (model["batch"] or 1)
    for index, rows in enumerate(steps.executions(model)):
        if has_state:
            for slot, row in enumerate(rows):
                if row["start"]:
                    is_initial = model["formula"] == "implicit-with-initial-state"
                    states[slot] = steps.INITIAL if is_initial else steps.garbage(model, generator)
        answers = execute(tensors(model, rows, states if has_state else None))
        for slot, row in enumerate(rows):
            check(model, f"execution {index}, row {slot}", row, len(rows), states, slot, answers)


def tensors(model, rows, states):
    """The tensors of an execution, in the order of the model's inputs."""
    flags = {name: [int(row[name.lower()]) for row in rows] for name in ("START", "END", "READY")}
    values = {"INPUT": [number for row in rows for number in row["input"]], "CORRID": [row["corrid"] for row in rows], **flags}
    if states is not None:
        values["INPUT_STATE"] = states[: len(rows)]
    given = {}
    for tensor in model["inputs"]:
        name, element = tensor["name"], tensor["element"]
        numbers = values[name]
        if element == "TEXT":
            numbers = [number if isinstance(number, str) else str(number) for number in numbers]
        shape = row_shape(model, len(rows[0]["input"])) if name == "INPUT" else [1]
        given[name] = (element, [len(rows), *shape] if model["batch"] else shape, numbers)
    return given


def row_shape(model, width):
    """The axes of a row of INPUT: one of all of its elements, where they are open."""
    dims = model["inputs"][0]["dims"]
    return [width if dim < 0 else dim for dim in (dims[1:] if model["batch"] else dims)]


def number(element, answer):
    """An answer as a number."""
    return int(answer) if element == "TEXT" else answer


def check(model, where, row, count, states, slot, answers):
    element, width = model["element"], len(row["input"])
    is_garbage = any(isinstance(one, str) or (isinstance(one, float) and not math.isfinite(one)) for one in row["input"])
    # Whatever such a row is answered with, nobody reads it. A text that is no number counts as 0.
    if is_garbage and not model["formula"].startswith("stateful") and element != "TEXT":
        return
    counted = {**row, "input": [counting(one) for one in row["input"]]}
    before = counting(states[slot]) if model["formula"] != "implicit" or (row["ready"] and not row["start"]) else 0
    answer, after = formulas.step(model, counted, before)
    shape, output = answers["OUTPUT"]
    wanted = row_shape(model, width)
    wanted_shape = [count, *wanted] if model["batch"] else wanted
    if list(shape) != wanted_shape:
        raise Difference(f"{where}: OUTPUT has the shape {list(shape)}, not {wanted_shape}")
    got = [number(element, one) for one in output[slot * width : (slot + 1) * width]]
    if got != [answer] * width:
        raise Difference(f"{where}: OUTPUT is {got}, not {answer} each; before it {before}, {row}")
    if model["formula"].startswith("implicit"):
        shape, kept = answers["OUTPUT_STATE"]
        if list(shape) != ([count, 1] if model["batch"] else [1]) or number(element, kept[slot]) != after:
            raise Difference(f"{where}: OUTPUT_STATE is {kept[slot]} of shape {list(shape)}, not {after}; before it {before}, {row}")
    if row["ready"]:
        states[slot] = after


def counting(one):
    """What a value counts as: a text that is no INT32 as 0."""
    if not isinstance(one, str):
        return 0 if isinstance(one, float) and not math.isfinite(one) else one
    try:
        return int(one) if formulas.wrapped("INT32", int(one)) == int(one) else 0
    except ValueError:
        return 0
