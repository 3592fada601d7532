"""Wrong use of a command: one line on standard error, and exit code 2."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

EXIT_USAGE = 2
"""The command line is wrong, or a file that it names cannot be read."""


def wrong(command: str, message: str) -> int:
    """Print what is wrong and where the right use is; the exit code."""
    sys.stderr.write(f"scaler {command}: {message}; try 'scaler {command} --help'\n")
    return EXIT_USAGE


class UnreadableError(Exception):
    """A file that the command line names cannot be read. `scaler.cli` prints it."""


def content_of(file: str | Path) -> bytes:
    """What a file of the command line holds; `-` is standard input. Raises UnreadableError."""
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UnreadableError(f"{file}: {error.strerror or error}") from None


def add_renamed(parser: argparse.ArgumentParser, *flags: str, now: str) -> None:
    """Flags of earlier releases, which are an error that says what to write `now`."""

    class Renamed(argparse.Action):
        def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
            parser.error(f"write {now} instead of {given[-1]}")

    parser.add_argument(*flags, nargs="?", action=Renamed, help=argparse.SUPPRESS)
