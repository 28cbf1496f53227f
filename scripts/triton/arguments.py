"""Values on the scripts' command lines, for argparse."""

import argparse
import re
from pathlib import Path

from . import install, programs, server


def shape(text):
    """INSTANCESxBATCH, as two numbers."""
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not INSTANCESxBATCH, such as 2x2")
    return int(match[1]), int(match[2])


def positive(text):
    """A whole number above 0."""
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return int(text)


def not_negative(text):
    """A whole number from 0 up."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 up")
    return int(text)


def milliseconds(text):
    """A time in ms that the models take, up to an hour."""
    if not text.isdigit() or int(text) > 3_600_000:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of ms from 0 to 3600000")
    return int(text)


def seed(text):
    """A number of 64 bits."""
    if not text.isdigit() or int(text) >= 2**64:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 to 2^64 - 1")
    return int(text)


def add_program(parser):
    """Adds the options that say which program serves the models: `check_program` looks at them, and `program` has it."""
    parser.add_argument("--release", choices=install.RELEASES, help=f"which Triton release (default: {install.DEFAULT_RELEASE})")
    parser.add_argument(
        "--frontend",
        choices=programs.FRONTENDS,
        help=f"a hybrid: the front ends of this release before the core of {install.DEFAULT_RELEASE}; needs Python {programs.FRONTEND_PYTHON}",
    )
    parser.add_argument("--library", type=Path, metavar="FILE", help="with --frontend: this libtritonserver.so in place of the core")
    parser.add_argument(
        "--server", type=Path, metavar="DIR", help="the tritonserver that is installed in DIR, such as /opt/tritonserver of NVIDIA's images, with its backends"
    )


def check_program(parser, options):
    """Ends where the options say more than one program, or half of one."""
    given = [f"--{name}" for name in ("release", "frontend", "server") if getattr(options, name)]
    if len(given) > 1:
        parser.error(f"argument {given[1]}: not together with {given[0]}, which also says which server there is")
    if options.library and not options.frontend:
        parser.error(f"argument --library: the front ends before it are missing: give --frontend {max(programs.FRONTENDS)}, too")


def program(options):
    """The program that the options say; one that is neither a release nor made of one is asked its version, once."""
    if not hasattr(options, "program"):
        options.program = chosen(options)
    return options.program


def chosen(options):
    if options.server:
        return server.asked(programs.installed(options.server))
    if options.frontend:
        return server.asked(programs.hybrid(options.frontend, options.library))
    return programs.named(options.release or install.DEFAULT_RELEASE)
