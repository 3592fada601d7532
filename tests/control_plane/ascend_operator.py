"""The real Ascend Operator for a test's control plane (`PlaneOptions(ascend_operator=True)`).

Nothing of it is built or kept here: the folder that ASCEND_OPERATOR_BIN_DIR names holds its program and, in `crds`, the
definition of AscendJob of the same release. Without it nothing of this is run. Must not: know of the scaler.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from scaler.kube.api import Object
from scaler.sim.actors import objects
from tests.control_plane.programs import ControlPlaneError, Program

FOLDER = "ASCEND_OPERATOR_BIN_DIR"
"""The environment variable."""
NAME = "ascend-operator"
_JOBS = "ascendjobs.mindxdl.gitee.com"


def given_folder() -> Path | None:
    """The folder that the user named, if any."""
    name = os.environ.get(FOLDER)
    return Path(name) if name else None


def crds() -> Path:
    """The folder of its definition. Raises ControlPlaneError when it holds none."""
    folder = _given() / "crds"
    if not any(folder.glob("*.yaml")):
        raise ControlPlaneError(f"there is no definition in {folder}: copy that of its release there ({FOLDER})")
    return folder


def without(definitions: Iterable[Object]) -> list[Object]:
    """Those that it does not bring itself."""
    return [crd for crd in definitions if objects.name(crd) != _JOBS]


def program(folder: Path, kubeconfig: Path) -> Program:
    """To be started. Gangs on and the API server asked as often as its own manifest has it; no port is opened."""
    flags = ("--enableGangScheduling=true", "--kubeApiQps=800", "--kubeApiBurst=800")
    log = folder / NAME / "operator.log"  # it changes the rights of the folder that its log is in
    return Program(NAME, [_given() / NAME, f"--kubeconfig={kubeconfig}", f"--logFile={log}", *flags], folder)


def _given() -> Path:
    folder = given_folder()
    if folder is None:
        raise ControlPlaneError(f"{FOLDER} names no folder with Ascend Operator's program")
    return folder
