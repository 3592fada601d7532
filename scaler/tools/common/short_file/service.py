"""A short file about a service, and the Kubernetes objects made from it. Text in, objects out.

Must not: talk to a cluster or read files. The same text always gives the same objects."""

from __future__ import annotations

from typing import Any, NamedTuple

from scaler.kube.api import Object
from scaler.rules.finding import Finding, Path
from scaler.tools.common.short_file import aibrix, motor, ome
from scaler.tools.common.short_file.config import File
from scaler.tools.common.short_file.elastic import elastic_of
from scaler.tools.common.short_file.sections import PLATFORMS, SECTIONS
from scaler.tools.common.short_file.source import ConfigError, Source, mistake, read_source

__all__ = ["ConfigError", "Service", "read_service"]

_MAKERS: dict[str, Any] = {"ome": ome, "aibrix": aibrix, "mindie-motor": motor}
"""Modules with `groups`, `faults` and `objects`."""


class Service(NamedTuple):
    """A service with its objects."""

    name: str
    namespace: str
    platform: str
    """`ome`, `aibrix` or `mindie-motor`."""
    objects: tuple[Object, ...]
    """In the order of their writes, each with apiVersion, kind, metadata.name and its namespace, if
    any."""


def read_service(text: str | bytes, *, framework: str | None = None) -> Service:
    """The service of a file. Raises ConfigError with every mistake and its place.

    `framework`: the value of the deployer's variable SERVING_FRAMEWORK; None: the file decides."""
    source = read_source(text)
    platform = _platform(source, framework)
    file = source.validated(File, without={*SECTIONS.values()} - {SECTIONS[platform]})
    if getattr(file, SECTIONS[platform]) is None:
        who = ", which SERVING_FRAMEWORK says," if platform == framework else ""
        source.refuse(
            mistake((), f"{SECTIONS[platform]} is missing", f"{platform}{who} needs this section")
        )
    maker = _MAKERS[platform]
    own = motor.RULE if platform == "mindie-motor" else f"{file.app_name}-rule"
    elastic, faults = elastic_of(file, maker.groups(file), own)
    source.refuse(*faults, *maker.faults(file, elastic))
    objects = (*([elastic.config_map] if elastic else []), *maker.objects(file, elastic))
    source.refuse(*_refused_names(objects))
    return Service(file.app_name, file.app_namespace, platform, objects)


def _platform(source: Source, framework: str | None) -> str:
    """The platform given by the caller, by the file, or by the section that the file has."""
    written = source.text_at("platform")
    for path, name in ((("platform",), written), ((), framework)):
        if name is not None and name not in PLATFORMS:
            said = "" if path else ", which SERVING_FRAMEWORK says,"
            how = f"write one of {', '.join(PLATFORMS)}"
            source.refuse(mistake(path, f"platform {name!r}{said} is not known", how))
    if framework and written and framework != written:
        source.refuse(
            mistake(
                ("platform",),
                f"{written} is not {framework}, which SERVING_FRAMEWORK says",
                "unset it",
            )
        )
    present = []
    for platform, section in SECTIONS.items():
        if section in source.keys:
            present.append(platform)
    if not (framework or written or present):
        source.validated(File, without=())  # a misspelt section name is reported as such
        hint = "add one of " + ", ".join(SECTIONS.values())
        source.refuse(mistake((), "no section says what to deploy", hint))
    if not (framework or written) and len(present) > 1:
        source.refuse(
            mistake(
                (), f"this describes a service for {' and for '.join(present)}", "add platform: ..."
            )
        )
    return framework or written or present[0]


def _refused_names(objects: tuple[Object, ...]) -> list[Finding]:
    """Faults of names that become too long with their suffix."""
    path: Path = ("app_name",)
    long = []
    for obj in objects:
        if len(name := obj["metadata"]["name"]) > _most(obj["kind"]):
            long.append(name)
    if not long:
        return []
    words = f"it makes the name {long[0]}, of {len(long[0])} characters"
    return [mistake(path, words, "shorten it")]


def _most(kind: str) -> int:
    return 63 if kind == "Service" else 253
