"""Reads again what the cache has left out of ConfigMaps, once a job names them as its rule."""

from __future__ import annotations

from collections.abc import Callable

from scaler.informers.config_maps import ConfigMapObject, ConfigMapRecord, config_map_record
from scaler.informers.store import Name
from scaler.kube.api import CONFIG_MAPS, KubeApi
from scaler.kube.outbox import Outbox

PARALLEL = 4
PARALLEL_OF_ONE = 1
"""ConfigMaps that are read at the same time: in all, and of one namespace."""


class LeftOut:
    """Reads each ConfigMap at most once a second while `is_lacking(namespace, name)`, and gives it
    to `take`."""

    def __init__(
        self,
        api: KubeApi,
        is_lacking: Callable[[str, str], bool],
        take: Callable[[ConfigMapRecord], None],
    ) -> None:
        self._api = api
        self._is_lacking = is_lacking
        self._take = take
        self._outbox: Outbox[Name] = Outbox(
            self._read,
            most=PARALLEL,
            most_of_one=PARALLEL_OF_ONE,
            namespace_of=lambda name: name[0],
        )

    def ask(self, namespace: str, name: str) -> None:
        """Have this ConfigMap read soon."""
        self._outbox.mark((namespace, name))

    async def run(self) -> None:
        """Read until cancelled. Errors are logged and retried, never raised."""
        await self._outbox.run()

    async def _read(self, name: Name) -> None:
        if not self._is_lacking(*name):
            return
        # a list of one: the right to get the ConfigMaps of users is not needed for anything else
        namespace, own_name = name
        page = await self._api.list(
            CONFIG_MAPS,
            namespace,
            field_selector=f"metadata.name={own_name}",
            decode=ConfigMapObject,
        )
        for found in page.items:
            self._take(config_map_record(found))
