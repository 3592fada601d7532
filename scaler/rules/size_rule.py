"""A size rule: a rule document that lists the sizes of one training job instead of ratios (contract
3d, ladders). Pure.

    {"version": "1.0", "elastic_scaling_list": [
      {"group_list": [{"group_name": "train", "group_num": "1", "server_num_per_group": "8"}]},
      {"group_list": [{"group_name": "train", "group_num": "1", "server_num_per_group": "6"}]},
      {"group_list": [{"group_name": "train", "group_num": "1", "server_num_per_group": "2"}]}]}

says 8, 6 or 2 servers. It is the way for hybrid parallel jobs: only sizes that the script knows.
For services such a document is an error, as an instance cannot change its size."""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.rules.shape import LIST, number
from scaler.rules.values import as_list, at

SERVERS = "server_num_per_group"
NPUS = "npus_per_server"
"""Optional member of a group: the NPUs of each server at this size."""


class ListedSize(msgspec.Struct, frozen=True, gc=False):
    """One entry of a size rule. `npus`: of each server; 0 = as the job's own template says."""

    servers: int
    npus: int = 0


def sizes_in(value: object) -> tuple[ListedSize, ...]:
    """The sizes of a decoded document, falling; () when it is no size rule."""
    sizes: list[ListedSize] = []
    names = set()
    for entry in as_list(at(value).get(LIST)):
        groups = as_list(at(entry).get("group_list"))
        size = _size(groups[0]) if len(groups) == 1 else None
        if size is None or (sizes and not _falls(sizes[-1], size)):
            return ()
        sizes.append(size)
        names.add(at(groups[0]).get("group_name"))
    return tuple(sizes) if len(sizes) > 1 and len(names) == 1 else ()


def _size(group: Any) -> ListedSize | None:
    members = at(group)
    servers = number(members.get(SERVERS))
    npus = number(members.get(NPUS, "0"))
    if members.get("group_num") != "1" or not servers or npus is None:
        return None
    return ListedSize(servers, npus)


def _falls(larger: ListedSize, smaller: ListedSize) -> bool:
    """Whether the second has fewer servers or fewer NPUs on each, and more of neither."""
    return smaller != larger and smaller.servers <= larger.servers and smaller.npus <= larger.npus
