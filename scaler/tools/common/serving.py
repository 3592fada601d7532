"""What commands share that serve something on this machine: the port, the address, the end."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys


def port(text: str) -> int:
    """A TCP port number, 0 for a free one; argparse prints the error."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number from 0 to 65535")
    return int(text)


def end_on_signals() -> None:
    """Ctrl-C and SIGTERM cancel this task."""
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def print_address(address: str) -> None:
    """Print the address of the page."""
    sys.stdout.write(f"{address}\nOpen it in a browser of this machine. Ctrl-C ends it.\n")
    sys.stdout.flush()
