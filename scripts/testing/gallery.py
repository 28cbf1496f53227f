"""The pictures of the gallery: which runs they come from, and what each shows."""

import dataclasses
import shlex

from triton.install import ROOT

FOLDER = ROOT / "docs/gallery"
WIDTH = 960
SLOTS, LATENCY, LIMIT = (f'section[id$="-{name}"]' for name in ("slots", "latency", "limit"))
SHARED = '.group:has(h4:has-text("shared-state")) details.found'


@dataclasses.dataclass(frozen=True)
class Picture:
    name: str
    # What is shown below the verdict, and what is unfolded before: selectors of page/shoot.mjs.
    parts: tuple
    unfold: str | None = None
    # The part of the run that the lanes show.
    zoom: tuple | None = None
    schemes: tuple = ("light",)


@dataclasses.dataclass(frozen=True)
class Report:
    name: str
    # What starts the server, and the words of the tool.
    starter: tuple
    words: tuple
    pictures: tuple
    # What the run has to come to, and what it has to print.
    code: int = 0
    shows: str = "VALID"
    seeds: tuple = (42,)

    def command(self, seed=None):
        """The command that makes the report."""
        seed = self.seeds[0] if seed is None else seed
        return shlex.join([*self.starter, "--", "sequence-stress", *self.words, "-r", str(seed), "--html", f"{self.name}.html"])

    def shots(self, folder):
        """The pictures, as page/shoot.mjs wants them."""
        for picture in self.pictures:
            for scheme in picture.schemes:
                shot = {"report": str(folder / f"{self.name}.html"), "out": str(FOLDER / file_name(picture, scheme)), "scheme": scheme}
                shot |= {"parts": picture.parts, "width": WIDTH}
                yield shot | {key: value for key, value in (("unfold", picture.unfold), ("zoom", picture.zoom)) if value}


def file_name(picture, scheme):
    return f"{picture.name}.webp" if scheme == "light" else f"{picture.name}-{scheme}.webp"


def files():
    """The names of all pictures."""
    return {file_name(picture, scheme) for report in REPORTS for picture in report.pictures for scheme in picture.schemes}


def with_triton(*words):
    return ("scripts/with-triton", *words)


REPORTS = [
    Report(
        "valid",
        with_triton("--shape", "1x8"),
        ("-t", "8", "-i", "100"),
        (Picture("valid", (SLOTS,), zoom=(0.3, 0.34)), Picture("latency", (f"{LATENCY} .chart", f"{LATENCY} .chart.wide", f"{LATENCY} .chart.wide >> nth=1"))),
    ),
    Report(
        "leak",
        with_triton("--release", "24.10"),
        ("--scenario", "cancellation", "-d", "20s"),
        (Picture("leak", (SLOTS,), schemes=("light", "dark")),),
        code=1,
        shows="slot-leak",
        seeds=(1, 2, 3, 4, 5),
    ),
    Report(
        "double-release",
        with_triton("--release", "24.03", "--shape", "1x2", "--idle-limit-ms", "200", "--execute-delay-ms", "20"),
        ("-m", "implicit_dyna_sequence_int32", "--scenario", "cancellation", "-d", "20s"),
        (
            Picture("double-release", (SLOTS,), zoom=(0.0, 0.2)),
            Picture("messages", (f"{SHARED} .facts", f"{SHARED} .scroll"), unfold=SHARED),
        ),
        code=1,
        shows="shared-state",
        seeds=(1, 2, 3, 4, 5),
    ),
    Report(
        "starvation",
        with_triton(),
        ("--scenario", "starvation", "-d", "20s"),
        (Picture("starvation", (SLOTS,), zoom=(0.3, 0.6)),),
    ),
    Report(
        "find-limit",
        with_triton(),
        ("--find-limit", "5..200/s", "-d", "4s", "--fail-if", "step.p99 > 500ms"),
        (Picture("find-limit", (f"{LIMIT} figure", f"{LIMIT} figure >> nth=1")),),
        shows="LIMIT",
    ),
]
