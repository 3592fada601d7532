"""Runs a program that dies with its parent: `python child.py PARENT PROGRAM ARGUMENTS...`, then
exec.

A signal handler or `finally` in the parent does not run on SIGKILL; the kernel's parent-death
signal does. Executed as a script, because a fork of a process with threads may not run Python
before exec. Must not: import the project."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        sys.exit("the parent is gone")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
