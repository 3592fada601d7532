"""`-o` of every command: one flag, the same names of formats, the same JSON and YAML."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str], default: str) -> None:
    """`-o FORMAT`, kept as `args.output`; `--format` is its old name."""
    parser.add_argument(
        "-o", "--output", "--format", dest="output", choices=tuple(formats), default=default, metavar="FORMAT",
        help=f"{', '.join(formats)}; default: {default}",
    )  # fmt: skip


def written(value: Any, output: str) -> str:
    """A value of msgspec as `json` or `yaml`, for programs."""
    import msgspec  # noqa: PLC0415 - --help stays fast

    if output == "json":
        return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"
    import yaml  # noqa: PLC0415

    made: str = yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True, width=120)
    return made
