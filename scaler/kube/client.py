"""The real cluster: KubeApi over HTTP.

The calls of kubernetes_asyncio are not used: they have no timeout, do not check the status and
decode far too much. HTTPS_PROXY is ignored, which a cluster sets for other purposes; `proxy-url` of
a kubeconfig counts. A request is sent once more after a 401, and, by aiohttp, a GET, PUT or DELETE
whose connection ended: preconditions make it harmless."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar, Unpack

import aiohttp
import msgspec
import yarl

from scaler import __version__
from scaler.kube import wire
from scaler.kube.api import (
    CLIENT,
    OWN,
    DeleteOptions,
    ListOptions,
    Object,
    Page,
    PatchOptions,
    PatchType,
    Resource,
    WatchEvent,
    WatchOptions,
)
from scaler.kube.configuration import Configuration, Credentials, load
from scaler.kube.errors import KubeError, NotSentError, UnauthorizedError, UnknownOutcomeError

REQUEST_TIMEOUT = 10.0
"""Seconds for one answer; a page of a list may take `PAGE_TIMEOUTS` times as long while bytes keep
coming."""
PAGE_TIMEOUTS = 6
CONNECT_TIMEOUT = 5.0
WATCH_SILENCE = 90.0
"""Seconds without a byte after which a watch counts as dead: bookmarks come every 60 s."""
KEEP_ALIVE = 150.0
"""Seconds that an idle connection is kept: a new TLS connection costs ten times as much as a
request."""
MOST_PAGE = 2**22
"""Bytes of a page of a list; if a page would have more, the next request asks for fewer objects."""
READ_BUFFER = 2**18
"""Bytes read ahead of a stream: fewer wake-ups when many events come at once."""

T = TypeVar("T")

Answered = Callable[[str, Resource, float, float | None], None]
"""Called after each request with verb, resource, the seconds until an answer began or none came,
and after a success the time of the API server's clock (seconds since the epoch)."""


class TooLongError(Exception):
    """An answer is longer than its reader allows; the message has the limit."""


class _Request(NamedTuple):
    """One request. It may take `timeouts` times as long as others."""

    verb: str
    resource: Resource
    path: str
    body: Any = None
    content_type: str = "application/json"
    timeouts: int = 1


class HttpKubeApi:
    """KubeApi over one aiohttp session. Made by `connect`."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        configuration: Configuration,
        credentials: Credentials,
        timeout: float,
        answered: Answered = lambda *_: None,
    ) -> None:
        self._session = session
        self.server = configuration.host.rstrip("/")
        self._credentials = credentials
        self._timeout = timeout
        self._answered = answered
        self.watch_silence = WATCH_SILENCE
        options = {"proxy": configuration.proxy, "server_hostname": configuration.tls_server_name}
        self._page_sizes: dict[Resource, int] = {}
        """Objects per page, for resources whose pages were too large."""
        self._per_request: dict[str, Any] = {key: value for key, value in options.items() if value}

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        decode: Any = Object,
        **options: Unpack[ListOptions],
    ) -> Page[Any]:
        given: dict[str, str | int] = {
            "labelSelector": options.get("label_selector", ""),
            "fieldSelector": options.get("field_selector", ""),
            "resourceVersion": options.get("resource_version", ""),
        }
        token = options.get("continue_token", "")
        limit = options.get("limit", 0)
        path = wire.path_of(resource, namespace)
        # a page may have fewer objects than its limit, so that large ones do not take all memory
        while True:
            size = min(limit, self._page_sizes.get(resource, limit))
            query = wire.query_of({**given, "limit": size, "continue": token})
            longest = 0 if not size else MOST_PAGE if size > 1 else wire.LONGEST_LINE
            request = _Request("list", resource, path + query, timeouts=PAGE_TIMEOUTS)
            try:
                data = await self._call(request, longest)
            except TooLongError:
                if size == 1:
                    raise UnknownOutcomeError(
                        f"one of the {resource.plural} has more than {longest} bytes"
                    ) from None
                self._page_sizes[resource] = max(1, size // 8)
                continue
            if size < limit and len(data) < MOST_PAGE // 4:
                self._page_sizes[resource] = size * 2
            return await wire.decode_page(data, resource, decode)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        decode: Any = Object,
        **options: Unpack[WatchOptions],
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        query = wire.query_of(
            {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": resource_version,
                "labelSelector": options.get("label_selector", ""),
                "fieldSelector": options.get("field_selector", ""),
                "timeoutSeconds": options.get("timeout_seconds", 300),
            }
        )
        path = wire.path_of(resource, namespace) + query
        response = await self._exchange(_Request("watch", resource, path), _opened)
        try:
            splitter = wire.LineSplitter()
            decode_event = wire.EventDecoder(decode)
            while True:
                try:
                    chunk = await response.content.readany()
                except _TRANSPORT_ERRORS as error:
                    raise _untrusted("watch", error) from None
                if not chunk:
                    break
                for line in splitter.feed(chunk):
                    yield await decode_event(line)
            if splitter.rest:
                raise UnknownOutcomeError("the watch ended within an event")
        finally:
            response.close()

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        path = wire.path_of(resource, namespace, name)
        return wire.decode_object(await self._call(_Request("get", resource, path)))

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        path = wire.path_of(resource, namespace)
        return wire.decode_object(await self._call(_Request("create", resource, path, body)))

    async def would_create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """The object after admission; nothing is stored. Only commands need it, so KubeApi does not
        have it."""
        path = wire.path_of(resource, namespace) + wire.query_of({"dryRun": "All"})
        return wire.decode_object(await self._call(_Request("create", resource, path, body)))

    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        subresource: str = "",
    ) -> Object:
        path = wire.path_of(resource, namespace, name, subresource)
        return wire.decode_object(await self._call(_Request("replace", resource, path, body)))

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Any,
        *,
        patch_type: PatchType,
        **options: Unpack[PatchOptions],
    ) -> Object:
        path = wire.path_of(resource, namespace, name, options.get("subresource", ""))
        if patch_type is PatchType.APPLY:
            apply = options.get("apply", OWN)
            force = str(apply.force).lower()
            dry_run = "All" if apply.dry_run else ""
            path += wire.query_of(
                {"fieldManager": apply.manager, "force": force, "dryRun": dry_run}
            )
        request = _Request("patch", resource, path, patch, patch_type.value)
        return wire.decode_object(await self._call(request))

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        **options: Unpack[DeleteOptions],
    ) -> None:
        preconditions = dict[str, str]()
        if uid := options.get("uid"):
            preconditions["uid"] = uid
        if resource_version := options.get("resource_version"):
            preconditions["resourceVersion"] = resource_version
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            body["preconditions"] = preconditions
        if (seconds := options.get("grace_period_seconds")) is not None:
            body["gracePeriodSeconds"] = seconds
        if policy := options.get("propagation_policy"):
            body["propagationPolicy"] = policy
        path = wire.path_of(resource, namespace, name)
        await self._call(_Request("delete", resource, path, body))

    async def version(self) -> Object:
        """The version of the API server: `gitVersion` among others."""
        info = Resource("", "", "version", "Info", False)
        return wire.decode_object(await self._call(_Request("get", info, "/version")))

    async def _call(self, request: _Request, longest: int = 0) -> bytes:
        """The JSON of one answer, or an error; `longest` in bytes, 0 for no limit."""
        return await self._exchange(request, partial(_json_of, longest=longest))

    async def _exchange(
        self, request: _Request, read: Callable[[aiohttp.ClientResponse], Awaitable[T]]
    ) -> T:
        """The answer as `read` decodes it. The request is sent once more after an answer 401."""
        data = None if request.body is None else msgspec.json.encode(request.body)

        async def once() -> T:
            headers = {"Content-Type": request.content_type}
            if authorization := await self._credentials.header():
                headers["Authorization"] = authorization
            async with asyncio.timeout(self._timeout * request.timeouts):
                return await read(await self._send(request, headers, data))

        try:
            try:
                return await once()
            except UnauthorizedError:
                await self._credentials.renew()
                return await once()
        except _TRANSPORT_ERRORS as error:
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                await self._credentials.renew()
            raise _untrusted(request.verb, error) from None

    async def _send(
        self, request: _Request, headers: dict[str, str], data: bytes | None
    ) -> aiohttp.ClientResponse:
        silence = self.watch_silence if request.verb == "watch" else self._timeout
        # less than the answer has, so that "not sent" is certain
        connect = min(CONNECT_TIMEOUT, self._timeout / 2)
        loop = asyncio.get_running_loop()
        began = loop.time()
        date = None
        try:
            response = await self._session.request(
                _METHODS.get(request.verb, "GET"),
                yarl.URL(self.server + request.path, encoded=True),
                data=data,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=None, connect=connect, sock_read=silence),
                allow_redirects=False,
                **self._per_request,
            )
            if 200 <= response.status < 300:  # otherwise a proxy may have refused
                with suppress(ValueError, OverflowError, TypeError):
                    date = parsedate_to_datetime(response.headers.get("Date", "")).timestamp()
        finally:
            self._answered(request.verb, request.resource, loop.time() - began, date)
        return response


_METHODS = {"create": "POST", "replace": "PUT", "patch": "PATCH", "delete": "DELETE"}
"""HTTP methods of the verbs that write; all others are GET."""

_TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, TimeoutError, ValueError)
"""ValueError: aiohttp raises it for a header with a line break, which a token may have."""


def _untrusted(what: str, error: BaseException) -> KubeError:
    words = f"{what}: {type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotSentError(words)
    return UnknownOutcomeError(words)


async def _json_of(response: aiohttp.ClientResponse, longest: int = 0) -> bytes:
    """The body. A refusal is raised as its error; a success must be JSON (a proxy's page of HTML is
    no answer)."""
    async with response:
        answer = await (read_at_most(response, longest) if longest else response.read())
    if not 200 <= response.status < 300:
        raise wire.refusal(
            response.status, response.reason or "", answer, response.headers.get("Retry-After")
        )
    if response.content_type != "application/json":
        raise UnknownOutcomeError(f"{response.status} with {response.content_type} instead of JSON")
    return answer


async def _opened(response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
    """The answer to a watch; its events are not read yet."""
    if response.status == 200 and response.content_type == "application/json":
        return response
    await _json_of(response)
    raise UnknownOutcomeError(f"{response.status} is no answer to a watch")


async def read_at_most(response: aiohttp.ClientResponse, longest: int) -> bytes:
    """The whole body, of at most `longest` bytes. Raises TooLongError, and then reads no
    further."""
    parts = []
    left = longest
    async for chunk in response.content.iter_any():
        left -= len(chunk)
        if left < 0:
            response.close()
            raise TooLongError(f"the answer is longer than {longest} bytes")
        parts.append(chunk)
    return b"".join(parts)


@asynccontextmanager
async def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    request_timeout: float = REQUEST_TIMEOUT,
    answered: Answered = lambda *_: None,
    insecure: bool = False,
) -> AsyncIterator[HttpKubeApi]:
    """The cluster that `kubeconfig` (and its `context`) names.

    Without one: the cluster around this pod if a service account is mounted, else the default
    kubeconfig ($KUBECONFIG, ~/.kube/config). NotSentError when there is no usable configuration; no
    request is sent yet. `insecure`: the certificate of the server is not checked, as with kubectl
    --insecure-skip-tls-verify."""
    configuration, credentials, tls = await load(kubeconfig, context, insecure=insecure)
    headers = {
        "User-Agent": f"{CLIENT}/{__version__}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    connector = aiohttp.TCPConnector(limit=0, ssl=tls, keepalive_timeout=KEEP_ALIVE)
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, read_bufsize=READ_BUFFER
    ) as session:
        yield HttpKubeApi(session, configuration, credentials, request_timeout, answered)
