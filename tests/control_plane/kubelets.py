"""The kubelets of a control plane: those of the simulation, in a process of their own.

`python -m tests.control_plane.kubelets KUBECONFIG START STOP`: seconds from bound to Running and
Ready, and from a deletion to the end. Every Node object that is Ready is such a machine. They renew
no leases; the node controller is told to wait for none. Must not: bring back a node that is not
Ready."""

from __future__ import annotations

import asyncio
import sys

from scaler.clock import Clock
from scaler.kube.client import connect
from scaler.sim.actors.nodes import Kubelet, KubeletTimings


async def _run(kubeconfig: str, start: float, stop: float) -> None:
    clock = Clock()
    timings = KubeletTimings(start=(start, start), ready=(0, 0), stop=(stop, stop))
    async with connect(kubeconfig=kubeconfig) as api:
        await Kubelet(api, clock, timings=timings).run()


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
