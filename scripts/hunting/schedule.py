"""Whose turn it is, and how long it may take."""

import dataclasses
import itertools
import time

# What follows a violation gets at most this, and is not begun with less.
CASE_SECONDS_MAX = 240
CASE_SECONDS_MIN = 15
# How much of a case's time goes into making it small; what is left is for the other releases.
SHRINKING = 0.55


@dataclasses.dataclass(frozen=True)
class Turn:
    """One run of the tool."""

    release: str
    model: str
    scenario: str
    seed: int
    # How the server is set.
    setting: object = None


def sweeps(releases, models, scenarios, first_seed, seeds=None, settings_of=lambda _release: (None,)):
    """Sweeps over all releases and models, each of which meets another scenario each time; after as many sweeps as there are
    scenarios each release and model has had all of them, with a seed of its own for each round. In a sweep each release has the next
    of its settings; a round begins with another setting than the one before, so that scenarios meet all of them in time."""
    settings = {release: settings_of(release) for release in releases}
    numbers = range(seeds) if seeds else itertools.count()
    for number, place in ((number, place) for number in numbers for place in range(len(scenarios))):
        yield [
            [
                Turn(
                    release,
                    model,
                    scenarios[(place + row * len(models) + column) % len(scenarios)],
                    first_seed + number,
                    settings[release][(number + place + row) % len(settings[release])],
                )
                for column, model in enumerate(models)
            ]
            for row, release in enumerate(releases)
        ]


def with_seed(turn, seed):
    return dataclasses.replace(turn, seed=seed)


def share(left, sweep_took, cases):
    """How long the first of so many cases may take: of the time that is left half goes into the next sweep, where there is time
    for one (none is to come where it took none), and what remains is shared out. 0 where it is not worth beginning."""
    if not cases or left <= 0:
        return 0
    for_cases = left / 2 if 0 < 2 * sweep_took < left else left
    each = min(CASE_SECONDS_MAX, max(CASE_SECONDS_MIN, for_cases / cases))
    return each if for_cases >= CASE_SECONDS_MIN else 0


class Clock:
    """The time limit of the whole."""

    def __init__(self, seconds, now=time.monotonic):
        self.now = now
        self.ends = now() + seconds

    def left(self):
        return max(0.0, self.ends - self.now())

    def stop(self):
        """Nothing more is begun."""
        self.ends = self.now()
