"""The manifests that a short file stands for, as text: what reads manifests reads short files
too, without a cluster."""

from __future__ import annotations

import json
import re

from scaler.tools.common.short_file.sections import SECTIONS

_SECTION = re.compile(rf"^(?:{'|'.join(SECTIONS.values())})[ \t]*:", re.MULTILINE)
_OBJECT = re.compile(r"^(?:kind|apiVersion)[ \t]*:", re.MULTILINE)


def is_short_file(text: str) -> bool:
    """Whether a text is a file for `scaler deploy`, by its keys: no object has them."""
    return _SECTION.search(text) is not None and _OBJECT.search(text) is None


def manifests_of(text: str) -> str:
    """The objects of a short file as YAML, in the order of their writes. Raises ConfigError."""
    import yaml  # noqa: PLC0415 - most texts are no short files

    from scaler.tools.common.short_file.service import read_service  # noqa: PLC0415

    made = read_service(text).objects
    plain = json.loads(json.dumps(made))  # without what several of them share
    written: str = yaml.safe_dump_all(plain, sort_keys=False, allow_unicode=True, width=120)
    return written
