"""Gets the programs that watch a run in tests into the ignored folder `.tools/`, once: Prometheus, a collector of OpenTelemetry, and what
knows Grafana's dashboards.

Debian's package of Prometheus is unpacked and not installed, because an installed one starts a server.
"""

import zipfile

import downloads
from downloads import PYTHON_VERSION, InstallError
from triton.install import executable, once, unpack_debian_package

from .tools import HOME

PROMETHEUS = "prometheus"
# The set of wheels.txt, and what pip needs for it. The number before `!` is when the package was made, the other one Grafana's version.
GRAFANA = "grafana"
GRAFANA_SPECIFIERS = ["grafana-foundation-sdk==1769699379!11.6.0"]
# The same for the collector, of which only the program is used.
ROTEL = "rotel"
ROTEL_SPECIFIERS = ["rotel==0.0.1a15"]


def prometheus():
    """The folder of the programs prometheus and promtool."""
    return once("debian-prometheus", lambda path: unpack_debian_package(PROMETHEUS, path, HOME), HOME) / "usr/bin"


def grafana():
    """The folder of Grafana's own description of dashboards, as a Python package."""
    folder = f"{GRAFANA_SPECIFIERS[0].replace('==', '-').replace('!', '-')}-python-{PYTHON_VERSION}"
    return once(folder, lambda path: downloads.install(GRAFANA, GRAFANA_SPECIFIERS, path, HOME), HOME)


def rotel():
    """The folder of the program rotel-agent."""
    wheels = downloads.pinned(ROTEL)
    if not wheels or not downloads.runs_pinned_wheels():
        raise InstallError(f"wheels.txt pins no {ROTEL_SPECIFIERS[0]} for Python {PYTHON_VERSION} on this machine: run this with Python 3.11 or 3.12")

    def make(folder):
        with downloads.fetched(wheels, HOME) as (wheel,), zipfile.ZipFile(wheel) as archive:
            archive.extract("rotel/rotel-agent", folder)
        executable(folder / "rotel/rotel-agent")

    return once(f"{ROTEL_SPECIFIERS[0].replace('==', '-')}", make, HOME) / "rotel"
