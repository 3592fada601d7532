"""Completion: what each word may become, the same for all shells, and the scripts in those that are
installed."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from scaler import cli
from scaler.cli import main
from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, ELASTIC_SERVICES, NODES
from scaler.names import RULE_LABEL
from scaler.sim.apiserver.facade import kubeconfig, serve
from scaler.sim.cluster import SimCluster
from tests.jobs import manifest

ROOT = Path(__file__).parent.parent.parent


def offered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    assert main([cli.COMPLETE, *words]) == 0
    *found, directive = capsys.readouterr().out.splitlines()
    return [line.partition("\t")[0] for line in found], directive


@pytest.mark.parametrize(
    ("words", "found", "directive"),
    [
        (("sta",), ["status"], ":4"),
        (("",), [*cli.COMMANDS, *cli.OWN], ":4"),
        (("status", "-o", ""), ["table", "wide", "json", "yaml"], ":4"),
        (("status", "--output", "=", "y"), ["yaml"], ":4"),
        (("status", "--output=y"), ["--output=yaml"], ":4"),
        (("status", "--all"), ["--all-namespaces"], ":4"),
        (("status", "--fo"), [], ":4"),
        (("help", "stat"), ["status"], ":4"),
        (("status", "-n", ""), [], ":4"),
        (("status", "--kubeconfig", ""), [], ":0"),
        (("status", "one", ""), [], ":4"),
        (("schema", "r"), ["rule"], ":4"),
        (("new", "4P2D", "--platform", "a"), ["aibrix"], ":4"),
        (("lint", ""), [], ":0"),
        (("lint", "one.yaml", ""), [], ":0"),
        (("simulate", "-o", "text", ""), [], ":0"),
        (("completion", ""), ["bash", "zsh", "fish"], ":4"),
        (("deploy", ""), ["apply", "status", "delete"], ":4"),
        (("deploy", "apply", "-c", ""), [], ":0"),
        (("deploy", "apply", "--no"), ["--no-wait"], ":4"),
        (("deploy", "status", "-o", "j"), ["json"], ":4"),
        (("nothing", ""), [], ":4"),
        ((), [*cli.COMMANDS, *cli.OWN], ":4"),
    ],
)
def test_a_word_is_completed_from_the_parser_of_its_command(
    words: tuple[str, ...], found: list[str], directive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offered(capsys, *words) == (found, directive)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_offers_its_options_with_their_meaning(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert "kubectl scaler status: unrecognized arguments: --nonsense;" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shell", "asking"),
    [
        (
            "bash",
            (
                'COMP_WORDS=(scaler status -o ""); COMP_CWORD=3; _scaler_complete; echo'
                ' "${COMPREPLY[*]}"'
            ),
        ),
        (
            "zsh",
            'words=(scaler status -o ""); CURRENT=4; _describe() { echo ${found%%:*} }; _scaler',
        ),
        ("fish", 'complete -C "scaler status -o " | sort | string join " "'),
    ],
)
def test_the_script_works_in_the_shell_where_that_is_installed(
    shell: str, asking: str, tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        assert main(["completion", shell]) == 0
        return
    program = tmp_path / "scaler"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c "{PATIENT}" "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(
        subprocess.check_output([program, "completion", shell], text=True).replace("compdef ", ": ")
    )
    ran = subprocess.run(
        [shell, "-c", f"source {script}; {asking}"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert sorted(ran.stdout.split()) == ["json", "table", "wide", "yaml"], ran.stderr


def _names(printed: str) -> list[str]:
    """The words that are offered, without their explanations; the last line is for the shell."""
    return [line.partition("\t")[0] for line in printed.splitlines()[:-1]]


async def _of_cluster(
    tmp_path: Path, *asked: list[str], kubeconfig_of: str = ""
) -> list[subprocess.CompletedProcess[str]]:
    """Run each command with the kubeconfig of a cluster with a service in each of two
    namespaces."""
    cluster = SimCluster(Clock(1e9))
    for namespace in ("chat", "other"):
        cluster.apply(
            [
                manifest(
                    ELASTIC_SERVICES,
                    "rule-mindie",
                    namespace,
                    spec={"rule": "rule", "jobID": "mindie"},
                )
            ]
        )
    labels = {RULE_LABEL: "rule"}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicaSpecs": {"Master": {"replicas": 1, "template": template}}}
    cluster.apply(
        [
            manifest(ASCEND_JOBS, "mindie-server-p0", "chat", labels=labels, spec=spec),
            manifest(ASCEND_JOBS, "a-training-job", "chat", spec=spec),
            manifest(NODES, "npu-0"),
        ]
    )
    async with serve(cluster) as url:
        config = tmp_path / "config"
        config.write_text(kubeconfig(kubeconfig_of or url, "chat"))
        env = {**os.environ, "KUBECONFIG": str(config), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        more = {
            "cwd": ROOT,
            "env": env,
            "capture_output": True,
            "text": True,
            "timeout": 60,
            "check": False,
        }
        return [await asyncio.to_thread(partial(subprocess.run, one, **more)) for one in asked]


PATIENT = (
    "import sys; from scaler.tools.completion import names; names.PATIENCE = 60; from scaler import"
    " cli; sys.exit(cli.main(sys.argv[1:]))"
)
"""On a busy machine a process alone takes longer than anybody waits who completes a word."""


def asks(*words: str) -> list[str]:
    return [sys.executable, "-c", PATIENT, cli.COMPLETE, *words]


async def test_services_and_namespaces_are_completed_from_the_cluster(tmp_path: Path) -> None:
    lines = (
        ("status", ""),
        ("why", "other/"),
        ("status", "-n", "other", "r"),
        ("status", "-n", ""),
        ("ui", "-n", "o"),
        ("status", "--nonsense", ""),
        ("why", "chat/rule-mindie", ""),
        ("why", ""),
        ("drain", ""),
        ("drain", "npu-0", "-k", ""),
    )
    ran = await _of_cluster(tmp_path, *(asks(*words) for words in lines))
    assert [one.stderr for one in ran] == [""] * len(lines)
    every = ["rule-mindie", "chat/rule-mindie", "other/rule-mindie"]
    assert [_names(one.stdout) for one in ran] == [
        every,
        ["other/rule-mindie"],
        ["rule-mindie"],
        ["chat", "other"],
        ["other"],
        [],
        [],
        [*every, "mindie-server-p0"],
        ["npu-0"],
        [],
    ]


async def test_where_no_cluster_answers_nothing_is_offered_and_nothing_is_said(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        nobody = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        impatient = [sys.executable, "-m", "scaler", cli.COMPLETE, "status", ""]
        (ran,) = await _of_cluster(tmp_path, impatient, kubeconfig_of=nobody)
        took = time.monotonic() - began
    (refused,) = await _of_cluster(tmp_path, asks("why", ""), kubeconfig_of="http://127.0.0.1:1")
    assert [(one.returncode, one.stdout, one.stderr) for one in (ran, refused)] == [
        (0, ":4\n", "")
    ] * 2
    assert took < 60  # it ends; how fast it is on a busy machine is not asked here


@pytest.mark.parametrize(
    ("shell", "asking"),
    [
        (
            "bash",
            'COMP_WORDS=(scaler status ot); COMP_CWORD=2; _scaler_complete; echo "${COMPREPLY[*]}"',
        ),
        ("zsh", "words=(scaler status ot); CURRENT=3; _describe() { echo ${found%%:*} }; _scaler"),
        ("fish", 'complete -C "scaler status ot" | string split -f1 \\t'),
    ],
)
async def test_a_shell_that_is_installed_completes_names_of_services(
    shell: str, asking: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "scaler"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c "{PATIENT}" "$@"\n')
    program.chmod(0o755)
    if shutil.which(shell) is None:
        assert main(["completion", shell]) == 0
        return
    script = tmp_path / "script"
    assert main(["completion", shell]) == 0
    script.write_text(capsys.readouterr().out.replace("compdef ", ": "))
    (ran,) = await _of_cluster(tmp_path, [shell, "-c", f"source {script}; {asking}"])
    assert ran.stdout.split() == ["other/rule-mindie"], ran.stderr
