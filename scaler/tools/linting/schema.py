"""The JSON Schema of the rule document, for editors and other tools."""

from __future__ import annotations

from typing import Any

from scaler.rules.shape import RuleDocument


def json_schema() -> dict[str, Any]:
    """Draft 2020-12. Unknown members are findings of lint, but only warnings: no editor should refuse them."""
    schema = RuleDocument.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        del part["additionalProperties"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
