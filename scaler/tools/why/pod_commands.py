"""The commands that show why a pod does not run: those that can answer. Pure.

A log is printed only of a container that ran: `--previous` of one that ended and was started again,
nothing of a node that does not answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scaler.kube.api import Object
from scaler.rules.values import as_list, as_text, at
from scaler.tools.common.detail import node_trouble
from scaler.tools.common.records import condition
from scaler.tools.common.view import Cluster


def pod_commands(cluster: Cluster, namespace: str, pods: Iterable[Object]) -> Iterator[str]:
    """The commands for the first of these pods with a fault; none where none has one."""
    for pod in pods:
        status = at(pod, "status")
        name = as_text(at(pod, "metadata").get("name"))
        if not name or status.get("phase") == "Succeeded":
            continue
        node = as_text(at(pod, "spec").get("nodeName"))
        if node and node_trouble(cluster, node):
            yield f"kubectl describe node {node}"
            return
        options = _options_of_log(status)
        if options:
            yield f"kubectl -n {namespace} logs {name} {options}"
        if options or condition(status, "Ready").get("status") != "True":
            yield f"kubectl -n {namespace} describe pod {name}"
            return


def _options_of_log(status: Mapping[str, object]) -> str:
    """The options of `kubectl logs` for the first container that ended with an error; "" for
    none."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in map(at, as_list(status.get(kind))):
            name = as_text(container.get("name"))
            if at(container, "state", "terminated").get("exitCode"):
                return f"-c {name}"
            if at(container, "lastState", "terminated"):
                return f"-c {name} --previous"
    return ""
