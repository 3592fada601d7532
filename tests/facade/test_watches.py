"""Watches over HTTP, as clients leave them."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import urlsplit

import pytest

from scaler.clock import Clock
from scaler.sim.apiserver.facade import serve
from scaler.sim.cluster import SimCluster

_WATCH = b"GET /api/v1/namespaces/mindie/pods?watch=true HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("stays", [0.0, 0.02, 0.2])
async def test_a_client_that_leaves_its_watch_at_any_moment_is_no_error(
    stays: float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with serve(SimCluster(Clock(1e9))) as url:
            _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
            writer.write(_WATCH)
            await writer.drain()
            await asyncio.sleep(stays)
            writer.close()
            await writer.wait_closed()
            await asyncio.sleep(0.2)
    assert caplog.records == []
