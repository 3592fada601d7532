"""What the annotations of a pod say about its chips, as Volcano's NPU plugin or the device plugin wrote them. Pure."""

from __future__ import annotations

import zlib

import msgspec

CONFIGURATION = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
CONFIGURATION_NPU = "ascend.kubectl.kubernetes.io/ascend-npu-configuration"
REAL = "huawei.com/AscendReal"
RANK_INDEX = "hccl/rankIndex"
HARDWARE_TYPE = "mind-cluster/hardware-type"
SUPER_POD = "super-pod-id"


class PodDevices(msgspec.Struct, frozen=True, gc=False):
    """What a pod's annotations and status say about its chips, as text; "" for what is not there."""

    rank_index: str = ""
    packed: bytes = b""
    """Its `configuration`, as `pack` gives it: the longest text of a pod, and read once in its life."""
    real: str = ""
    hardware_type: str = ""
    super_pod: str = ""
    ip: str = ""
    separated: bool = False
    """Labelled `fault-type=Separate`: the fault handling has given this pod up."""

    @property
    def configuration(self) -> str:
        """The JSON about its chips as it was written."""
        return zlib.decompress(self.packed).decode("utf-8", "surrogatepass") if self.packed else ""

    @property
    def chips(self) -> frozenset[str]:
        """Names of the chips that the container really got, as fault reports call them (`Ascend910-3`)."""
        return frozenset(name for part in self.real.split(",") if (name := part.strip()))


def pack(configuration: str) -> bytes:
    """As `PodDevices.packed`."""
    return zlib.compress(configuration.encode("utf-8", "surrogatepass"), 1) if configuration else b""
