"""JSON that is nested deeper than decoders go, cut off at a depth, so that the rest can be read. No recursion.

Decoders recurse, and how deep they can depends on the version of Python. One object that is nested too deep must not
keep a whole page of a list from being read. This is slow (25 MB/s) and only for what could not be decoded.
"""

from __future__ import annotations

import re

from scaler.clock import Slices

DEEPEST = 128
"""Levels of a list of objects; those of Kubernetes have some 15."""
TOO_DEEP = f"nested more than {DEEPEST} deep"
CUT = b'"cut off: nested too deep"'
"""Stands where something was cut off."""
_TOKENS = 4096
"""Tokens between two looks at the time."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)


async def cut_off(data: bytes) -> bytes:
    """`data` without what is nested deeper than `DEEPEST`. What is no JSON stays so."""
    slices = Slices()
    parts: list[bytes] = []
    depth = kept = 0
    for number, token in enumerate(_TOKEN.finditer(data)):
        mark = data[token.start()]
        if mark in b"{[":
            depth += 1
            if depth == DEEPEST + 1:
                parts += data[kept : token.start()], CUT
        elif mark in b"}]":
            if depth == DEEPEST + 1:
                kept = token.end()
            depth -= 1
        if number % _TOKENS == 0:
            await slices.end()
    return b"".join([*parts, data[kept:]]) if depth <= DEEPEST else data
