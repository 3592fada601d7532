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

COMMANDS = (
    "new",
    "lint",
    "schema",
    "plan",
    "explain",
    "simulate",
    "demo",
    "preflight",
    "deploy",
    "status",
    "why",
    "ui",
    "takeover",
    "shadow",
    "doctor",
    "drain",
    "uninstall",
    "completion",
    "run",
)
"""Subcommands in the order in which a new user needs them."""

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
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE


class Parser(argparse.ArgumentParser):
    """Answers a usage error with exit code 2 and a reference to the right usage."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message}\nTry '{self.prog} --help'.\n")


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
        leaf: BaseException = error
        while isinstance(leaf, BaseExceptionGroup):  # the error of a TaskGroup
            leaf = leaf.exceptions[0]
        if isinstance(leaf, BrokenPipeError):
            # Stdout becomes /dev/null, or the interpreter reports the broken pipe once more when it
            # flushes at exit.
            with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device, not a path
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
            return EXIT_BROKEN_PIPE
        if os.environ.get(DEBUG):
            raise
        words = " ".join(f"{type(leaf).__name__}: {leaf}".split())[:1000]
        advice = f"{DEBUG}=1 shows where; please report it if it is a fault of ours."
        sys.stderr.write(f"{_program()} {arguments[0]}: {words}\n{advice}\n")
        return EXIT_FAILED
    return code


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
    overview = ""
    if {"-h", "--help"} & set(arguments):
        lines = [f"  {name:<10} {_summary(name)}" for name in COMMANDS]
        overview = "\n".join(
            ["commands:", *lines, "", "'scaler COMMAND --help' says more about each."]
        )
    parser = Parser(
        prog=_program(), usage=f"{_program()} COMMAND ...", description=purpose, epilog=overview
    )
    parser.add_argument("--version", action="version", version=f"scaler {__version__}")
    if arguments and not arguments[0].startswith("-"):
        near = difflib.get_close_matches(arguments[0], COMMANDS, n=1)
        guess = f", did you mean '{near[0]}'?" if near else f"; commands are: {', '.join(COMMANDS)}"
        parser.error(f"there is no command '{arguments[0]}'{guess}")
    parser.parse_known_args(arguments[:1])
    parser.error(
        f"unknown option {arguments[0]}"
        if arguments
        else f"a command is needed: {', '.join(COMMANDS)}"
    )


def _summary(name: str) -> str:
    """The first paragraph of the help text, in one line."""
    try:
        first, _, _ = str(_load(name).HELP).strip().partition("\n\n")
        return " ".join(first.split())
    except ImportError as error:
        return f"(cannot be loaded: {error})"
