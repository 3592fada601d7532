"""The dispatcher: which command is loaded, what a user who errs is told, and how every end becomes
an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import scaler
from scaler import cli

ROOT = Path(__file__).parent.parent


def place_of(name: str) -> str:
    """The module of a subcommand."""
    return "scaler.run" if name == "run" else f"scaler.tools.{name}.command"


class Loader:
    """Stands in for `importlib.import_module`: knows the given commands and records what was asked
    for."""

    def __init__(self, **commands: SimpleNamespace) -> None:
        self.commands = {place_of(name): command for name, command in commands.items()}
        self.asked: list[str] = []

    def import_module(self, name: str) -> SimpleNamespace:
        self.asked.append(name)
        if name not in self.commands:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return self.commands[name]


def succeed(args: argparse.Namespace) -> int:
    return 0


def command(run: object = succeed) -> SimpleNamespace:
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--count", type=int, default=0)

    return SimpleNamespace(
        HELP="Check a\nrule.\n\nMore about it.", add_arguments=add_arguments, run=run
    )


def install(monkeypatch: pytest.MonkeyPatch, **commands: SimpleNamespace) -> Loader:
    loader = Loader(**commands)
    monkeypatch.setattr(cli, "importlib", loader)
    return loader


def raising(error: BaseException) -> object:
    def run(args: argparse.Namespace) -> int:
        raise error

    return run


def test_a_command_gets_its_arguments_and_its_result_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, lint=command(lambda args: args.count))
    assert cli.main(["lint", "--count", "7"]) == 7


def test_only_the_command_that_was_asked_for_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = install(monkeypatch, lint=command(), plan=command())
    cli.main(["plan"])
    assert loader.asked == ["scaler.tools.plan.command"]


@pytest.mark.parametrize(
    "arguments", [["--version"], ["version"], ["nonsense"], ["--nonsense"], ["doctor"], []]
)
def test_no_command_is_loaded_when_none_was_named(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = install(monkeypatch)
    cli.main(arguments)
    assert loader.asked == []


def test_the_version_is_the_one_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("--version", "version"):
        assert cli.main([words]) == 0
        assert capsys.readouterr().out == f"scaler {scaler.__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help", "help"])
def test_help_lists_every_command_with_its_first_paragraph(
    flag: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, **dict.fromkeys(cli.COMMANDS, command()))
    assert cli.main([flag]) == 0
    out = capsys.readouterr().out
    assert [line.split() for line in out.splitlines() if line.endswith("Check a rule.")] == [
        [name, "Check", "a", "rule."] for name in cli.COMMANDS
    ]


def test_a_command_that_cannot_be_loaded_does_not_take_the_help_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, lint=command())
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "Check a rule." in out
    assert "run        (cannot be loaded: No module named 'scaler.run')" in out


def test_a_command_that_cannot_be_loaded_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch)
    assert cli.main(["lint"]) == 1
    assert (
        "scaler lint: cannot be loaded: No module named 'scaler.tools.lint.command'"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "a command is needed"),
        (["lnt"], "there is no command 'lnt', did you mean 'lint'?"),
        (["frobnicate"], "there is no command 'frobnicate';"),
        (["help", "frobnicate"], "there is no command 'frobnicate';"),
        (["doctor", "a/b"], "'doctor' is gone, 'why --rank-table' says all of it"),
        (["--colour"], "unknown option --colour"),
        (["lint", "--count", "many"], "argument --count: invalid int value: 'many'"),
        (["lint", "--cou", "1"], "unrecognized arguments: --cou 1"),
    ],
)
def test_wrong_usage_exits_2_and_says_where_to_look(
    arguments: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(monkeypatch, lint=command())
    assert cli.main(arguments) == 2
    caught = capsys.readouterr()
    place = "scaler lint --help" if "lint" in arguments else "scaler help"
    assert told in caught.err
    assert caught.err.endswith(f"; try '{place}'\n")
    assert caught.err.count("\n") == 1
    assert caught.out == ""


def test_help_of_a_command_shows_its_own_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, lint=command(raising(AssertionError("help runs nothing"))))
    assert cli.main(["lint", "--help"]) == 0
    assert "--count COUNT" in capsys.readouterr().out


def test_an_interrupt_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, lint=command(raising(KeyboardInterrupt())))
    assert cli.main(["lint"]) == 130


def test_a_reader_that_has_gone_ends_the_command_without_a_word() -> None:
    script = "; ".join(
        (
            "import sys, types",
            "from scaler import cli",
            (
                "talk = types.SimpleNamespace(HELP='', add_arguments=lambda parser: None,"
                " run=lambda args: print('x'))"
            ),
            "cli._load = lambda name: talk",
            "sys.exit(cli.main(['lint']))",
        )
    )
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_characters_that_the_terminal_cannot_show_are_escaped() -> None:
    script = "from scaler import cli; cli.main(['--version']); print('\\uff1a')"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("\\uff1a\n")


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_a_help_text_and_parses_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = importlib.import_module(place_of(name)).HELP
    assert cli.main([name, "--help"]) == 0
    assert text.splitlines()[0].split()[0] in capsys.readouterr().out


def test_help_of_a_command_is_also_help_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", "lint"]) == 0
    said = capsys.readouterr().out
    cli.main(["lint", "--help"])
    assert said == capsys.readouterr().out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_first_sentences_have_one_form(name: str) -> None:
    """A capital, what the command does, a full stop; with its name it takes 80 columns."""
    first, _, rest = importlib.import_module(place_of(name)).HELP.partition("\n\n")
    assert re.fullmatch(r"[A-Z][a-z]+ [^.;]+\.", first), first
    assert len(f"  {name:<10} {first}") <= 80
    assert "Exit code: 0" in rest or name == "shadow"


def options_of(name: str) -> dict[str, str]:
    """Each short option of a command and of its subcommands, with its long name."""
    parser = cli._parser_of(name, importlib.import_module(place_of(name)))
    found: dict[str, str] = {}
    parsers = [parser]
    while parsers:
        for action in parsers.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            if action.help == argparse.SUPPRESS:
                continue
            for option in action.option_strings:
                if not option.startswith("--"):
                    found[option] = action.option_strings[-1]
    return found


MEANINGS = {
    "-h": "--help",
    "-n": "--namespace",
    "-A": "--all-namespaces",
    "-k": "--kubeconfig",
    "-o": "--output",
    "-w": "--watch",
    "-v": "--verbose",
}


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_short_option_means_the_same_in_all_commands(name: str) -> None:
    found = options_of(name)
    files = {"-f", "-c"}
    """A file or folder to read or write, of `new`, `demo` and `deploy`."""
    assert {one: long for one, long in found.items() if one not in files} == {
        one: MEANINGS[one] for one in found if one not in files
    }


def test_running_the_package_is_running_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scaler", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"scaler {scaler.__version__}\n"
