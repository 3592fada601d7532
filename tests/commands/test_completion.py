"""Completion: what each word may become, the same for all shells, and the scripts in those that are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scaler import cli
from scaler.cli import main

ROOT = Path(__file__).parent.parent.parent


def offered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    assert main([cli.COMPLETE, *words]) == 0
    *found, directive = capsys.readouterr().out.splitlines()
    return [line.partition("\t")[0] for line in found], directive


@pytest.mark.parametrize(
    ("words", "found", "directive"),
    [
        (("sta",), ["status"], ":4"),
        (("",), list(cli.COMMANDS), ":4"),
        (("status", "-o", ""), ["table", "wide", "json", "yaml"], ":4"),
        (("status", "--output", "=", "y"), ["yaml"], ":4"),
        (("status", "--output=y"), ["--output=yaml"], ":4"),
        (("status", "--all"), ["--all-namespaces"], ":4"),
        (("status", "-n", ""), [], ":4"),
        (("status", "--kubeconfig", ""), [], ":0"),
        (("status", "one", ""), [], ":4"),
        (("schema", "r"), ["rule"], ":4"),
        (("lint", ""), [], ":0"),
        (("lint", "one.yaml", ""), [], ":0"),
        (("simulate", "-o", "text", ""), [], ":0"),
        (("completion", ""), ["bash", "zsh", "fish"], ":4"),
        (("nothing", ""), [], ":4"),
        ((), list(cli.COMMANDS), ":4"),
    ],
)
def test_a_word_is_completed_from_the_parser_of_its_command(
    words: tuple[str, ...], found: list[str], directive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offered(capsys, *words) == (found, directive)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_offers_its_options_with_their_meaning(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([cli.COMPLETE, command, "--"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("--help\t")] != []


def test_kubectl_calls_this_program_under_two_names_and_gets_words_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl_complete-scaler", "stat"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("status\t")
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-scaler", "status", "--nonsense"])
    assert main() == 2
    assert "kubectl scaler status: error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shell", "asking"),
    [
        ("bash", 'COMP_WORDS=(scaler status -o ""); COMP_CWORD=3; _scaler_complete; echo "${COMPREPLY[*]}"'),
        ("zsh", 'words=(scaler status -o ""); CURRENT=4; _describe() { echo ${found%%:*} }; _scaler'),
        ("fish", 'complete -C "scaler status -o " | sort | string join " "'),
    ],
)
def test_the_script_works_in_the_shell_where_that_is_installed(shell: str, asking: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        assert main(["completion", shell]) == 0
        return
    program = tmp_path / "scaler"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m scaler "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(subprocess.check_output([program, "completion", shell], text=True).replace("compdef ", ": "))
    ran = subprocess.run(
        [shell, "-c", f"source {script}; {asking}"], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert sorted(ran.stdout.split()) == ["json", "table", "wide", "yaml"], ran.stderr
