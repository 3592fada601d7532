"""One pod of a rank table with its chips, read from the device annotation of the pod. Pure.

An annotation may be any text: what is wrong with it is said in words, and then nothing is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.rules.finding import shown
from scaler.rules.values import as_list, as_text
from scaler.workloads.devices import PodDevices

MAX_CHIPS = 1024
"""Per pod; far above any machine, so that a wrong annotation cannot make a table of any size."""


class UnusableError(ValueError):
    """Why the chips of a pod, or of several together, make no table: in words."""


class RankTablePod(msgspec.Struct, frozen=True):
    """One pod that exists, as the table sees it. `lost` = terminating or ended: its chips are not the job's now."""

    name: str
    node: str
    devices: PodDevices = PodDevices()
    lost: bool = False


class Chip(msgspec.Struct, frozen=True):
    """One NPU of a pod. `levels` is what layout 2.0 needs: the network's levels as the annotation has them."""

    device_id: str
    device_ip: str
    super_device_id: str
    levels: tuple[Mapping[str, Any], ...]


class Server(msgspec.Struct, frozen=True):
    """One pod in the table. `rank` is the pod's; its first chip has rank * number of chips."""

    pod: RankTablePod
    rank: int
    server_id: str
    host_ip: str
    chips: tuple[Chip, ...]


def read_server(pod: RankTablePod, rank: int) -> Server:
    """The pod with its chips; `rank` counts when its annotations name none. Raises UnusableError."""
    text = pod.devices.rank_index
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise UnusableError(f"pod {pod.name}: hccl/rankIndex is {text[:40]!r}, not a number")
    try:
        server_id, host_ip, chips = _read(pod.devices.configuration)
    except UnusableError as problem:
        raise UnusableError(f"pod {pod.name}: the device annotation cannot be used: {problem}") from None
    return Server(pod, int(text) if text else rank, server_id, host_ip, chips)


def _read(annotation: str) -> tuple[str, str, tuple[Chip, ...]]:
    """Its server_id, host_ip and chips."""
    try:
        value = msgspec.json.decode(annotation)
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
    return _text(value.get("server_id")), _text(value.get("host_ip")), chips


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
