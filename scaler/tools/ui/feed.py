"""The messages to a page: tables of rows by name, first complete, then only changes. Pure, but for
its memory.

{"table": {"set": {"name": row}, "gone": ["name"]}}"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Tables = Mapping[str, Mapping[str, Any]]
_ENCODER = msgspec.json.Encoder()


class Feed:
    """The messages to one page."""

    def __init__(self) -> None:
        self._sent: dict[str, dict[str, Any]] = {}

    def news(self, tables: Tables) -> bytes:
        """One line of JSON with the changes; b"" for none. A row must not be modified after it was
        passed here."""
        said = {}
        for name, rows in tables.items():
            first = name not in self._sent
            sent = self._sent.setdefault(name, {})
            changed = {}
            for key, row in rows.items():
                if (old := sent.get(key)) is not row and old != row:
                    changed[key] = row
            gone = [key for key in sent if key not in rows]
            if changed or gone or first:
                said[name] = {"set": changed, "gone": gone}
                self._sent[name] = dict(rows)
        return _ENCODER.encode(said) + b"\n" if said else b""
