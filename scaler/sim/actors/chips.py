"""Chips and addresses of simulated machines: made up from names, so that they are the same in every run.

Must not: read the cluster or write anything.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable

from scaler.kube.api import Object
from scaler.sim.actors import objects

REAL = "huawei.com/AscendReal"
CONFIGURATION = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
_VENDOR = "huawei.com/"


def wanted_chips(pod: Object) -> tuple[str, int]:
    """The NPU resource that a pod asks for and how many of it; ("", 0) for a pod without."""
    found = [(name, int(amount)) for name, amount in objects.requests(pod).items() if name.startswith(_VENDOR)]
    return found[0] if found and found[0][1] else ("", 0)


def chips_of(node: Object | None) -> tuple[str, int]:
    """The NPU resource of a node and how many it was built with, faulty ones included."""
    capacity = objects.status(node).get("capacity") or {} if node else {}
    return next(((name, int(amount)) for name, amount in capacity.items() if name.startswith(_VENDOR)), ("", 0))


def chip_name(resource: str, index: int) -> str:
    """As MindCluster calls it: `Ascend910-3`."""
    return f"{resource.removeprefix(_VENDOR)}-{index}"


def chip_index(name: str) -> int:
    return int(name.rpartition("-")[2])


def given_chips(pod: Object) -> frozenset[str]:
    """Names of the chips that the pod has by its annotation."""
    return frozenset(name for name in objects.annotations_of(pod).get(REAL, "").split(",") if name)


def device_annotations(pod: Object, node: str, chips: Iterable[str]) -> dict[str, str]:
    """What Volcano's plugin and the device plugin write onto a pod that got these chips of `node`."""
    names = sorted(chips, key=chip_index)
    devices = [
        {"device_id": str(chip_index(name)), "device_ip": chip_address(node, name), "super_device_id": str(number)}
        for number, name in enumerate(names)
    ]
    configuration = {
        "pod_name": objects.name(pod),
        "server_id": objects.uid(pod),
        "host_ip": host_address(node),
        "devices": devices,
    }
    return {REAL: ",".join(names), CONFIGURATION: json.dumps(configuration)}


def pod_address(pod: Object) -> str:
    return _address(10, f"{objects.namespace(pod)}/{objects.name(pod)}")


def host_address(node: str) -> str:
    return _address(172, node)


def chip_address(node: str, chip: str) -> str:
    return _address(29, f"{node}/{chip}")


def _address(first: int, text: str) -> str:
    number = zlib.crc32(text.encode())
    return f"{first}.{number >> 16 & 255}.{number >> 8 & 255}.{max(1, number & 255)}"
