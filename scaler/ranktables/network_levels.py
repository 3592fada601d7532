"""The network levels of layout 2.0 of the rank table: which of a chip's addresses its `level_list` shows. Pure.

Levels 0 and 1 are shown as they are; of the scale-out network only the one kind that the service uses: UBoE or UBG on
level 2, RoCE on level 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scaler.ranktables.server import UnusableError
from scaler.rules.values import at

ROCE, UBOE, UBG = "ROCE", "UBOE", "UBG"
PREFERENCE = (ROCE, UBOE, UBG)
SCALE_OUT_LEVEL = {ROCE: 3, UBOE: 2, UBG: 2}
BY_LABEL = {ROCE: (ROCE,), UBOE: (UBOE, UBG)}
_KEYS = ("net_layer", "net_instance_id", "net_type", "net_attr", "rank_addr_list")

Levels = Sequence[Mapping[str, Any]]


def network_levels(chips: Sequence[Levels], scale_out: str) -> list[list[dict[str, Any]]]:
    """For each chip its `level_list`; `scale_out` is the job's label scaleout-type or "". Raises UnusableError."""
    wanted = scale_out.strip().upper()
    if wanted and wanted not in BY_LABEL:
        raise UnusableError(f"label scaleout-type is {scale_out[:40]!r}, not {' or '.join(BY_LABEL)}")
    offered = {kind for levels in chips for level in levels for kind in _info(level)}
    kind = next((kind for kind in BY_LABEL.get(wanted, PREFERENCE) if kind in offered), wanted)
    return [list(_level_list(levels, kind)) for levels in chips]


def _level_list(levels: Levels, kind: str) -> Iterable[dict[str, Any]]:
    by_number = {number: _info(level) for level in levels if isinstance(number := _field(level, "level"), int)}
    for number in (0, 1):
        info = by_number.get(number, {})
        if info:
            yield _element(info[min(info)])
    scale_out = SCALE_OUT_LEVEL.get(kind)
    if scale_out is not None:
        found = by_number.get(scale_out, {}).get(kind)
        yield _element(found) if found is not None else _nothing(scale_out)


def _info(level: Mapping[str, Any]) -> Mapping[str, Any]:
    return {kind: at(element) for kind, element in at(_field(level, "info")).items()}


def _field(level: Mapping[str, Any], name: str) -> Any:
    """By name whatever its case, as Go's decoder takes it."""
    return next((value for key, value in level.items() if key.lower() == name), None)


def _element(element: Mapping[str, Any]) -> dict[str, Any]:
    return {key: element[key] for key in _KEYS if key in element}


def _nothing(number: int) -> dict[str, Any]:
    """A chip without an address on this network."""
    return dict(zip(_KEYS, (number, "CLUSTER", "CLOS", "", []), strict=True))
