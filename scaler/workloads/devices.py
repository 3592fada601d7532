"""The annotations of a pod about its chips, as Volcano's NPU plugin or the device plugin wrote
them. Pure."""

from __future__ import annotations

import zlib

import msgspec

CONFIGURATION = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
CONFIGURATION_NPU = "ascend.kubectl.kubernetes.io/ascend-npu-configuration"
REAL = "huawei.com/AscendReal"
RANK_INDEX = "hccl/rankIndex"
HARDWARE_TYPE = "mind-cluster/hardware-type"
SUPER_POD = "super-pod-id"
SUPER_POD_RANK = "super-pod-rank"
"""Which block of its job the pod is in: its containers read it as they start."""


class PodDevices(msgspec.Struct, frozen=True, gc=False):
    """The annotations and status of a pod about its chips, as text; "" for what is absent."""

    rank_index: str = ""
    packed: bytes = b""
    """Its `ip` and `configuration`, made by `pack`: the longest texts of a pod, read only once in
    its life."""
    real: str = ""
    hardware_type: str = ""
    super_pod: str = ""
    without_rank: bool = False
    """The scheduler put it into a super-pod, and gave it no rank there."""
    separated: bool = False
    """Labelled `fault-type=Separate`: MindCluster's fault handling has given this pod up."""

    @property
    def configuration(self) -> str:
        """The JSON about its chips, as it was written."""
        return self._texts[2]

    @property
    def ip(self) -> str:
        return self._texts[0]

    @property
    def _texts(self) -> tuple[str, str, str]:
        text = (
            zlib.decompressobj(-zlib.MAX_WBITS, _COMMON).decompress(self.packed)
            if self.packed
            else b""
        )
        return text.decode("utf-8", "surrogatepass").partition("\n")

    @property
    def chips(self) -> frozenset[str]:
        """Names of the chips that the container really got, as fault reports call them
        (`Ascend910-3`)."""
        return frozenset(name for part in self.real.split(",") if (name := part.strip()))


_CHIPS = ",".join(
    f'{{"device_id":"{i}","device_ip":"10.0.","super_device_id":"{i}"}}' for i in range(16)
)
_HOST = '"pod_name":"-master-0-worker-0","server_id":"192.168.","host_ip":"10.0."'
_COMMON = f'192.168.\n{{{_HOST},"devices":[{_CHIPS}]}}'.encode()
"""A text that most annotations have in common: with it as zlib dictionary, the common part takes no
memory."""


def pack(configuration: str, ip: str = "") -> bytes:
    """The value for `PodDevices.packed`; an address has no line break."""
    if not (configuration or ip):
        return b""
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=_COMMON)
    return (
        packer.compress(f"{ip}\n{configuration}".encode("utf-8", "surrogatepass")) + packer.flush()
    )
