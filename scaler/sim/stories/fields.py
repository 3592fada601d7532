"""The types of values in a scenario file: times, files, names, counts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_MAX_TIME = 7 * 24 * 3600.0


def _seconds(value: Any) -> Any:
    """`90`, `90s`, `2m30s` or `1h` as seconds; pydantic refuses other values."""
    if isinstance(value, str) and value and (found := _DURATION.fullmatch(value)):
        hours, minutes, seconds = found.groups()
        return float(hours or 0) * 3600 + float(minutes or 0) * 60 + float(seconds or 0)
    if isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration; write seconds (90) or 90s, 2m30s, 1h")
    return value


_DURATION_SCHEMA = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": _MAX_TIME},
        {"type": "string", "pattern": r"^(?=.)(\d+h)?(\d+m)?(\d+(\.\d+)?s)?$"},
    ],
    "description": "Seconds, or text such as 90s, 2m30s, 1h.",
}
Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(ge=0, le=_MAX_TIME, allow_inf_nan=False),
    WithJsonSchema(_DURATION_SCHEMA),
]


def _beside(path: Path, info: pydantic.ValidationInfo) -> Path:
    """The path relative to the folder of the scenario's file, if the scenario was read from a
    file."""
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / path


File = Annotated[Path, pydantic.AfterValidator(_beside)]
Range = tuple[Seconds, Seconds]
Name = Annotated[str, Field(min_length=1, max_length=253)]
Counts = dict[str, Annotated[int, Field(ge=0)]]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
