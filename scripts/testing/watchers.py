"""Gets the programs that watch a run in tests into the ignored folder `.tools/`, once: Prometheus, and what knows Grafana's dashboards.

Debian's package of Prometheus is unpacked and not installed, because an installed one starts a server.
"""

import downloads
from downloads import PYTHON_VERSION
from triton.install import once, unpack_debian_package

from .tools import HOME

PROMETHEUS = "prometheus"
# The set of wheels.txt, and what pip needs for it. The number before `!` is when the package was made, the other one Grafana's version.
GRAFANA = "grafana"
GRAFANA_SPECIFIERS = ["grafana-foundation-sdk==1769699379!11.6.0"]


def prometheus():
    """The folder of the programs prometheus and promtool."""
    return once("debian-prometheus", lambda path: unpack_debian_package(PROMETHEUS, path, HOME), HOME) / "usr/bin"


def grafana():
    """The folder of Grafana's own description of dashboards, as a Python package."""
    folder = f"{GRAFANA_SPECIFIERS[0].replace('==', '-').replace('!', '-')}-python-{PYTHON_VERSION}"
    return once(folder, lambda path: downloads.install(GRAFANA, GRAFANA_SPECIFIERS, path, HOME), HOME)
