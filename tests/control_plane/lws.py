"""LeaderWorkerSet's real manager for a test's control plane (`PlaneOptions(lws=True)`): with its gang provider Volcano.

It serves its admission webhooks on loopback, with a certificate of its own, and the webhook configurations point there.
Must not: know of the scaler.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import yaml

from scaler.kube.api import Object
from tests.control_plane.build import LWS, ensure
from tests.control_plane.programs import Program, answers_ok, certify, free_ports

NAME = "leaderworkerset.sigs.k8s.io/name"
"""Label of every pod of a LeaderWorkerSet; its manager looks at no other pods."""
_HOST = "127.0.0.1"


def definition() -> Path:
    """The upstream CustomResourceDefinition; too large for `kubectl apply`. Raises BuildError."""
    return ensure(LWS) / "lws-crd.yaml"


class LwsManager(Program):
    """The manager. `webhooks` are to be created when it `serves`, not before."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        port, self._health = free_ports(2)
        place = folder / "lws-certificates"
        self.webhooks = _webhooks(port, certify(place))
        configuration = folder / "lws.json"
        settings = {
            "apiVersion": "config.lws.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"{_HOST}:{self._health}"},
            "webhook": {"host": _HOST, "port": port, "certDir": str(place)},
            "gangSchedulingManagement": {"schedulerProvider": "volcano"},
        }
        configuration.write_text(json.dumps(settings))
        program = ensure(LWS) / "lws-manager"
        super().__init__("lws-manager", [program, f"--kubeconfig={kubeconfig}", f"--config={configuration}"], folder)

    def serves(self) -> bool:
        """Readiness alone says nothing about its webhooks: it registers them later, that of pods last."""
        ready = answers_ok(f"http://{_HOST}:{self._health}/readyz")
        return ready and "/validate--v1-pod" in self.log.read_text(errors="replace")


def _webhooks(port: int, authority: bytes) -> Object:
    """The configurations of its own installation: with an address instead of a Service, and for no pods of others."""
    found = list(yaml.safe_load_all((ensure(LWS) / "lws-webhooks.yaml").read_text("utf-8")))
    for webhook in (webhook for configuration in found for webhook in configuration["webhooks"]):
        url = f"https://{_HOST}:{port}{webhook['clientConfig']['service']['path']}"
        webhook["clientConfig"] = {"url": url, "caBundle": base64.b64encode(authority).decode()}
        if webhook["rules"][0]["resources"] == ["pods"]:
            webhook["objectSelector"] = {"matchExpressions": [{"key": NAME, "operator": "Exists"}]}
    return {"apiVersion": "v1", "kind": "List", "items": found}
