"""Tells violations apart by their shrunk conversation."""

import hashlib
import tomllib
from itertools import groupby

# A shorter pause is the time that a request takes to the server; a longer one has to do with the idle limit.
SHORT_PAUSE_US = 50_000


def read(path):
    """A failure file as dicts."""
    return tomllib.loads(path.read_text())


def messages(failure):
    """How many requests a failure sends."""
    return sum(act.startswith("send ") for conversation in failure["conversation"] for act in conversation["acts"])


def shape(failure):
    """What the clients do, a line for each worker, without what is another in every run: IDs, values and times. Workers that do the
    same are one."""
    workers = {}
    for conversation in sorted(failure["conversation"], key=lambda its: its["at_us"]):
        workers.setdefault(conversation["worker"], []).append(conversation)
    return sorted({line(conversations) for conversations in workers.values()})


def line(conversations):
    """The conversations of one worker, which it holds one after the other; their IDs are numbered."""
    names, words = {}, []
    for conversation in conversations:
        name = names.setdefault(conversation["context"], len(names) + 1)
        later = "later, " if conversation["at_us"] >= SHORT_PAUSE_US else ""
        accused = " (accused)" if conversation.get("accused") else ""
        words.append(f"ID {name}: {later}{' '.join(steps(conversation['acts']))}{accused}")
    return "; ".join(its for its, _ in groupby(words))


def steps(acts):
    """The acts of one conversation in words, a run of the same ones as one."""
    lanes = {}
    words = [word for act in acts for word in [step(act.split(), lanes)] if word]
    return [word for word, _ in groupby(words)]


def step(words, lanes):
    """One act in words; nothing where it tells nothing."""
    kind = words[0]
    if kind == "pause":
        return "pause" if int(words[1]) >= SHORT_PAUSE_US else None
    if kind == "close":
        return None
    lane = lanes.setdefault(words[1], len(lanes))
    if kind == "send":
        flags = [word for word in words[2:] if word in ("START", "END")]
        kind = "+".join(flags) or "step"
    elif kind == "open":
        kind = f"open-{words[-1]}"
    return f"{kind}@{lane}" if lane else kind


def fingerprint(kind, cause, lines):
    """A short name of a violation: the same for the same kind, cause and shape."""
    text = "\n".join([kind, cause, *lines])
    return hashlib.sha256(text.encode()).hexdigest()[:10]
