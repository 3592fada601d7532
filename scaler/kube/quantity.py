"""Kubernetes quantities: parse, add, print in canonical form. Exact, in Decimal.

Source: apimachinery's resource.Quantity. A sum keeps the notation (decimal or binary suffixes) of
its first term."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_PATTERN = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?"
)


def parse_quantity(value: object) -> Decimal | None:
    """The number of a quantity (string or JSON number); None when `value` is no quantity."""
    match = _PATTERN.fullmatch(str(value).strip()) if isinstance(value, str | int | float) else None
    if match is None or isinstance(value, bool):
        return None
    number = Decimal(match[1])
    suffix = match[2] or ""
    exponent = match[3]
    if exponent:
        return number.scaleb(int(exponent))
    if suffix in _BINARY:
        return number * Decimal(1024) ** _BINARY[suffix]
    return number.scaleb(_DECIMAL[suffix])


def add_quantities(values: Iterable[object]) -> str:
    """The canonical sum, with the largest suffix that leaves a whole number; what is no quantity
    counts as 0."""
    terms = list(values)
    total = sum((parse_quantity(term) or Decimal(0) for term in terms), Decimal(0))
    whole = total.to_integral_value()
    if not total:
        return "0"
    if str(terms[0])[-1:] == "i" and total == whole:
        for suffix, power in reversed(_BINARY.items()):
            if int(total) % 1024**power == 0:
                return f"{total / Decimal(1024) ** power:f}{suffix}"
        return f"{whole:f}"
    for suffix, power in reversed(_DECIMAL.items()):
        scaled = total.scaleb(-power)
        if scaled == scaled.to_integral_value():
            return f"{scaled.to_integral_value():f}{suffix}"
    return f"{total:f}"
