"""The simulated cluster: one API server in process, its own client, and any number of further
clients.

It has no scheduler, kubelet or garbage collector: these are ordinary clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from scaler.clock import Clock
from scaler.kube.api import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Object, Resource
from scaler.kube.errors import AlreadyExistsError
from scaler.sim.apiserver.client import Interceptor, SimClient, Write
from scaler.sim.apiserver.crds import definitions, workload_definitions
from scaler.sim.apiserver.list_watch import Query
from scaler.sim.apiserver.server import ApiServer, DeleteOptions, Hook
from scaler.sim.apiserver.store import Backup, Change


class SimCluster(SimClient):
    """A cluster to be made inside a running loop. Implements KubeApi; `client` gives further,
    independent clients.

    `crds` installs the definitions of ElasticService, AscendJob, PodGroup, Queue and of the kinds
    whose pods others make; `latency` is the round trip of a request in seconds; `history` is how
    many changes per resource can be watched again. Namespaces are created on first use, unless
    `strict_namespaces`: then a write into a missing one is refused, as in a real cluster.
    `admission` are the webhooks of the cluster (scaler.sim.webhooks)."""

    # Wiring: everything that a cluster is made of.
    def __init__(  # noqa: PLR0913
        self,
        clock: Clock,
        *,
        seed: int = 0,
        crds: bool = True,
        latency: float = 0.002,
        history: int = 4096,
        strict_namespaces: bool = False,
        admission: Sequence[Hook] = (),
    ) -> None:
        server = ApiServer(
            clock,
            seed=seed,
            history=history,
            strict_namespaces=strict_namespaces,
            admission=admission,
        )
        super().__init__(server, "cluster", latency=latency, seed=seed, audit=deque(maxlen=10_000))
        self._seed = seed
        self._clients: dict[str, SimClient] = {"cluster": self}
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            server.create(NAMESPACES, None, {"metadata": {"name": name}})
        for definition in (*definitions(), *workload_definitions()) if crds else ():
            server.create(CUSTOM_RESOURCE_DEFINITIONS, None, definition)

    def client(
        self,
        name: str,
        interceptor: Interceptor | None = None,
        *,
        latency: float | None = None,
        manager: str = "",
    ) -> SimClient:
        """A client of its own, with its own faults, `name` in the audit, `manager` in the
        `managedFields` of what it writes. The same name replaces the client."""
        client = SimClient(
            self.server,
            name,
            latency=self._latency if latency is None else latency,
            seed=self._seed,
            audit=self.audit,
            interceptor=interceptor,
            manager=manager,
        )
        self._clients[name] = client
        return client

    def apply(self, objects: Iterable[Object], namespace: str = "default") -> None:
        """Creates or replaces objects at once, without latency, faults or audit: for the start of a
        test.

        An object without a namespace gets `namespace`. Raises KubeError as the API server would."""
        for obj in objects:
            resource = self.server.catalog.of(obj).resource
            metadata = obj.get("metadata") or {}
            where = (metadata.get("namespace") or namespace) if resource.namespaced else None
            try:
                self.server.create(resource, where, obj)
            except AlreadyExistsError:
                self.server.replace(resource, where, str(metadata["name"]), obj)

    def peek(
        self, resource: Resource, namespace: str | None = None, *, label_selector: str = ""
    ) -> list[Object]:
        """The present objects, without latency: for assertions and pictures."""
        page = self.server.list(resource, namespace, Query(label_selector=label_selector))
        return [record.copy() for record in page.items]

    def remove(self, resource: Resource, namespace: str | None, name: str) -> None:
        """Deletes an object at once, without latency, faults, audit or grace period."""
        self.server.delete(resource, namespace, name, DeleteOptions(grace_period_seconds=0))

    def compact(self) -> None:
        """Drops the history, as etcd's compaction does: older watches and continue tokens
        expire."""
        self.server.store.compact()

    def cut_all_watches(self, resource: Resource | None = None) -> int:
        """Ends the watches (of one resource) of all clients, as a restart of the API server;
        returns how many."""
        return sum(client.cut_watches(resource) for client in self._clients.values())

    def restore(self, backup: Backup) -> None:
        """Restores a backup (`server.store.back_up()`), as a restore of etcd and a restart of the
        API server do."""
        self.server.store.restore(backup)
        self.cut_all_watches()

    def observe(self, observer: Callable[[Change], None]) -> None:
        """Calls `observer`, which must not write, with every commit from now on, in order."""
        self.server.store.observers.append(observer)

    def writes(self, client: str = "") -> list[Write]:
        """The latest writes (of one client), oldest first."""
        return [write for write in self.audit if client in ("", write.client)]
