"""`-o` of every command: one flag, the same names of formats, the same JSON and YAML.
Names of members are camelCase."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scaler.tools.common.usage import add_renamed

TEXT = ("text", "json", "yaml")


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = TEXT) -> None:
    """`-o FORMAT`, kept as `args.format`; the first one is the default."""
    parser.add_argument(
        "-o",
        "--output",
        dest="format",
        choices=tuple(formats),
        default=formats[0],
        metavar="FORMAT",
        help=f"{', '.join(formats)}; default: {formats[0]}",
    )
    add_renamed(parser, "--format", now="-o")


class Members(dict[str, Any]):
    """A mapping of which the keys are names of members, as those of a struct. Keys of any other
    mapping are data, such as groups."""


def written(value: Any, output: str) -> str:
    """A value of msgspec as `json` or `yaml`, for programs."""
    import msgspec  # noqa: PLC0415 - --help stays fast

    encoded = msgspec.json.encode(for_programs(value))
    return converted(msgspec.json.format(encoded).decode() + "\n", output)


def in_one_line(value: Any) -> str:
    """The same as JSON on one line."""
    import msgspec  # noqa: PLC0415 - --help stays fast

    return msgspec.json.encode(for_programs(value)).decode() + "\n"


def for_programs(value: Any) -> Any:
    """A value of msgspec with the names of its members in camelCase, as Kubernetes writes them. A
    member that was written in snake_case until v0.2.0 has this name beside."""
    import msgspec  # noqa: PLC0415 - --help stays fast

    if isinstance(value, msgspec.Struct):
        return _named(_members(value))
    if isinstance(value, Members):
        return _named(value.items())
    if isinstance(value, Mapping):
        return {key: for_programs(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [for_programs(one) for one in value]
    return value


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """Name and value of each member that is written."""
    import msgspec  # noqa: PLC0415 - --help stays fast

    config = value.__struct_config__
    if config.tag is not None:
        yield config.tag_field, config.tag
    written_ones = msgspec.to_builtins(value) if config.omit_defaults else None
    for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        found = getattr(value, field)
        if found is not msgspec.UNSET and (written_ones is None or name in written_ones):
            yield name, found


def _named(members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found = {}
    for name, one in members:
        written_as = for_programs(one)
        found[in_camel_case(name)] = written_as
        found[name] = written_as
    return found


def in_camel_case(name: str) -> str:
    """`in_flight` is `inFlight`, and `job_id` is `jobID` as in the status of a service."""
    first, *others = name.split("_")
    return first + "".join("ID" if one == "id" else one.capitalize() for one in others)


def converted(text: str, output: str) -> str:
    """JSON unchanged, or as the same YAML."""
    if output == "json":
        return text
    import yaml  # noqa: PLC0415 - only for this format

    made: str = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True, width=120)
    return made
