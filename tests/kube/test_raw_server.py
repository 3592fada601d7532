"""The server of wrong bytes leaves nothing open: what it forgot would fail another test, much
later."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings

import pytest

from tests.kube.raw_server import serving, silence


async def connect_and_go(turns: int) -> None:
    async with serving(silence) as server:
        client = socket.create_connection(("127.0.0.1", server.port))
        for _ in range(turns):
            await asyncio.sleep(0)
    client.close()


@pytest.mark.parametrize("turns", range(8))
def test_a_client_leaves_nothing_open_however_early_the_server_stops(turns: int) -> None:
    gc.collect()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        asyncio.run(connect_and_go(turns))
        gc.collect()
    assert [str(each.message) for each in seen] == []
