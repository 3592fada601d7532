"""`scaler run` whose main thread stands still at a signal: SIGHUP for a while, SIGALRM for long.

Must not: change anything else."""

from __future__ import annotations

import signal
import sys
import time

from scaler.cli import main

SHORT = 4.0
LONG = 25.0
"""Seconds."""

if __name__ == "__main__":
    for number, seconds in ((signal.SIGHUP, SHORT), (signal.SIGALRM, LONG)):
        signal.signal(number, lambda *_, seconds=seconds: time.sleep(seconds))
    sys.exit(main())
