"""The `scaler` command: finds the subcommand, passes it the arguments, and returns the exit code.

Every subcommand has a folder in `scaler.tools` with a module `command`, except `run`, which is
`scaler.run`. Only the named one is imported, so that `scaler lint` starts fast, and a broken
dependency of one command does not break the others. This module knows nothing of what a command
does."""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from scaler import __doc__ as purpose
from scaler import __version__
from scaler.tools.common.usage import EXIT_USAGE, UnreadableError

GROUPS = {
    "See what runs": ("status", "why", "ui"),
    "Decide offline": ("new", "lint", "plan", "simulate", "demo", "explain", "schema"),
    "Operate": ("deploy", "drain", "takeover", "shadow"),
    "Install": ("preflight", "run", "uninstall", "completion"),
}
"""Subcommands by what a person wants to do."""
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
OWN = {
    "help": "Show this overview, or the help of COMMAND.",
    "version": "Print the version.",
}
"""What is answered here."""
GONE = {"doctor": "why --rank-table"}
"""Subcommands of earlier releases -> what to call instead."""

INCOMPLETE = (
    "This installation is incomplete; in a clone of the repository, 'make demo' installs what is"
    " missing."
)

COMPLETE = "__complete"
"""The subcommand that shells call (scaler.tools.completion)."""
PLUGIN = "kubectl-scaler"
"""The name under which kubectl finds this program as `kubectl scaler`."""
COMPLETER = "kubectl_complete-scaler"
"""The name under which kubectl calls this program for completions."""
DEBUG = "SCALER_DEBUG"
"""Environment variable: if set, an unexpected error is printed with its traceback."""

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE


class Parser(argparse.ArgumentParser):
    """Answers a usage error with exit code 2 and one line, which says where the right usage is."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        words = " ".join(message.split())
        self.exit(EXIT_USAGE, f"{self.prog}: {words}; try '{self.prog} --help'\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit code; never raises
    SystemExit."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None and Path(sys.argv[0]).name == COMPLETER:
        arguments.insert(0, COMPLETE)
    # full-width punctuation has to be printable on terminals of any encoding
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            code = _dispatch(arguments)
        except SystemExit as end:  # argparse ends so after help and after wrong usage
            code = end.code if isinstance(end.code, int) else EXIT_FAILED
        _flush_stdout()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        return _after(error, arguments)
    return code


def _after(error: BaseException, arguments: list[str]) -> int:
    """The exit code after an error that the command did not handle. Raises it with DEBUG."""
    leaf = error
    while isinstance(leaf, BaseExceptionGroup):  # the error of a TaskGroup
        leaf = leaf.exceptions[0]
    if isinstance(leaf, UnreadableError):
        sys.stderr.write(f"{_program()} {arguments[0]}: {leaf}\n")
        return EXIT_USAGE
    if isinstance(leaf, BrokenPipeError):
        # Stdout becomes /dev/null, or the interpreter reports the broken pipe once more when it
        # flushes at exit.
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device, not a path
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    if os.environ.get(DEBUG):
        raise error
    words = " ".join(f"{type(leaf).__name__}: {leaf}".split())[:1000]
    advice = f"{DEBUG}=1 shows where; please report it if it is a fault of ours."
    sys.stderr.write(f"{_program()} {arguments[0]}: {words}\n{advice}\n")
    return EXIT_FAILED


def _flush_stdout() -> None:
    """A closed pipe must show here, not at interpreter exit."""
    if sys.stdout is not None:  # None: it was closed when the process began
        sys.stdout.flush()


def _program() -> str:
    """The name by which the program was called."""
    return "kubectl scaler" if Path(sys.argv[0]).name == PLUGIN else "scaler"


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == [COMPLETE]:
        words = arguments[1:]
        several = len(arguments) > 2
        commands = [(name, "" if several else _summary(name)) for name in COMMANDS]
        commands += OWN.items()
        answer = _load("completion").complete(
            words, commands, lambda name: _parser_of(name, _load(name))
        )
        sys.stdout.write(answer)
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        return _top_level(arguments)
    name = arguments[0]
    try:
        command = _load(name)
    except ImportError as error:
        sys.stderr.write(f"scaler {name}: cannot be loaded: {error}\n{INCOMPLETE}\n")
        return EXIT_FAILED
    return int(command.run(_parser_of(name, command).parse_args(arguments[1:])))


def _parser_of(name: str, command: Any) -> Parser:
    parser = Parser(prog=f"{_program()} {name}", description=command.HELP)
    command.add_arguments(parser)
    return parser


def _load(name: str) -> Any:
    """The module of a subcommand: `HELP`, `add_arguments(parser)` and `run(arguments) -> exit
    code`."""
    return importlib.import_module(
        "scaler.run" if name == "run" else f"scaler.tools.{name}.command"
    )


def _top_level(arguments: list[str]) -> int:
    """Handle arguments that name no command: help, version, nothing, a misspelling."""
    first = arguments[0] if arguments else ""
    if first == "version" or "--version" in arguments:
        sys.stdout.write(f"scaler {__version__}\n")
        return 0
    if first == "help" and arguments[1:2] and arguments[1] in COMMANDS:
        return _dispatch([*arguments[1:], "--help"])
    if first == "help" and arguments[1:2]:
        return _top_level(arguments[1:])
    if first in ("help", "-h", "--help"):
        sys.stdout.write(_overview())
        return 0
    sys.stderr.write(f"{_program()}: {_why_none(first)}; try '{_program()} help'\n")
    return EXIT_USAGE


def _why_none(first: str) -> str:
    """Why the first argument is no command."""
    if not first:
        return "a command is needed"
    if first.startswith("-"):
        return f"unknown option {first}"
    if first in GONE:
        return f"'{first}' is gone, '{GONE[first]}' says all of it"
    near = difflib.get_close_matches(first, [*COMMANDS, *OWN], n=1)
    guess = f", did you mean '{near[0]}'?" if near else ""
    return f"there is no command '{first}'{guess}"


def _overview() -> str:
    lines = [purpose or "", "", f"usage: {_program()} COMMAND ..."]
    for title, names in GROUPS.items():
        lines += ["", f"{title}:"]
        for name in names:
            lines.append(f"  {name:<10} {_summary(name)}")
    lines += ["", "Other:"]
    for name, words in OWN.items():
        lines.append(f"  {name:<10} {words}")
    lines += ["", f"'{_program()} COMMAND --help' says more about each.", ""]
    return "\n".join(lines)


def _summary(name: str) -> str:
    """The first paragraph of the help text, in one line."""
    try:
        first, _, _ = str(_load(name).HELP).strip().partition("\n\n")
        return " ".join(first.split())
    except ImportError as error:
        return f"(cannot be loaded: {error})"
