"""The dispatcher: which command is loaded, what a user who errs is told, and how every end becomes
an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
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


@pytest.mark.parametrize("arguments", [["--version"], ["nonsense"], ["--nonsense"], []])
def test_no_command_is_loaded_when_none_was_named(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = install(monkeypatch)
    cli.main(arguments)
    assert loader.asked == []


def test_the_version_is_the_one_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"scaler {scaler.__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
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
        ([], "a command is needed: new,"),
        (["lnt"], "there is no command 'lnt', did you mean 'lint'?"),
        (["frobnicate"], "there is no command 'frobnicate'; commands are: new,"),
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
    place = "scaler lint --help" if "lint" in arguments else "scaler --help"
    assert told in caught.err
    assert caught.err.endswith(f"Try '{place}'.\n")
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


def test_running_the_package_is_running_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scaler", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"scaler {scaler.__version__}\n"
