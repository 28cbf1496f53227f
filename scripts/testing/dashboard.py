"""Prints each field of a Grafana dashboard that Grafana does not have; run it with the folder of grafana-foundation-sdk in PYTHONPATH."""

import copy
import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(before, after, path=""):
    """The fields that `after` has not, or has with another value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from lost(value, after[key], f"{path}/{key}") if key in after else [f"{path}/{key}"]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (mine, other) in enumerate(zip(before, after, strict=True)):
            yield from lost(mine, other, f"{path}/{place}")
    elif before != after:
        yield path


def main():
    register_default_plugins()
    dashboard = json.loads(Path(sys.argv[1]).read_text())
    # What it reads and writes again is what it knows.
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(copy.deepcopy(dashboard))))
    fields = list(lost(dashboard, again))
    print("\n".join(fields))
    return 1 if fields else 0


if __name__ == "__main__":
    sys.exit(main())
