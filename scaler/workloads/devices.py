"""What the annotations of a pod say about its chips, as Volcano's NPU plugin or the device plugin wrote them. Pure."""

from __future__ import annotations

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
