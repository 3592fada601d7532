"""Controllers of others that a test's control plane may have: LeaderWorkerSet's manager, Volcano,
Ascend Operator, ClusterD.

The first is built (build.py). Nothing of the others is built or kept here: a folder that an
environment variable names holds the programs and, in `crds`, all definitions of the same release
(ClusterD has none).
Without it nothing of them is run. Must not: know of the scaler."""

from __future__ import annotations

import base64
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from scaler.kube.api import Object
from tests.control_plane.build import LWS, ensure
from tests.control_plane.programs import Program, answers_ok, certify, free_ports

QUEUE = "default"
"""Made by Volcano's scheduler, opened by its controller manager; nothing is scheduled in a queue
that is not open."""
_CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - {name: gang, enableNodeOrder: false}
  - {name: priority, enableNodeOrder: false}
  - {name: conformance, enableNodeOrder: false}
- plugins:
  - {name: drf, enableNodeOrder: false}
  - {name: predicates, enableNodeOrder: false}
  - {name: proportion, enableNodeOrder: false}
  - {name: nodeorder}
  - {name: binpack, enableNodeOrder: false}
"""
"""Actions and plugins as MindCluster installs them, without its own plugin."""
_WITH_PLUGIN = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - {{name: gang, enableNodeOrder: false}}
  - {{name: {plugin}}}
  - {{name: priority, enableNodeOrder: false}}
  - {{name: conformance, enableNodeOrder: false}}
- plugins:
  - {{name: drf, enableNodeOrder: false}}
  - {{name: predicates, enableNodeOrder: false}}
  - {{name: proportion, enableNodeOrder: false}}
  - {{name: nodeorder}}
  - {{name: binpack, enableNodeOrder: false}}
configurations:
- name: init-params
  arguments: {{"grace-over-time": "900", "presetVirtualDevice": "true", "nslb-version": "1.0",
    "shared-tor-num": "2", "useClusterInfoManager": "{clusterd}",
    "self-maintain-available-card": "true", "super-pod-size": "48",
    "reserve-nodes": "2", "forceEnqueue": "true", "prefer-previous-node": "true"}}
"""
"""The same with it, and its settings as installed, but that it reads what nodes report itself where
there is no ClusterD."""
LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
"""Label of every pod of a LeaderWorkerSet; its manager looks at no other pods."""
_HOST = "127.0.0.1"


_PLUGIN = re.compile(rb"volcano-npu_v[0-9]+[.][0-9]+[.][0-9]+")
"""The name of MindCluster's plugin, in a scheduler that it is compiled into."""


class Given(NamedTuple):
    """Programs that the user may have."""

    name: str
    variable: str
    """The environment variable."""
    definitions: str
    """How the names of its definitions end; "" = it has none."""

    @property
    def there(self) -> bool:
        return bool(os.environ.get(self.variable))

    def path(self, name: str) -> Path:
        """In the folder that the user named."""
        return Path(os.environ[self.variable]) / name

    def source(self) -> str:
        """Where its programs come from, for people."""
        return (
            f"from {self.path('')}"
            if self.there
            else f"not run, {self.variable} names no folder with its programs"
        )


VOLCANO = Given("Volcano", "VOLCANO_BIN_DIR", ".volcano.sh")
ASCEND_OPERATOR = Given(
    "Ascend Operator", "ASCEND_OPERATOR_BIN_DIR", "ascendjobs.mindxdl.gitee.com"
)
CLUSTERD = Given("ClusterD", "CLUSTERD_BIN_DIR", "")
GIVEN = {"volcano": VOLCANO, "ascend_operator": ASCEND_OPERATOR, "clusterd": CLUSTERD}
"""By the option of the plane."""


class Plugin:
    """MindCluster's plugin: in the scheduler of VOLCANO_BIN_DIR, if it is compiled in."""

    name = "MindCluster's plugin of Volcano"

    @property
    def registered(self) -> str:
        """Its name in the scheduler's configuration, "" where it is not there."""
        return _plugin_in(VOLCANO.path("vc-scheduler")) if VOLCANO.there else ""

    @property
    def there(self) -> bool:
        return bool(self.registered)

    def source(self) -> str:
        """Where it comes from, for people."""
        if self.there:
            return f"{self.registered}, from {VOLCANO.path('')}"
        return "not run, the scheduler in VOLCANO_BIN_DIR has no such plugin compiled in"


@cache
def _plugin_in(scheduler: Path) -> str:
    found = _PLUGIN.search(scheduler.read_bytes()) if scheduler.exists() else None
    return found.group().decode() if found else ""


ASCEND_PLUGIN = Plugin()


def volcano_configuration(*, plugin: bool = False, clusterd: bool = False) -> str:
    """Of the scheduler, as MindCluster installs it. `plugin`: with its own; `clusterd`: which reads
    the documents of ClusterD."""
    if not plugin:
        return _CONFIGURATION
    reads = "true" if clusterd else "false"
    return _WITH_PLUGIN.format(plugin=ASCEND_PLUGIN.registered, clusterd=reads)


def volcano_programs(
    folder: Path, kubeconfig: Path, *, plugin: bool = False, clusterd: bool = False
) -> list[Program]:
    """Both, to be started. They wait without a word for definitions that are missing. `plugin`:
    with MindCluster's; without ClusterD there are four sessions a second then."""
    configuration = folder / "volcano-scheduler.conf"
    configuration.write_text(volcano_configuration(plugin=plugin, clusterd=clusterd))
    common = (f"--kubeconfig={kubeconfig}", "--leader-elect=false")
    scheduling = (
        f"--scheduler-conf={configuration}",
        f"--schedule-period={'250ms' if plugin and not clusterd else '1s'}",
        "--percentage-nodes-to-find=100",
        "--cache-dumper=false",
    )
    return [
        Program(name, [VOLCANO.path(name), *common, *flags], folder)
        for name, flags in (("vc-controller-manager", ()), ("vc-scheduler", scheduling))
    ]


def ascend_operator_program(folder: Path, kubeconfig: Path) -> Program:
    """To be started. Gangs, and requests to the API server as often as in its own manifest; no port
    is opened."""
    name = "ascend-operator"
    flags = ("--enableGangScheduling=true", "--kubeApiQps=800", "--kubeApiBurst=800")
    log = folder / name / "operator.log"  # it changes the rights of the folder that its log is in
    command = [
        str(ASCEND_OPERATOR.path(name)),
        f"--kubeconfig={kubeconfig}",
        f"--logFile={log}",
        *flags,
    ]
    return Program(name, command, folder)


def clusterd_program(folder: Path, kubeconfig: Path) -> Program:
    """To be started. Its port for gRPC is always the same, so each has a loopback address of its
    own. It reads $KUBECONFIG, which takes a change of three lines of its source."""
    place = folder / "clusterd-log"
    place.mkdir(mode=0o750)  # it refuses a folder that others may write to
    number = os.getpid()
    address = f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255 or 1}"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "POD_IP": address}
    log = place / "clusterd.log"
    return Program("clusterd", [CLUSTERD.path("clusterd"), f"-logFile={log}"], folder, environment)


class LwsManager(Program):
    """LeaderWorkerSet's manager, with its gang provider Volcano. It serves its admission webhooks
    on loopback; `webhooks` point there and are to be created when it `serves`, not before."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        port, self._health = free_ports(2)
        place = folder / "lws-certificates"
        self.webhooks = _webhooks(port, certify(place))
        configuration = folder / "lws.json"
        settings = {
            "apiVersion": "config.lws.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"{_HOST}:{self._health}"},
            "webhook": {"host": _HOST, "port": port, "certDir": str(place)},
            "gangSchedulingManagement": {"schedulerProvider": "volcano"},
        }
        configuration.write_text(json.dumps(settings))
        command = [
            f"{ensure(LWS)}/lws-manager",
            f"--config={configuration}",
            f"--kubeconfig={kubeconfig}",
        ]
        super().__init__("lws-manager", command, folder)

    def serves(self) -> bool:
        """Readiness alone says nothing about its webhooks: it registers them later, that of pods
        last."""
        ready = answers_ok(f"http://{_HOST}:{self._health}/readyz")
        return ready and "/validate--v1-pod" in self.log.read_text(errors="replace")


def _webhooks(port: int, authority: bytes) -> Object:
    """The configurations of its own installation: with an address instead of a Service, and for no
    pods of others."""
    found = list(yaml.safe_load_all((ensure(LWS) / "lws-webhooks.yaml").read_text("utf-8")))
    for webhook in (webhook for configuration in found for webhook in configuration["webhooks"]):
        url = f"https://{_HOST}:{port}{webhook['clientConfig']['service']['path']}"
        webhook["clientConfig"] = {"url": url, "caBundle": base64.b64encode(authority).decode()}
        if webhook["rules"][0]["resources"] == ["pods"]:
            webhook["objectSelector"] = {
                "matchExpressions": [{"key": LWS_NAME, "operator": "Exists"}]
            }
    return {"apiVersion": "v1", "kind": "List", "items": found}
