"""A Kubernetes control plane of its own for a test: etcd, kube-apiserver, kube-controller-manager
on loopback.

`with ControlPlane(folder, binaries("1.35.3")) as plane:` is ready in seconds, with real RBAC. Users
are `admin`, who may do everything, and any service account (`grant`). Nothing in it outlives it.
Must not: know of the scaler."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

from scaler.kube.api import Object
from scaler.kube.client import HttpKubeApi, connect
from scaler.sim.actors import objects
from tests.control_plane import others
from tests.control_plane.build import LWS, Binaries, binaries, ensure
from tests.control_plane.programs import (
    ControlPlaneError,
    Program,
    answers_ok,
    certify,
    fetch,
    free_ports,
)
from tests.control_plane.releases import ROOT, environment

_PORTS = ("etcd", "etcd-peer", "kube-apiserver")
_GARBAGE = {"GOGC": "400"}
"""Programs in Go collect garbage a quarter as often: a fifth less CPU time, 100 to 200 MB more of
the API server."""


@dataclass(frozen=True)
class PlaneOptions:
    """How a control plane is to be. Times in seconds."""

    crds: Sequence[Object] = ()
    scheduler: bool = False
    """kube-scheduler beside it; the gang scheduler's stand-in is a client and started by the
    test."""
    lws: bool = False
    """LeaderWorkerSet's manager and definition."""
    volcano: bool = False
    """Volcano's scheduler and controller manager, and its definitions instead of those in
    `crds`."""
    ascend_plugin: bool = False
    """MindCluster's plugin in Volcano's scheduler; with `volcano`."""
    ascend_operator: bool = False
    """Ascend Operator itself, and its definition of AscendJob instead of that in `crds`."""
    clusterd: bool = False
    """ClusterD itself; with `ascend_plugin`, which then reads its documents."""
    audit: bool = False
    """Log answered requests (`audit_events`)."""
    audit_rules: Sequence[Object] = ({"level": "Metadata"},)
    """Which ones and how much of them, as in an audit policy; by default all."""
    pod_start: float = 0.3
    """From bound to Running and Ready."""
    pod_stop: float = 0.2
    ports: dict[str, int] = field(default_factory=dict)
    """Of etcd, etcd-peer, kube-apiserver; free ones where not given."""
    apiserver_flags: Sequence[str] = ()
    manager_flags: Sequence[str] = ()


class ControlPlane:
    """Everything below `folder`; started by `with`."""

    running: ClassVar[list[ControlPlane]] = []
    """All that are in this process, for the logs of a failure."""

    def __init__(
        self, folder: Path, programs: Binaries, options: PlaneOptions | None = None
    ) -> None:
        self.folder = folder
        self.binaries = programs
        self.options = options or PlaneOptions()
        self.programs: dict[str, Program] = {}
        self._ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True)) | self.options.ports
        self._admin_token = secrets.token_hex(16)

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def minor(self) -> int:
        """Of the Kubernetes version: 35 for 1.35.3."""
        return int(self.binaries.version.split(".")[1])

    @property
    def port(self) -> int:
        """Of the API server."""
        return self._ports["kube-apiserver"]

    @property
    def authority(self) -> Path:
        """The certificate that the API server shows, and tokens are checked with; its key lies
        beside it."""
        return self.folder / "certs" / "tls.crt"

    def __enter__(self) -> Self:
        self.running.append(self)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every program, in the order that lets none complain about another."""
        self.running.remove(self)
        for program in reversed(self.programs.values()):
            program.stop()

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End one program, `kube-apiserver` for example."""
        self.programs[name].stop(number)

    def revive(self, name: str) -> None:
        """Start one program again, with the same data, and wait until it answers."""
        self.programs[name].start()
        if name == "kube-apiserver":
            self.programs[name].wait_for(self._apiserver_ready)

    def _start(self) -> None:
        self._write_files()
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "etcd-peer"))
        flags = [
            "--unsafe-no-fsync",
            f"--data-dir={self.folder / 'etcd'}",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ]
        etcd = self._launch("etcd", flags)
        # it waits for etcd by itself
        apiserver = self._launch("kube-apiserver", self._apiserver_flags())
        etcd.wait_for(lambda: answers_ok(f"{client}/health"))
        apiserver.wait_for(self._apiserver_ready)
        self.admin = self.kubeconfig("admin", self._admin_token)
        # before the garbage collector starts: it learns of new kinds every 30 s only
        self._define()
        follows = (f"--kubeconfig={self.admin}", "--leader-elect=false", "--secure-port=0")
        # The kubelets renew no leases: only a test makes a node not Ready.
        more = ("--use-service-account-credentials=false", "--node-monitor-grace-period=24h")
        self._launch("kube-controller-manager", [*follows, *more, *self.options.manager_flags])
        if self.options.scheduler:
            self._launch("kube-scheduler", follows)
        times = (str(self.options.pod_start), str(self.options.pod_stop))
        command = [sys.executable, "-m", "tests.control_plane.kubelets", str(self.admin), *times]
        self._run(Program("kubelets", command, self.folder, environment(ROOT)))
        self._start_controllers()

    def _start_controllers(self) -> None:
        if self.options.lws:
            lws = others.LwsManager(self.folder, self.admin)
            self._run(lws).wait_for(lws.serves)
            self.kubectl("create", "-f", "-", text=json.dumps(lws.webhooks))
        if self.options.volcano:
            given = others.volcano_programs(
                self.folder,
                self.admin,
                plugin=self.options.ascend_plugin,
                clusterd=self.options.clusterd,
            )
            programs = [self._run(program) for program in given]
            # Said by the controller manager of what the scheduler made: both are at work.
            words = (
                "get",
                "queues.scheduling.volcano.sh",
                others.QUEUE,
                "--ignore-not-found",
                "--output=yaml",
            )
            programs[-1].wait_for(lambda: "state: Open" in self.kubectl(*words))
        if self.options.ascend_operator:
            self._run(others.ascend_operator_program(self.folder, self.admin))
        if self.options.clusterd:
            for namespace in ("mindx-dl", "cluster-system"):
                self.kubectl("create", "namespace", namespace)
            self._run(others.clusterd_program(self.folder, self.admin))

    def _define(self) -> None:
        crds = self.options.crds
        files = [ensure(LWS) / "lws-crd.yaml"] if self.options.lws else []
        for given in (
            given
            for option, given in others.GIVEN.items()
            if getattr(self.options, option) and given.definitions
        ):
            crds = [crd for crd in crds if not objects.name(crd).endswith(given.definitions)]
            files.append(given.path("crds"))
        self.install(crds)
        for file in files:
            self._create_definitions(file)

    def _launch(self, name: str, flags: Sequence[str]) -> Program:
        return self._run(
            Program(
                name, [self.binaries.programs[name], *flags], self.folder, os.environ | _GARBAGE
            )
        )

    def _run(self, program: Program) -> Program:
        self.programs[program.name] = program
        program.start()
        return program

    def _apiserver_ready(self) -> bool:
        return answers_ok(
            f"{self.server}/readyz", authority=self.authority, token=self._admin_token
        )

    def _write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write("tokens.csv", f"{self._admin_token},admin,admin,system:masters\n")
        certify(self.authority.parent)
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
        }
        self._write(
            "audit-policy.json", json.dumps({**policy, "rules": list(self.options.audit_rules)})
        )

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    def _apiserver_flags(self) -> list[str]:
        key = self.authority.with_suffix(".key")
        audit = (
            f"--audit-policy-file={self.folder / 'audit-policy.json'}",
            f"--audit-log-path={self.folder / 'audit.log'}",
        )
        return [
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            f"--tls-cert-file={self.authority}",
            f"--tls-private-key-file={key}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.authority}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            # MindIE's pods are privileged; without a kubelet nothing projects tokens into pods.
            "--disable-admission-plugins=ServiceAccount",
            *(audit if self.options.audit else ()),
            *self.options.apiserver_flags,
        ]

    def kubeconfig(self, user: str, token: str, *, server: str = "") -> Path:
        """A kubeconfig for a bearer token; `server` instead of the API server's own address, a
        proxy's for example."""
        cluster = {"server": server or self.server, "certificate-authority": str(self.authority)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "control-plane", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": user, "context": {"cluster": "control-plane", "user": user}}],
            "current-context": user,
        }
        return self._write(f"{user}.{secrets.token_hex(3)}.kubeconfig", json.dumps(document))

    def grant(self, namespace: str, name: str, *, server: str = "") -> Path:
        """A kubeconfig with a token that the API server issues for an existing service account."""
        token = self.kubectl("create", "token", name, "--namespace", namespace).strip()
        return self.kubeconfig(name, token, server=server)

    def install(self, crds: Sequence[Object]) -> None:
        """Create definitions (not apply: large ones exceed what its annotation may hold) and wait
        for their kinds."""
        if crds:
            document = {"apiVersion": "v1", "kind": "List", "items": list(crds)}
            self._create_definitions("-", text=json.dumps(document))

    def _create_definitions(self, file: str | Path, text: str = "") -> None:
        # `kubectl wait` gives up on a definition that has no conditions yet
        def established() -> bool:
            found = json.loads(self.kubectl("get", "customresourcedefinitions", "--output=json"))[
                "items"
            ]
            return all(
                objects.condition(crd, "Established").get("status") == "True" for crd in found
            )

        self.kubectl("create", "-f", file, text=text)
        self.programs["kube-apiserver"].wait_for(established)

    def kubectl(
        self, *arguments: str | Path, text: str = "", kubeconfig: Path | None = None
    ) -> str:
        """What the real kubectl prints. Raises ControlPlaneError with its words when it fails."""
        command = [
            kubectl_path(),
            "--kubeconfig",
            str(kubeconfig or self.admin),
            *(str(word) for word in arguments),
        ]
        env = {**os.environ, **_GARBAGE, "NO_PROXY": "127.0.0.1"}
        answer = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=120, env=env
        )
        if answer.returncode:
            raise ControlPlaneError(f"kubectl {' '.join(command[3:])}: {answer.stderr.strip()}")
        return answer.stdout

    def compact(self) -> None:
        """Let etcd forget its history, and the API server its own memory of it: older versions are
        gone (410)."""
        etcd = f"http://127.0.0.1:{self._ports['etcd']}/v3/kv"
        first = {"key": base64.b64encode(b"\0").decode(), "keys_only": True, "limit": 1}
        now = json.loads(fetch(f"{etcd}/range", first))["header"]["revision"]
        fetch(f"{etcd}/compaction", {"revision": now, "physical": True})
        self.kill("kube-apiserver")
        self.revive("kube-apiserver")

    def back_up(self) -> Path:
        """A copy of what etcd has; it is away for a moment."""
        copy = self.folder / f"etcd.{secrets.token_hex(3)}"
        self.kill("etcd", signal.SIGTERM)
        shutil.copytree(self.folder / "etcd", copy)
        self.revive("etcd")
        return copy

    def restore(self, copy: Path) -> None:
        """Put etcd back to what it was, as with `etcdutl snapshot restore`: versions are given a
        second time. All that remembers anything of it is started anew, as Kubernetes' manual asks
        for."""
        for name in reversed(self.programs):
            self.kill(name)
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(copy, self.folder / "etcd")
        for name in self.programs:
            self.revive(name)

    @asynccontextmanager
    async def client(self, kubeconfig: Path | None = None) -> AsyncIterator[HttpKubeApi]:
        """A KubeApi, by default admin's."""
        async with connect(kubeconfig=str(kubeconfig or self.admin)) as api:
            yield api
        # aiohttp leaves the end of TLS connections to later rounds of the loop
        await asyncio.sleep(0.1)

    def audit_events(self, user: str = "") -> list[dict[str, Any]]:
        """What was answered so far (to `user`), oldest first; needs the option `audit`."""
        log = self.folder / "audit.log"
        lines = log.read_text().splitlines() if log.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("}")]
        return [event for event in events if user in ("", event["user"]["username"])]


@contextmanager
def temporary(name: str, version: str, options: PlaneOptions) -> Iterator[ControlPlane]:
    """A control plane of this Kubernetes version, in a folder of this name that goes with it.
    Raises BuildError."""
    programs = binaries(version)
    with (
        TemporaryDirectory(prefix=f"{name}-") as folder,
        ControlPlane(Path(folder), programs, options) as plane,
    ):
        yield plane


def kubectl_path() -> str:
    """The kubectl of the environment that runs the tests."""
    beside = Path(sys.executable).parent
    found = shutil.which("kubectl", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if not found:
        raise ControlPlaneError("there is no kubectl beside this Python; run `make dev`")
    return found
