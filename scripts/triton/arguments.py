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
