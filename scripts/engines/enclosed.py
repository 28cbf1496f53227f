"""Runs a command, and then ends each process that the command leaves behind: python3 enclosed.py [--time-limit SECONDS] -- COMMAND

The exit code is the command's, or 124 when the time limit ended it. A signal goes on to the command.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from running import Help, interrupt_on_signals, run, undisturbed
from triton.arguments import positive

from engines import processes


def say(text):
    print(f"enclosed: {text}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(prog="enclosed", description=__doc__, formatter_class=Help)
    parser.add_argument("--time-limit", type=positive, metavar="SECONDS")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    interrupt_on_signals()
    processes.keep_orphans()
    try:
        return run(options.command, {}, options.time_limit, say)
    except KeyboardInterrupt:
        return 130
    finally:
        with undisturbed():
            processes.end_all()


if __name__ == "__main__":
    sys.exit(main())
