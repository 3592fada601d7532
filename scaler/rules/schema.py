"""The shape of the rule document as a pydantic model: what is checked, and what `scaler schema` tells editors.

Only shape: how ratios must follow from each other is said in rules.check. Imported when a document is read, not
before: loading pydantic takes longer than reading a thousand rules.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from scaler.rules.limits import MAX_GROUPS, MAX_INSTANCES, MAX_NAME, MAX_PODS, MAX_RATIOS


def _up_to(most: int) -> str:
    """A pattern of decimal numbers from 1 to `most`, a power of ten."""
    return rf"[1-9][0-9]{{0,{len(str(most)) - 2}}}|{most}"


# "$" alone would let a line feed pass in some regular expression engines, so each pattern refuses it itself.
NUMBER = rf"^(?:0|{_up_to(MAX_INSTANCES)})$(?!\n)"
POSITIVE_NUMBER = rf"^(?:{_up_to(MAX_PODS)})$(?!\n)"
LABEL_VALUE = rf"^[A-Za-z0-9](?:[A-Za-z0-9_.-]{{0,{MAX_NAME - 2}}}[A-Za-z0-9])?$(?!\n)"
UNKNOWN = "extra_forbidden"

_CONFIG = ConfigDict(strict=True, extra="forbid", regex_engine="python-re", frozen=True)


class Group(BaseModel):
    """How many instances of one group a ratio wants, and of how many pods each."""

    model_config = _CONFIG

    group_name: Annotated[
        str, Field(pattern=LABEL_VALUE, description="Value of the jobs' label mind-cluster/group-name")
    ]
    group_num: Annotated[str, Field(pattern=NUMBER, description="Instances of this group, decimal digits in quotes")]
    server_num_per_group: Annotated[
        str, Field(pattern=POSITIVE_NUMBER, description="Pods per instance (Master + Worker); the same in every ratio")
    ]


class RatioEntry(BaseModel):
    """One ratio at which the service may run."""

    model_config = _CONFIG

    group_list: Annotated[
        list[Group], Field(min_length=1, max_length=MAX_GROUPS, description="Prefill first, then decode")
    ]
    server_count: Annotated[Any, Field(default=None, description="Written by the MindIE deployer; not needed")]


class RuleDocument(BaseModel):
    """Which ratios of prefill and decode instances a service may run at, largest first."""

    model_config = ConfigDict(title="Elastic scaling rule (elastic_scaling.json)", **_CONFIG)

    version: Annotated[str, Field(default="1.0", description='"1.0"')]
    status: Annotated[Any, Field(default=None, description="Written by the MindIE deployer; not needed")]
    elastic_scaling_list: Annotated[
        list[RatioEntry],
        Field(
            min_length=1, max_length=MAX_RATIOS, description="Largest ratio first; the last is the smallest to serve at"
        ),
    ]


def shape_errors(value: object) -> list[ErrorDetails]:
    """Pydantic's findings on a decoded document: `type`, `loc`, `input`; of unknown members the type is `UNKNOWN`."""
    try:
        RuleDocument.model_validate(value)
    except ValidationError as refused:
        return refused.errors(include_url=False, include_context=False)
    return []
