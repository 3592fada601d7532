"""`scaler ui` as a command: what it says when it cannot serve, and that Ctrl-C ends it."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.cli import main
from scaler.clock import Clock
from scaler.sim.apiserver.facade import kubeconfig, serve
from scaler.sim.cluster import SimCluster

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--port", "99999999"], 2, "is not a port"),
        (["--port", "-1"], 2, "--port"),
        (["-n", "a/b"], 2, "no name in Kubernetes"),
        (["-n", "a", "-A"], 2, "not allowed"),
        (["--kubeconfig", "/no/such/file"], 2, "/no/such/file: there is no such file"),
    ],
)
def test_what_cannot_be_is_said_without_a_traceback(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ui", *arguments]) == code
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


async def test_a_port_that_is_taken_is_said_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    clock = Clock()
    async with serve(SimCluster(clock, latency=0)) as url:
        config = tmp_path / "kubeconfig"
        config.write_text(kubeconfig(url))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            process = await start(config, taken.getsockname()[1])
            said = await asyncio.wait_for(process.communicate(), 60)
            assert (process.returncode, b"Address already in use" in said[1]) == (2, True)
        process = await start(config, 0)
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        assert line.startswith(b"http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        said = await asyncio.wait_for(process.communicate(), 60)
        assert (process.returncode, said[1]) == (0, b"")


async def start(config: Path, port: int) -> asyncio.subprocess.Process:
    words = ("-m", "scaler", "ui", "--kubeconfig", str(config), "--port", str(port))
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
