"""`-o` of every command: one flag, the same names of formats, the same JSON and YAML."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
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


def written(value: Any, output: str) -> str:
    """A value of msgspec as `json` or `yaml`, for programs."""
    import msgspec  # noqa: PLC0415 - --help stays fast

    return converted(msgspec.json.format(msgspec.json.encode(value)).decode() + "\n", output)


def converted(text: str, output: str) -> str:
    """JSON unchanged, or as the same YAML."""
    if output == "json":
        return text
    import yaml  # noqa: PLC0415 - only for this format

    made: str = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True, width=120)
    return made
