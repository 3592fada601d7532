"""What stands between a client and the API server: nothing, unless somebody who tests puts something there."""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.kube.api import Resource
from scaler.sim.apiserver.watching import Seen


class Request(msgspec.Struct, frozen=True):
    """What a client is about to send. `verb` is list, watch, get, create, replace, patch or delete."""

    client: str
    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None


class Interceptor:
    """Sees each request before its effect and after it; may wait, and may raise any KubeError."""

    async def before(self, request: Request) -> None:
        """Before the effect: what is raised here means that nothing happened."""

    async def after(self, request: Request) -> None:
        """After the effect: raise UnknownOutcomeError to lose the answer."""

    async def deliver(self, request: Request, event: Seen) -> bool:  # noqa: ARG002 - this one lets everything pass
        """Before an event of a watch is handed out; False ends the watch without a word."""
        return True
