"""`scaler schema`: prints a JSON Schema, for editors and for the check that the checked-in copies
are current."""

from __future__ import annotations

import argparse
import importlib
import json
import sys

HELP = """Print the JSON Schema of a document.

The schemas (draft 2020-12) are for editors and other tools.

  scaler schema rule > elastic_scaling.schema.json

Exit code: 0 printed, 2 usage."""


SOURCES = {
    "rule": "scaler.tools.lint.document",
    "scenario": "scaler.sim.stories.scenario",
    "service": "scaler.tools.common.short_file.config",
}
"""Document -> the module whose `json_schema()` describes it."""


DOCUMENTS = (
    "rule: the JSON under the ConfigMap key elastic_scaling.json; scenario: a file for scaler"
    " simulate; service: a short file for scaler deploy"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", choices=SOURCES, help=DOCUMENTS)


def run(args: argparse.Namespace) -> int:
    """Print on standard output."""
    schema = importlib.import_module(SOURCES[args.document]).json_schema()
    sys.stdout.write(json.dumps(schema, indent=2) + "\n")
    return 0
