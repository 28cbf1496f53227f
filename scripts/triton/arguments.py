"""Values on the scripts' command lines, for argparse."""

import argparse
import re


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
