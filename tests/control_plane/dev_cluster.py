"""A real control plane kept up for people: fake NPU nodes, the definitions, the scaler; `make
dev-cluster`.

docs/tutorial-dev-cluster.md walks through it. Ends with Ctrl-C and leaves nothing behind. Must not:
do anything that the tests of the control plane do not do as well."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from contextlib import suppress

from scaler.clock import Clock
from scaler.sim.actors.mindie import MindIEController
from scaler.sim.actors.nodes import NodeSpec, add_node
from scaler.sim.apiserver.crds import definitions
from tests.control_plane.build import VERSIONS, BuildError
from tests.control_plane.plane import ControlPlane, PlaneOptions, temporary
from tests.control_plane.programs import ControlPlaneError, free_ports
from tests.control_plane.scaler_process import LEASE, install, may_read_metrics, scaler
from tests.control_plane.stage import EXAMPLE, staged

_WELCOME = """
Kubernetes {version} is up with {nodes} fake NPU nodes, and the scaler runs beside it.

  export KUBECONFIG={kubeconfig}
  kubectl apply -f {example}
  kubectl get ascendjobs,pods -n mindie -o wide
  kubectl get esvc -n mindie
  kubectl describe esvc -n mindie
  kubectl edit configmap -n mindie scaling-rule
  kubectl patch node npu-0 --subresource=status --type=merge \\
      -p '{{"status": {{"conditions": [{{"type": "Ready", "status": "False"}}]}}}}'

Its metrics, as Prometheus gets them:

  curl -sk {metrics} \\
      -H "Authorization: Bearer $(kubectl create token -n monitoring prometheus-k8s)"

Logs are in {folder}; the scaler's is scaler.log.
Ctrl-C ends everything and leaves nothing behind.
"""


async def _keep_up(plane: ControlPlane, nodes: int) -> None:
    kubeconfig = install(plane)
    may_read_metrics(plane, "prometheus-k8s")
    (port,) = free_ports(1)
    flags = (*LEASE, "--metrics-port", str(port))
    async with (
        staged(plane, npu_nodes=nodes, detection=2.0) as stage,
        scaler(plane.folder, kubeconfig, flags=flags),
    ):
        await add_node(stage.api, NodeSpec("cpu-0", npu=0))
        patience = asyncio.create_task(MindIEController(stage.api, Clock(), patience=20.0).run())
        print(
            _WELCOME.format(
                version=plane.binaries.version,
                nodes=nodes,
                kubeconfig=plane.admin,
                example=EXAMPLE,
                folder=plane.folder,
                metrics=f"https://127.0.0.1:{port}/metrics",
            ),
            flush=True,
        )
        signalled = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, signalled.set)
        await signalled.wait()
        print("Stopping.", flush=True)
        patience.cancel()


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Keep a control plane with fake NPU nodes and the scaler up."
    )
    parser.add_argument("--nodes", type=int, default=3, help="with eight NPUs each (default: 3)")
    parser.add_argument("--kubernetes", choices=VERSIONS, default=VERSIONS[0])
    arguments = parser.parse_args()
    try:
        # long enough to watch a pod start
        options = PlaneOptions(crds=definitions(), pod_start=3.0)
        with (
            suppress(KeyboardInterrupt),
            temporary("dev-cluster", arguments.kubernetes, options) as plane,
        ):
            asyncio.run(_keep_up(plane, arguments.nodes))
    except (BuildError, ControlPlaneError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
