"""What a page is told: tables of rows by name, first whole, then what has changed. Pure, but for what was sent.

{"table": {"set": {"name": row}, "gone": ["name"]}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

Tables = Mapping[str, Mapping[str, Any]]
_ENCODER = msgspec.json.Encoder()


class Feed:
    """To one page."""

    def __init__(self) -> None:
        self._sent: dict[str, dict[str, Any]] = {}

    def news(self, tables: Tables) -> bytes:
        """One line of JSON with what is new; b"" for nothing. A row must not be changed after it was given here."""
        said = {}
        for name, rows in tables.items():
            first = name not in self._sent
            sent = self._sent.setdefault(name, {})
            changed = {key: row for key, row in rows.items() if (old := sent.get(key)) is not row and old != row}
            gone = [key for key in sent if key not in rows]
            if changed or gone or first:
                said[name] = {"set": changed, "gone": gone}
                self._sent[name] = dict(rows)
        return _ENCODER.encode(said) + b"\n" if said else b""
