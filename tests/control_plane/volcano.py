"""Volcano's own scheduler and controller manager for a test's control plane (`PlaneOptions(volcano=True)`).

Nothing of Volcano is built or kept here: the folder that VOLCANO_BIN_DIR names holds both programs and, in `crds`, all
definitions of the same release. Without it nothing of this is run. Must not: know of the scaler.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from scaler.kube.api import Object
from scaler.sim.actors import objects
from tests.control_plane.programs import ControlPlaneError, Program

FOLDER = "VOLCANO_BIN_DIR"
"""The environment variable."""
QUEUE = "default"
"""Made by the scheduler, opened by the controller manager; nothing is scheduled in a queue that is not open."""
_GROUP = ".volcano.sh"
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
"""Actions and plugins as MindCluster installs them, without its own plugin, which is not to be had here."""


def given_folder() -> Path | None:
    """The folder that the user named, if any."""
    name = os.environ.get(FOLDER)
    return Path(name) if name else None


def crds() -> Path:
    """The folder of its definitions. Raises ControlPlaneError when it holds none."""
    folder = _given() / "crds"
    if not any(folder.glob("*.yaml")):
        raise ControlPlaneError(
            f"there are no definitions in {folder}: copy those of Volcano's release there ({FOLDER})"
        )
    return folder


def without(definitions: Iterable[Object]) -> list[Object]:
    """Those that Volcano does not bring itself."""
    return [crd for crd in definitions if not objects.name(crd).endswith(_GROUP)]


def programs(folder: Path, kubeconfig: Path) -> list[Program]:
    """Both, to be started. They wait without a word for definitions that are missing."""
    configuration = folder / "volcano-scheduler.conf"
    configuration.write_text(_CONFIGURATION)
    scheduling = (
        f"--scheduler-conf={configuration}",
        "--schedule-period=1s",
        "--percentage-nodes-to-find=100",
        "--cache-dumper=false",
    )
    return [
        Program(name, [_given() / name, f"--kubeconfig={kubeconfig}", "--leader-elect=false", *flags], folder)
        for name, flags in (("vc-controller-manager", ()), ("vc-scheduler", scheduling))
    ]


def _given() -> Path:
    folder = given_folder()
    if folder is None:
        raise ControlPlaneError(f"{FOLDER} names no folder with Volcano's programs")
    return folder
