"""The scaler as users run it: a process of its own, `scaler run --kubeconfig`, and what it logged.

Must not: look into the process; what it did is judged at the API server."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGTERM
from typing import Any

import aiohttp

from scaler.kube.api import LEASES
from tests.control_plane.plane import ControlPlane
from tests.control_plane.programs import Program, answers_ok, free_ports
from tests.control_plane.releases import ROOT, environment
from tests.control_plane.stage import Stage

NAMESPACE = "mind-cluster-scaler-system"
ACCOUNT = "mind-cluster-scaler"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
LEASE = ("--lease-namespace", NAMESPACE)
ALONE = ("--no-leader-election",)


def install(
    plane: ControlPlane,
    variant: str = "cluster-wide",
    *,
    root: Path = ROOT,
    flags: Sequence[str] = (),
) -> Path:
    """Apply a variant of the manifests as a user would; the kubeconfig of the scaler's service
    account. `root`: the tree of another release; `flags`: of kubectl.

    The Deployment is accepted and scaled to nothing: the tests run the replicas themselves."""
    plane.kubectl("apply", *flags, "-k", str(root / "manifests" / variant))
    plane.kubectl("scale", "deployment", ACCOUNT, "--replicas=0", "--namespace", NAMESPACE)
    return plane.grant(NAMESPACE, ACCOUNT)


class ScalerProcess(Program):
    """One replica. `flags` are those of `scaler run`, `module` what has it ("scaler shadow", too),
    `root` its tree."""

    # Wiring: everything that a process is started with.
    def __init__(  # noqa: PLR0913
        self,
        name: str,
        folder: Path,
        kubeconfig: Path,
        flags: Sequence[str] = LEASE,
        *,
        module: str = "scaler",
        root: Path = ROOT,
    ) -> None:
        (self.port,) = free_ports(1)
        command = [
            sys.executable,
            "-m",
            *module.split(),
            "run",
            "--kubeconfig",
            str(kubeconfig),
            "--mode",
            "create",
        ]
        command += [
            "--http-host",
            "127.0.0.1",
            "--http-port",
            str(self.port),
            "--identity",
            name,
            *flags,
        ]
        super().__init__(name, command, folder, environment=environment(root))

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def ready(self, seconds: float = 60.0) -> None:
        """Until its caches are synced. Waits in a thread: a proxy may have to work meanwhile."""
        await asyncio.to_thread(self.wait_for, lambda: answers_ok(self.url("/readyz")), seconds)

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """What it logged (of one kind), oldest first."""
        entries = [
            json.loads(line) for line in self.said() if line.startswith("{") and line.endswith("}")
        ]
        return [entry for entry in entries if event in ("", entry.get("event"))]

    def errors(self) -> list[str]:
        """Everything that it logged as an error, and what is no log line at all (a traceback of the
        interpreter)."""
        odd = [line for line in self.said() if not line.startswith("{")]
        return odd + [
            json.dumps(line) for line in self.lines() if line.get("level") in {"error", "critical"}
        ]


@asynccontextmanager
async def scaler(
    folder: Path,
    kubeconfig: Path,
    *,
    name: str = "scaler",
    flags: Sequence[str] = LEASE,
    module: str = "scaler",
) -> AsyncIterator[ScalerProcess]:
    """A replica that is ready, until the block ends; SIGTERM ends it, so that its Lease is free at
    once."""
    process = ScalerProcess(name, folder, kubeconfig, flags, module=module)
    try:
        process.start()
        await process.ready()
        yield process
    finally:
        await asyncio.to_thread(process.stop, SIGTERM)


def may_read_metrics(plane: ControlPlane, account: str) -> None:
    """Make a ServiceAccount in `monitoring`, as that of Prometheus, with the right to the
    metrics."""
    plane.kubectl("create", "namespace", "monitoring")
    plane.kubectl("create", "serviceaccount", account, "-n", "monitoring")
    role = "--clusterrole=mind-cluster-scaler-metrics-reader"
    bound = f"--serviceaccount=monitoring:{account}"
    plane.kubectl("create", "clusterrolebinding", "prometheus-reads-scaler", role, bound)


async def metrics_for(port: int, token: str) -> tuple[int, str]:
    """Status and text of /metrics over HTTPS, for this token; without one for ""."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{port}/metrics"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=False) as answer,
    ):
        return answer.status, await answer.text()


async def leads(stage: Stage, name: str) -> bool:
    """Whether the replica of this name holds the Lease. Raises NotFoundError while there is
    none."""
    lease = await stage.api.get(LEASES, NAMESPACE, ACCOUNT)
    return bool(lease["spec"].get("holderIdentity") == name)


async def ended(process: ScalerProcess) -> bool:
    return process.exit_code is not None
