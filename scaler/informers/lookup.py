"""One job looked up by name, past a watch that may be far behind. What is found is known to the cache at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from scaler.informers.cache import Cache
from scaler.informers.records import JobRecord, read_job_record
from scaler.kube.api import ASCEND_JOBS, Object, Page, Resource
from scaler.kube.metadata import version_of

Find = Callable[[Resource, str | None, str], Awaitable[Page[Object]]]
"""LIST of one name: unlike a GET of it, a list that finds nothing says as of which version, and does not look like a
resource that is not served for a moment."""


class JobLookup:
    """Raises errors of the seam, as `find` does."""

    def __init__(self, cache: Cache, find: Find) -> None:
        self._jobs = cache.jobs
        self._find = find

    async def is_as_known(self, record: JobRecord) -> bool:
        """False when the job is another one by now, or gone; the cache knows it then, too."""
        namespace, name = record.namespace, record.name
        page = await self._find(ASCEND_JOBS, namespace, name)
        found = [known for known in map(read_job_record, page.items) if known is not None]
        for known in found:
            self._jobs.apply(known)
        if not found:
            self._jobs.absent(namespace, name, version_of(page.resource_version))
        now = self._jobs.get(namespace, name)
        return now is not None and now.uid == record.uid and now.job == record.job
