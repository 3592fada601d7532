"""The rule document as a pydantic model: `scaler schema` makes a JSON schema of it, and
`rules.shape` findings.

It takes 0.1 s to import, so it is loaded only for a document that is not as it should be
(`shape.has_the_shape`)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from scaler.rules.limits import MAX_GROUPS, MAX_RATIOS
from scaler.rules.shape import LABEL_VALUE, NUMBER, POSITIVE_NUMBER


class _Part(BaseModel):
    """A part of the document: nothing is converted, and no other member means anything."""

    model_config = ConfigDict(strict=True, extra="forbid", regex_engine="python-re", frozen=True)


class Group(_Part):
    """The number of instances of one group in a ratio, and the number of pods of each."""

    group_name: str = Field(
        pattern=LABEL_VALUE, description="Value of the jobs' label mind-cluster/group-name"
    )
    group_num: str = Field(
        pattern=NUMBER, description="Instances of this group, decimal digits in quotes"
    )
    server_num_per_group: str = Field(
        pattern=POSITIVE_NUMBER,
        description="Pods per instance (Master + Worker); the same in every ratio",
    )


class RatioEntry(_Part):
    """One ratio at which the service may run."""

    group_list: list[Group] = Field(
        min_length=1, max_length=MAX_GROUPS, description="Prefill first, then decode"
    )
    server_count: Any = Field(
        default=None, description="Written by the MindIE deployer; not needed"
    )


class RuleDocument(_Part):
    """Which ratios of prefill and decode instances a service may run at, largest first."""

    model_config = ConfigDict(title="Elastic scaling rule (elastic_scaling.json)")

    version: str = Field(default="1.0", description='"1.0"')
    status: Any = Field(default=None, description="Written by the MindIE deployer; not needed")
    elastic_scaling_list: list[RatioEntry] = Field(
        min_length=1,
        max_length=MAX_RATIOS,
        description="Largest ratio first; the last is the smallest to serve at",
    )


def shape_errors(value: object) -> list[ErrorDetails]:
    """Pydantic's findings on a decoded document: `type`, `loc`, `input`; of unknown members the
    type is `UNKNOWN`."""
    try:
        RuleDocument.model_validate(value)
    except ValidationError as refused:
        return refused.errors(include_url=False, include_context=False)
    return []
