"""Small parts that objects of every platform have."""

from __future__ import annotations

from typing import Any, TypeVar

from scaler.kube.api import Object

NPU_RESOURCE = "huawei.com/Ascend910"
T = TypeVar("T")


def part(section: T | None) -> T:
    """A section that read_service has seen."""
    if section is None:
        raise AssertionError("read_service asks for it")
    return section


def given(**fields: Any) -> Object:
    """The fields that have something in them."""
    return {name: value for name, value in fields.items() if value not in (None, {}, [])}


def replaced(own: dict[str, str], users: dict[str, str]) -> list[Object]:
    """Environment variables: ours, those of the same name with the user's value, and behind them the user's."""
    return [{"name": name, "value": value} for name, value in {**own, **users}.items()]


def npus(count: int) -> Object:
    """Requests and limits of a container with so many NPUs."""
    return {"requests": {NPU_RESOURCE: count}, "limits": {NPU_RESOURCE: count}}
