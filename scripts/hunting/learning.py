"""A hunt whose runs are drawn: each search goes on from what the ones before it reached, on whatever release."""

import json

from . import document, schedule
from .writing import SEARCH

CORPUS = "corpus.json"


class Learning:
    """What is learnt, in a file that `sequence-stress search` reads and writes."""

    def __init__(self, corpus, without=(), reloads=False):
        self.corpus, self.without, self.reloads = corpus, list(without), reloads
        # How far the hunt was after each search, as hunt.json has it.
        self.reached = []
        self.requests = 0

    def words(self, turn, seconds):
        """What the tool is told of a search."""
        without = ["--without", ",".join(self.without)] if self.without else []
        reloads = ["--reloads"] if self.reloads else []
        return ["search", "-m", turn.model, "-r", turn.seed, "--duration", f"{seconds}s", *without, *reloads, "--corpus", self.corpus]

    def take_in(self, path, elapsed):
        """Reads the result of a search, and leaves that of its run with a violation in its place, if there is one. Returns how many
        runs came to what; nothing where there is no result."""
        try:
            searched = json.loads(path.read_text())
        except (OSError, ValueError):
            return {}
        if "coverage" not in searched:
            return {}
        if searched["coverage"]:
            last = searched["coverage"][-1]
            self.requests += last["requests"]
            self.reached.append({**last, "elapsed_s": elapsed, "requests": self.requests})
        path.unlink()
        if searched["result"]:
            path.write_text(json.dumps(searched["result"]))
        violating, unknown = searched["violating"], searched["unknown"]
        counts = {document.VALID: searched["runs"] - violating - unknown, document.VERDICTS[1]: violating, document.VERDICTS[3]: unknown}
        return {what: count for what, count in counts.items() if count}


def sweeps(releases, models, first_seed, count=None, settings_of=lambda _release: (None,)):
    """Sweeps over all releases and models, in which each search has a seed of its own; `count` of them, or without end."""
    plain = schedule.sweeps(releases, models, [SEARCH], first_seed, count, settings_of)
    seed = first_seed
    for sweep in plain:
        drawn = []
        for turns in sweep:
            drawn.append([schedule.with_seed(turn, seed + place) for place, turn in enumerate(turns)])
            seed += len(turns)
        yield drawn
