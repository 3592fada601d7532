"""Programs of others that a test's control plane may have: Volcano's own, and Ascend Operator itself.

`PlaneOptions(volcano=True)` and `PlaneOptions(ascend_operator=True)`. Nothing of them is built or kept here: a folder
that an environment variable names holds the programs and, in `crds`, all definitions of the same release. Without it
nothing of this is run. Must not: know of the scaler.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.control_plane.programs import ControlPlaneError, Program

QUEUE = "default"
"""Made by Volcano's scheduler, opened by its controller manager; nothing is scheduled in a queue that is not open."""
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


class Given(NamedTuple):
    """Programs that the user may have."""

    name: str
    variable: str
    """The environment variable."""
    defines: Callable[[str], bool]
    """Whether it brings the definition of this name."""

    def folder(self) -> Path | None:
        """The folder that the user named, if any."""
        return Path(name) if (name := os.environ.get(self.variable)) else None

    def program(self, name: str) -> Path:
        """Raises ControlPlaneError when there is no folder."""
        if (folder := self.folder()) is None:
            raise ControlPlaneError(f"{self.variable} names no folder with the programs of {self.name}")
        return folder / name

    def crds(self) -> Path:
        """The folder of its definitions. Raises ControlPlaneError when it holds none."""
        folder = self.program("crds")
        if not any(folder.glob("*.yaml")):
            raise ControlPlaneError(
                f"there are no definitions in {folder}: copy those of its release ({self.variable})"
            )
        return folder

    def source(self) -> str:
        """Where its programs come from, for people."""
        folder = self.folder()
        return f"from {folder}" if folder else f"not run, {self.variable} names no folder with its programs"


VOLCANO = Given("Volcano", "VOLCANO_BIN_DIR", lambda name: name.endswith(".volcano.sh"))
ASCEND_OPERATOR = Given(
    "Ascend Operator", "ASCEND_OPERATOR_BIN_DIR", lambda name: name == "ascendjobs.mindxdl.gitee.com"
)
GIVEN = {"volcano": VOLCANO, "ascend_operator": ASCEND_OPERATOR}
"""By the option of the plane."""


def volcano_programs(folder: Path, kubeconfig: Path) -> list[Program]:
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
        Program(name, [VOLCANO.program(name), f"--kubeconfig={kubeconfig}", "--leader-elect=false", *flags], folder)
        for name, flags in (("vc-controller-manager", ()), ("vc-scheduler", scheduling))
    ]


def ascend_operator_program(folder: Path, kubeconfig: Path) -> Program:
    """To be started. Gangs, and requests to the API server as often as in its own manifest; no port is opened."""
    name = "ascend-operator"
    flags = ("--enableGangScheduling=true", "--kubeApiQps=800", "--kubeApiBurst=800")
    log = folder / name / "operator.log"  # it changes the rights of the folder that its log is in
    return Program(
        name, [ASCEND_OPERATOR.program(name), f"--kubeconfig={kubeconfig}", f"--logFile={log}", *flags], folder
    )
