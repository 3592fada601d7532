"""`scaler run` whose log cannot be written: it leads and decides all the same, and says so."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from scaler.clock import Clock
from scaler.kube.api import PODS
from scaler.report.lines import PATIENCE
from scaler.sim.apiserver.facade import kubeconfig, serve
from scaler.sim.cluster import SimCluster
from tests.jobs import NAMESPACE, TWO_P_ONE_D, job, rule_config_map

ROOT = Path(__file__).resolve().parents[2]
LEAVE = 60.0
"""Seconds for the process to start and to act; it takes three."""
LOUD = ("--log-level", "debug")


def full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def no_reader() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def deaf_reader() -> int:
    """A pipe that is full, and whose reader never reads."""
    reader, writer = os.pipe()
    os.set_inheritable(reader, False)
    os.set_blocking(writer, False)
    while True:
        try:
            os.write(writer, b"x" * 65536)
        except BlockingIOError:
            os.set_blocking(writer, True)
            return writer


@pytest.mark.parametrize(
    ("stdout", "words"),
    [
        (full_disk, "No space left on device"),
        (no_reader, "Broken pipe"),
        (deaf_reader, "nobody has read it for"),
    ],
)
def test_a_log_that_cannot_be_written_stops_nothing_and_is_said(
    stdout: Callable[[], int], words: str, tmp_path: Path
) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        cluster = SimCluster(Clock(1_800_000_000 - loop.time()), latency=0)
        cluster.apply([rule_config_map(TWO_P_ONE_D), job("p0"), job("d0")], NAMESPACE)
        async with serve(cluster) as url:
            (tmp_path / "config").write_text(kubeconfig(url))
            port = free_port()
            with scaler(tmp_path / "config", port, stdout()) as process:
                said = await answer(port, "readyz", f"ok\nstdout cannot be written, {words}")
                assert said.startswith("ok\n")
                assert await answer(port, "healthz", "ok") == "ok\n"
                made = 'scaler_writes_total{outcome="ok",resource="pods",verb="create"} 2'
                metrics = await answer(port, "metrics", made)
                assert 'scaler_log_lines_dropped_total{stream="stderr"} 0' in metrics
                assert len(cluster.peek(PODS, NAMESPACE)) == 2
                process.terminate()
                assert await loop.run_in_executor(None, process.wait, LEAVE) == 0

    asyncio.run(story())


def test_a_log_that_was_closed_stops_nothing(tmp_path: Path) -> None:
    shell = f"exec {sys.executable} -m scaler run --kubeconfig {tmp_path / 'nowhere'} >&- 2>&-"
    done = subprocess.run(["sh", "-c", shell], cwd=ROOT, check=False, timeout=LEAVE)
    assert done.returncode == 1  # there is no such kubeconfig


@contextmanager
def scaler(config: Path, port: int, stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    flags = ["--kubeconfig", str(config), "--http-port", str(port), *LOUD]
    process = subprocess.Popen(
        [sys.executable, "-m", "scaler", "run", *flags],
        cwd=ROOT,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
    )
    os.close(stdout)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def answer(port: int, page: str, words: str) -> str:
    """The page, as soon as it has these words."""
    loop = asyncio.get_running_loop()
    end = loop.time() + LEAVE + PATIENCE
    said = ""
    async with aiohttp.ClientSession() as session:
        while words not in said and loop.time() < end:
            try:
                async with session.get(f"http://127.0.0.1:{port}/{page}") as response:
                    said = await response.text()
            except aiohttp.ClientError as error:
                said = str(error)
            await asyncio.sleep(0.2)
    assert words in said, said
    return said


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
