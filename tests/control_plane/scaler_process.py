"""The scaler as users run it: a process of its own, `scaler run --kubeconfig`, and what it logged.

Must not: look into the process; what it did is judged at the API server.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import Program, answers_ok, free_ports

NAMESPACE = "mind-cluster-scaler-system"
ACCOUNT = "mind-cluster-scaler"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
LEASE = ("--lease-namespace", NAMESPACE)
ALONE = ("--no-leader-election",)
_ROOT = Path(__file__).parents[2]


def install(plane: ControlPlane) -> Path:
    """Apply manifests/cluster-wide as a user would; the kubeconfig of the scaler's service account.

    The Deployment is accepted and scaled to nothing: the tests run the replicas themselves.
    """
    plane.kubectl("apply", "-k", str(_ROOT / "manifests" / "cluster-wide"))
    plane.kubectl("scale", "deployment", ACCOUNT, "--replicas=0", "--namespace", NAMESPACE)
    return plane.grant(NAMESPACE, ACCOUNT)


class ScalerProcess(Program):
    """One replica. `flags` are those of `scaler run`."""

    def __init__(self, name: str, folder: Path, kubeconfig: Path, flags: Sequence[str] = LEASE) -> None:
        (self.port,) = free_ports(1)
        command = [sys.executable, "-m", "scaler", "run", "--kubeconfig", str(kubeconfig), "--mode", "create"]
        command += ["--http-host", "127.0.0.1", "--http-port", str(self.port), "--identity", name, *flags]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SCALER_", "KUBERNETES_"))}
        super().__init__(name, command, folder, environment={**kept, "PYTHONPATH": str(_ROOT)})

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Until its caches are synced."""
        self.wait_for(lambda: answers_ok(self.url("/readyz")), timeout)

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """What it logged (of one kind), oldest first."""
        text = self.log.read_text() if self.log.exists() else ""
        entries = [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
        return [entry for entry in entries if event in ("", entry.get("event"))]

    def errors(self) -> list[str]:
        """Everything that it logged as an error, and what is no log line at all (a traceback of the interpreter)."""
        text = self.log.read_text() if self.log.exists() else ""
        odd = [line for line in text.splitlines() if not line.startswith("{")]
        return odd + [json.dumps(line) for line in self.lines() if line.get("level") in {"error", "critical"}]


@contextmanager
def scaler(
    folder: Path, kubeconfig: Path, *, name: str = "scaler", flags: Sequence[str] = LEASE
) -> Iterator[ScalerProcess]:
    """A replica that is ready, until the block ends."""
    process = ScalerProcess(name, folder, kubeconfig, flags)
    try:
        process.start()
        process.wait_ready()
        yield process
    finally:
        process.stop()


def eventually(condition: Any, timeout: float = 60.0, pause: float = 0.1) -> Any:
    """The first true answer of `condition`. AssertionError with its last answer after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {timeout:g} s; the last answer was {answer!r}"
        time.sleep(pause)
    return answer
