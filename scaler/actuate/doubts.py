"""Whether an instance still is as the watch showed it, asked only where that is in doubt. Decides nothing.

What was made of an instance a moment ago and is missing again was deleted by somebody, and perhaps because its owner is
gone: a watch that is far behind shows the owner on, and whatever is made for it the garbage collector deletes at once,
again and again. Nothing is asked of an instance of which nothing was made lately, so the usual way costs no request.
"""

from __future__ import annotations

import asyncio
import math

from scaler.actuate.writer import Writer
from scaler.kube.api import ASCEND_JOBS
from scaler.observe.cache import Cache
from scaler.observe.objects import JobRecord, job_record
from scaler.observe.store import version_of

LATELY = 60.0
"""Seconds for which what was made of an instance puts in doubt that more of it is wanted. A cycle that is slower than
this is no burden."""


class Doubts:
    """Remembers which instances something was made of lately."""

    def __init__(self, writer: Writer, cache: Cache) -> None:
        self._writer = writer
        self._cache = cache
        self._made: dict[str, float] = {}
        """Uid -> loop time, oldest first."""

    def made(self, uid: str) -> None:
        """Something of this instance was made just now."""
        now = asyncio.get_running_loop().time()
        self._made.pop(uid, None)
        self._made[uid] = now
        while self._made[oldest := next(iter(self._made))] < now - LATELY:
            del self._made[oldest]

    async def is_as_known(self, record: JobRecord) -> bool:
        """False when the job is another one by now, or gone; the cache knows it then, too, however late the watch is.

        Raises errors of the seam.
        """
        if self._made.get(record.uid, -math.inf) < asyncio.get_running_loop().time() - LATELY:
            return True
        await self._look(record)
        now = self._cache.job(record.uid)
        return now is not None and now.job == record.job

    async def _look(self, record: JobRecord) -> None:
        """A list of the one name: unlike a read of it, one that finds nothing tells as of which version, and does not
        look like a resource that is not served for a moment."""
        page = await self._writer.find(ASCEND_JOBS, record.namespace, record.name)
        found = [known for known in map(job_record, page.items) if known is not None]
        for known in found:
            self._cache.jobs.apply(known)
        if not found:
            self._cache.jobs.absent(record.namespace, record.name, version_of(page.resource_version))
