"""The chips that a pod was given, as Volcano's NPU plugin or the device plugin wrote them into its annotations. Pure.

On any text: what is wrong with an annotation is said in words, and then nothing is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.rules.finding import shown
from scaler.rules.values import as_list, as_text

CONFIGURATION = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
CONFIGURATION_NPU = "ascend.kubectl.kubernetes.io/ascend-npu-configuration"
REAL = "huawei.com/AscendReal"
RANK_INDEX = "hccl/rankIndex"
HARDWARE_TYPE = "mind-cluster/hardware-type"
SUPER_POD = "super-pod-id"
MAX_CHIPS = 1024
"""Per pod; far above any machine, so that a wrong annotation cannot make a table of any size."""


class PodDevices(msgspec.Struct, frozen=True, gc=False):
    """What a pod's annotations and status say about its chips, as text; "" for what is not there."""

    rank_index: str = ""
    configuration: str = ""
    real: str = ""
    hardware_type: str = ""
    super_pod: str = ""
    ip: str = ""
    separated: bool = False
    """Labelled `fault-type=Separate`: the fault handling has given this pod up."""

    @property
    def chips(self) -> frozenset[str]:
        """Names of the chips that the container really got, as fault reports call them (`Ascend910-3`)."""
        return frozenset(name for part in self.real.split(",") if (name := part.strip()))


class Chip(msgspec.Struct, frozen=True):
    """One NPU of a pod. `levels` is what layout 2.0 needs: the network's levels as the annotation has them."""

    device_id: str
    device_ip: str
    super_device_id: str = ""
    levels: tuple[Mapping[str, Any], ...] = ()


class Configuration(msgspec.Struct, frozen=True):
    """The device annotation of one pod, read."""

    server_id: str
    host_ip: str
    chips: tuple[Chip, ...]


class UnusableError(ValueError):
    """Why the chips of a pod, or of several together, cannot be told: in words."""


def read_configuration(text: str) -> Configuration:
    """The annotation's meaning. Raises UnusableError."""
    try:
        value = msgspec.json.decode(text)
    except (RecursionError, ValueError) as error:
        raise UnusableError(f"it is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise UnusableError("it is not a JSON object")
    devices = as_list(value.get("devices"))
    if not devices:
        raise UnusableError("it names no devices")
    if len(devices) > MAX_CHIPS:
        raise UnusableError(f"it names {len(devices)} devices, more than {MAX_CHIPS}")
    chips = tuple(_chip(f"devices[{number}]: ", device) for number, device in enumerate(devices))
    if len({chip.device_id for chip in chips}) < len(chips):
        raise UnusableError("it names a device twice")
    return Configuration(_text(value.get("server_id")), _text(value.get("host_ip")), chips)


def _chip(place: str, device: Any) -> Chip:
    if not isinstance(device, dict):
        raise UnusableError(f"{place}not a JSON object")
    device_id = _text(device.get("device_id"))
    if not (device_id.isascii() and device_id.isdecimal() and len(device_id) <= 9):
        raise UnusableError(f"{place}device_id is {shown(device.get('device_id'), 40)}, not a number")
    levels = device.get("levelList") or []
    if not isinstance(levels, list) or not all(isinstance(level, dict) for level in levels):
        raise UnusableError(f"{place}levelList is not a list of objects")
    return Chip(device_id, _text(device.get("device_ip")), _text(device.get("super_device_id")), tuple(levels))


def _text(value: Any) -> str:
    """Text, also of a number: writers of this annotation differ in that."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return as_text(value).strip()
