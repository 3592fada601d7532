"""Whatever is asked of a command that it cannot do: words on standard error, the exit code, no
traceback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scaler import cli
from scaler.cli import main

ROOT = Path(__file__).parent.parent.parent
RULE = str(ROOT / "manifests/examples/2p1d/00-rule.yaml")
SCENARIO = str(ROOT / "tests/scenarios/start-degrade-climb.yaml")
AWAY = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "c",
    "users": [{"name": "u", "user": {}}],
}
FILES = {
    "bad": b"not: [yaml",
    "binary": b"\xff\xfe\x00",
    "empty": b"",
    "list": b"[1, 2]",
    "number": b"7",
    "away": json.dumps(AWAY).encode(),
    "nowhere": json.dumps({**AWAY, "current-context": "gone"}).encode(),
}
CLUSTER = [
    ("preflight",),
    ("status",),
    ("status", "-A"),
    ("why", "x"),
    ("why", "--rank-table", "a/b"),
    ("takeover", "--check"),
    ("drain", "x"),
    ("uninstall", "--list"),
    ("deploy", "status", "x"),
    ("shadow", "report"),
    ("ui",),
]
KUBECONFIGS = ("missing", "folder", *FILES)

TABLE: list[tuple[int, str]] = [
    (2, "status a/b/c/d"),
    (2, "status /"),
    (2, "status ''"),
    (2, "status -n ../secrets"),
    (2, "status -n a -A"),
    (2, "status -n chat -ns llm"),
    (2, "status -o xml"),
    (2, "status -w -o json"),
    (2, "status one two"),
    (2, "why"),
    (2, "why a/b/c/d"),
    (2, "why 'a b'"),
    (2, "why x -o table"),
    (2, "doctor"),
    (1, "takeover"),
    (2, "takeover --nothing"),
    (2, "takeover --check --namespaces Not_A_Name"),
    (2, "drain"),
    (2, "drain ../x"),
    (2, "uninstall"),
    (2, "uninstall --list --release"),
    (2, "completion"),
    (2, "completion tcsh"),
    (2, "demo --interactive --port 99999999"),
    (2, "demo --interactive --port -1"),
    (2, "demo --interactive --port ssh"),
    (2, "demo --seed x"),
    (2, "demo --nodes 0"),
    (2, "demo --nodes 1001"),
    (2, "demo --nodes ten"),
    (2, "demo -f {missing}"),
    (2, "demo -f {folder}"),
    (2, "new"),
    (2, "new 4P2D"),
    (2, "new 4P2D --platform kserve"),
    (2, "new 0P1D --platform ome"),
    (2, "new 65P1D --platform ome"),
    (2, "new four --platform ome"),
    (1, "new 4P2D --platform ome -f {bad}"),
    (2, "new 4P2D --platform ome -o {bad}"),
    (2, "lint -w {bad}"),
    (2, "lint --format json {bad}"),
    (2, "status --format json"),
    (2, "deploy"),
    (2, "deploy -c {bad}"),
    (2, "deploy status"),
    (2, "deploy status -n chat"),
    (2, "deploy apply -c {missing}"),
    (1, "deploy apply -c {bad}"),
    (2, "status -k {missing}"),
    (2, "status -k"),
    (2, "lint"),
    (2, "lint {missing}"),
    (1, "lint {bad}"),
    (1, "lint {binary}"),
    (1, "lint {empty}"),
    (2, "schema"),
    (2, "schema nothing"),
    (2, "plan"),
    (2, "plan {missing}"),
    (2, "plan {folder}"),
    (1, "plan {binary}"),
    (1, "plan {list}"),
    (2, f"plan {RULE} --running group9=1"),
    (2, f"plan {RULE} --running group0=x"),
    (2, f"plan {RULE} --cases {{missing}}"),
    (2, f"plan {RULE} --cases {{folder}}"),
    (2, f"plan {RULE} --nodes {{folder}}"),
    (2, "explain"),
    (2, "explain --world {missing}"),
    (2, "explain --world {folder}"),
    (1, "explain --world {binary}"),
    (1, "explain --world {number}"),
    (2, "simulate"),
    (2, "simulate {missing}"),
    (2, "simulate {folder}"),
    (2, "simulate {binary}"),
    (2, "simulate {list}"),
    (2, f"simulate {SCENARIO} --picture {{folder}}"),
    (2, f"simulate {SCENARIO} --picture {{missing}}/a.svg"),
    (2, f"simulate {SCENARIO} --record {{bad}}"),
    (2, "run --http-port 99999999"),
    (2, "run --config {missing}"),
    (2, "run --config {folder}"),
    (2, "run --config {binary}"),
    (2, "nothing"),
    (2, ""),
    (2, "--nothing"),
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return {name: str(tmp_path / name) for name in (*FILES, "folder", "missing")}


def said(capsys: pytest.CaptureFixture[str]) -> str:
    caught = capsys.readouterr()
    assert "Traceback" not in caught.out + caught.err
    assert cli.DEBUG not in caught.err, "an error that nobody has foreseen"
    return caught.err


@pytest.mark.parametrize(
    ("code", "line"), TABLE, ids=[line or "nothing at all" for _, line in TABLE]
)
def test_wrong_input_ends_with_its_exit_code_and_words(
    code: int, line: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "" if part == "''" else part.replace("+", " ")
        for part in line.replace("'a b'", "a+b").split()
    ]
    assert (
        main([part.format(**files) if part.count("{") == 1 else part for part in arguments]) == code
    )
    caught = capsys.readouterr()
    assert "Traceback" not in caught.out + caught.err
    assert cli.DEBUG not in caught.err, "an error that nobody has foreseen"
    assert (caught.err or caught.out).strip()
    if code == 2:
        assert caught.err.count("\n") == 1


@pytest.mark.parametrize("command", CLUSTER, ids=" ".join)
@pytest.mark.parametrize("kubeconfig", KUBECONFIGS)
def test_a_cluster_that_cannot_be_reached_is_said(
    command: tuple[str, ...],
    kubeconfig: str,
    files: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = 2 if kubeconfig in ("missing", "folder") else 1
    assert main([*command, "--kubeconfig", files[kubeconfig]]) == code
    *_, last = said(capsys).splitlines()
    assert last.startswith(f"scaler {command[0]}: ")
    assert files[kubeconfig] in last or "cannot be reached" in last


def test_without_any_kubeconfig_the_place_where_it_is_looked_for_is_named(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status"]) == 1
    assert ".kube/config" in said(capsys)


def test_a_server_that_speaks_no_http_is_said(
    files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = json.loads(FILES["away"])
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{server.getsockname()[1]}"
        Path(files["away"]).write_text(json.dumps(config))
        server.close()
        assert main(["why", "x", "--kubeconfig", files["away"]]) == 1
    assert "scaler why: the API server" in said(capsys)


def test_an_unforeseen_error_is_one_line_and_has_a_traceback_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: str) -> None:
        raise ExceptionGroup("of tasks", [RuntimeError("some\nwords")])

    monkeypatch.setattr(cli, "_load", broken)
    assert main(["status"]) == 1
    assert capsys.readouterr().err.startswith("scaler status: RuntimeError: some words\n")
    monkeypatch.setenv(cli.DEBUG, "1")
    with pytest.raises(ExceptionGroup):
        main(["status"])


def test_a_reader_that_has_gone_while_tasks_run_is_no_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(_: str) -> None:
        raise ExceptionGroup("of tasks", [BrokenPipeError()])

    monkeypatch.setattr(cli, "_load", broken)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    assert main(["status"]) == 141
    assert capfd.readouterr().err == ""


def started(*arguments: str, stdout: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "scaler", *arguments],
        cwd=ROOT,
        text=True,
        stderr=subprocess.PIPE,
        stdout=stdout,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


@pytest.mark.parametrize(
    "arguments", [("--help",), ("completion", "bash"), ("schema", "rule"), ("lint", RULE)]
)
def test_a_reader_that_has_gone_ends_a_command_quietly(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    running = started(*arguments, stdout=writing)
    os.close(writing)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) in [(141, ""), (0, "")]


def test_ctrl_c_ends_a_command_quietly() -> None:
    running = started("demo", "--interactive", stdout=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stdout.readline() is not None
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode in (0, 130)
    assert err == ""


def test_who_comes_from_the_one_command_deployer_is_told_where_its_options_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["status", "-n", "chat", "-ns", "llm"]) == 2
    assert (
        "-ns is of MindCluster's deployer and of `scaler deploy`; here it is -n NAMESPACE"
        in capsys.readouterr().err
    )
