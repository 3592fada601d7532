"""The keys of a short file, each with its type, default and limits. The JSON Schema is made from
these models.

Keys, defaults and limits of MindCluster's one-command deployer are kept where it has them. Must not
know objects."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from scaler.rules.limits import MAX_INSTANCES, MAX_PODS
from scaler.tools.common.short_file.source import Scalar

MAX_NPUS = 16
"""The most that any node has."""
MAX_REPLICAS = 64
"""Limit of OME components, as in the deployer."""
MAX_PODS_OF_INSTANCE = 128
"""Pods of an instance, as in the deployer."""
MAX_PARALLEL = 4096

_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_PREFIX = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]{0,252}")
_QUANTITY = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?(?:m|k|[KMGTPE]i?)?")
_PATH = re.compile(r"/[^:\s]{0,4000}")


# Texts


def _text(value: Any) -> Any:
    """A text; also a number or truth value as the deployer writes it, if its meaning is certain."""
    if value is None:
        raise ValueError('has no value|write "" for an empty text')
    if not isinstance(value, Scalar):
        return value
    if str(value.meaning).lower() != value.lower():
        meant = str(value.meaning)[:60]
        raise ValueError(f"YAML reads {value[:60]} as {meant}|write it in quotes")
    return str(value.meaning)


def _number(value: Any) -> Any:
    if isinstance(value, str) and len(value) < 10 and re.fullmatch(r"[+-]?[0-9]+", value):
        if isinstance(value, Scalar) and value.meaning != int(value):
            raise ValueError(
                f"YAML reads {value} as {value.meaning}|write it without the 0 in front"
            )
        return int(value)
    raise ValueError(f"a whole number is needed here, found {_short(value)}")


def _short(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value[:60]}"' if not isinstance(value, Scalar) else value[:60]
    if isinstance(value, list):
        return "a list"
    return "keys and values" if isinstance(value, dict) else "nothing"


def _flag(value: Any) -> Any:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError(f'"true" or "false" is needed here, found {_short(value)}')


def _name(value: Any) -> Any:
    value = _text(value)
    if isinstance(value, str) and not _NAME.fullmatch(value):
        how = (
            "write lower-case letters, digits and '-', at most 63, the first a letter, the last"
            " no '-'"
        )
        raise ValueError(f"Kubernetes refuses the name {_short(value)}|{how}")
    return value


def _plain(value: Any) -> Any:
    """A required text on one line."""
    value = _text(value)
    if isinstance(value, str) and (
        not value.strip() or len(value) > 4096 or not value.isprintable()
    ):
        raise ValueError(f"a text of one line is needed here, found {_short(value)}")
    return value


def _image(value: Any) -> Any:
    value = _plain(value)
    if isinstance(value, str) and (
        re.search(r"\s", value) or value.startswith((":", "@", "/")) or value.endswith(":")
    ):
        raise ValueError(f"{_short(value)} is no container image|write name:tag")
    return value


def _tagged(value: Any) -> Any:
    value = _image(value)
    # before it a registry's port
    if isinstance(value, str) and not re.search(r"[:@]", value.rpartition("/")[2]):
        raise ValueError(f"{_short(value)} has no tag|write {value[:60]}:TAG")
    return value


def _path(value: Any) -> Any:
    value = _plain(value)
    if isinstance(value, str) and (not _PATH.fullmatch(value) or ".." in value.split("/")):
        raise ValueError(f"{_short(value)} is no absolute path")
    return value


def _quantity(value: Any) -> Any:
    value = _text(value)
    if isinstance(value, str) and not _QUANTITY.fullmatch(value):
        raise ValueError(
            f"{_short(value)} is no quantity of Kubernetes|write 500m, 2, 128Mi or the like"
        )
    return value


def _key(value: Any) -> Any:
    """The name of a label or annotation."""
    prefix, slash, name = str(value).rpartition("/")
    if not (name and _LABEL.fullmatch(name)) or (slash and not _PREFIX.fullmatch(prefix)):
        raise ValueError("Kubernetes refuses this name of a label or annotation")
    return value


def label_value(value: Any) -> Any:
    """The value of a label."""
    value = _text(value)
    if isinstance(value, str) and not _LABEL.fullmatch(value):
        how = "write at most 63 letters, digits, '-', '_' or '.', a letter or digit at both ends"
        raise ValueError(f"{_short(value)} cannot be the value of a label|{how}")
    return value


def _annotation(value: Any) -> Any:
    value = _text(value)
    if isinstance(value, str) and len(value) > 65_536:
        raise ValueError("more than 65,536 characters")
    return value


def _variable(value: Any) -> Any:
    if not _VARIABLE.fullmatch(str(value)):
        raise ValueError("Kubernetes refuses this name of an environment variable")
    return value


_ANY_SCALAR = {"type": ["string", "number", "boolean"]}

Name = Annotated[
    str, BeforeValidator(_name), WithJsonSchema({"type": "string", "pattern": "^[a-z][a-z0-9-]*$"})
]
Text = Annotated[str, BeforeValidator(_plain), WithJsonSchema({"type": "string", "minLength": 1})]
LabelText = Annotated[
    str, BeforeValidator(label_value), WithJsonSchema({"type": "string", "maxLength": 63})
]
Image = Annotated[str, BeforeValidator(_image), WithJsonSchema({"type": "string", "minLength": 1})]
TaggedImage = Annotated[
    str, BeforeValidator(_tagged), WithJsonSchema({"type": "string", "pattern": ":"})
]
HostPath = Annotated[
    str, BeforeValidator(_path), WithJsonSchema({"type": "string", "pattern": "^/"})
]
Quantity = Annotated[
    str, BeforeValidator(_quantity), WithJsonSchema({"type": ["string", "number"]})
]
Flag = Annotated[
    bool, BeforeValidator(_flag), WithJsonSchema({"enum": ["true", "false", True, False]})
]
Labels = dict[
    Annotated[str, BeforeValidator(_key)],
    Annotated[str, BeforeValidator(label_value), WithJsonSchema(_ANY_SCALAR)],
]
Annotations = dict[
    Annotated[str, BeforeValidator(_key)],
    Annotated[str, BeforeValidator(_annotation), WithJsonSchema(_ANY_SCALAR)],
]
Variables = dict[
    Annotated[str, BeforeValidator(_variable)],
    Annotated[str, BeforeValidator(_annotation), WithJsonSchema(_ANY_SCALAR)],
]


Number = Annotated[int, BeforeValidator(_number)]
"""A whole number; digits in quotes are one as well."""


_RATIO = {
    "anyOf": [
        {"type": "string", "pattern": "^[0-9]+[pP][0-9]+[dD]$"},
        {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        {"type": "integer", "minimum": 0},
    ]
}
Ratio = Annotated[Any, WithJsonSchema(_RATIO)]


class Model(BaseModel):
    """A section. A key without a value is as good as none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        found = {}
        for key, value in data.items():
            if value is not None:
                found[key] = value
        return found


# OME


class Component(Model):
    """`engine` or `decoder` of OME."""

    min_replicas: Number = Field(1, ge=1, le=MAX_REPLICAS, description="Instances.")
    max_replicas: Number | None = Field(
        None, ge=1, le=MAX_REPLICAS, description="Default: as min_replicas."
    )
    pod_num: Number = Field(
        1,
        ge=1,
        le=MAX_PODS_OF_INSTANCE,
        description="Pods of an instance; above 1: a leader and workers.",
    )
    image: TaggedImage | None = Field(None, description="Default: what the runtime says.")
    npu_num: Number = Field(8, ge=0, le=MAX_NPUS, description="NPUs of a pod.")
    dp_size: Number = Field(1, ge=1, le=MAX_PARALLEL, description="Data parallel.")
    tp_size: Number = Field(1, ge=1, le=MAX_PARALLEL, description="Tensor parallel.")
    pp_size: Number = Field(1, ge=1, le=MAX_PARALLEL, description="Pipeline parallel.")
    labels: Labels = Field({}, description="Of the pods.")
    annotations: Annotations = Field({}, description="Of the pods.")
    node_selector: Labels = Field({}, description="Labels that a node must have.")
    env_vars: Variables = Field({}, description="Environment variables.")


class Router(Model):
    """`router` of OME."""

    min_replicas: Number = Field(1, ge=1, le=MAX_INSTANCES, description="Pods.")
    max_replicas: Number | None = Field(
        None, ge=1, le=MAX_INSTANCES, description="Default: as min_replicas."
    )
    image: Image | None = Field(None, description="Default: what the runtime says.")
    labels: Labels = Field({}, description="Of the pods.")
    annotations: Annotations = Field({}, description="Of the pods.")
    node_selector: Labels = Field({}, description="Labels that a node must have.")
    env_vars: Variables = Field({}, description="Environment variables.")


class InferenceService(Model):
    """A service for OME."""

    model_name: Text = Field(description="Name of the model in OME.")
    runtime_name: Text | None = Field(None, description="Default: OME looks for one by the model.")
    engine: Component = Field(description="Prefill instances; without a decoder all instances.")
    decoder: Component | None = Field(None, description="Decode instances.")
    router: Router | None = Field(None, description="What sends requests to both.")

    @model_validator(mode="before")
    @classmethod
    def _router(cls, data: Any) -> Any:
        """`router:` without anything below it is a router all the same."""
        return (
            {**data, "router": {}}
            if isinstance(data, dict) and data.get("router", 0) is None
            else data
        )


class Amounts(Model):
    """Memory and processors."""

    memory: Quantity | None = None
    cpu: Quantity | None = None


class Resources(Model):
    """Requests and limits."""

    requests: Amounts = Amounts()
    limits: Amounts = Amounts()


class Probe(Model):
    """An HTTP probe."""

    path: HostPath | None = None
    port: Number | None = Field(None, ge=1, le=65_535, description="Default: container_port.")
    initial_delay_seconds: Number | None = Field(None, ge=0, le=86_400)
    period_seconds: Number | None = Field(None, ge=1, le=86_400)
    failure_threshold: Number | None = Field(None, ge=1, le=10_000)


class MfStore(Model):
    """The MemFabric store that an OME service with a decoder needs."""

    image: Image = Field(description="With memfabric_hybrid above 1.0.7.")
    replicas: Number = Field(1, ge=1, le=MAX_REPLICAS, description="The store works with 1.")
    container_port: Number = Field(9000, ge=1, le=65_535, description="Where it listens.")
    env_vars: Variables = Field({}, description="Environment variables.")
    node_selector: Labels = Field({}, description="Labels that a node must have.")
    resources: Resources | None = Field(None, description="Requests and limits.")
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None


# AIBrix


class Role(Model):
    """`prefill` or `decode` of AIBrix."""

    replicas: Number = Field(1, ge=1, le=1_024, description="Instances.")
    pod_group_size: Number = Field(
        1, ge=1, le=MAX_PODS, alias="podGroupSize", description="Pods of an instance."
    )
    dp_size: Number = Field(1, ge=1, le=MAX_PARALLEL, description="Data parallel.")
    tp_size: Number = Field(1, ge=1, le=MAX_PARALLEL, description="Tensor parallel.")
    npu_num: Number = Field(1, ge=0, le=MAX_NPUS, description="NPUs of a pod.")
    image: Image
    labels: Labels = Field({}, description="Of the pods.")
    annotations: Annotations = Field({}, description="Of the pods.")
    node_selector: Labels = Field(
        {}, alias="nodeSelector", description="Labels that a node must have."
    )


class Routing(Model):
    """`routing` of AIBrix."""

    replicas: Number = Field(1, ge=1, le=1_024, description="Pods.")
    image: Image
    labels: Labels = Field({}, description="Of the pods.")
    annotations: Annotations = Field({}, description="Of the pods.")
    node_selector: Labels = Field(
        {}, alias="nodeSelector", description="Labels that a node must have."
    )


class StormService(Model):
    """A service for AIBrix."""

    model_name: LabelText = Field(description="Also the value of a label.")
    model_path: HostPath = Field(description="Where the weights are.")
    distributed_dp: Flag | None = Field(
        None, description='Default: "true", each data parallel rank has a port.'
    )
    models_mount: HostPath = Field(
        "/mnt/models", description="The folder of the nodes that pods mount, at the same place."
    )
    scripts_mount: HostPath = Field(
        "/scripts",
        description="The folder of the nodes with start_server.sh and start_proxy.sh, mounted at"
        " the same place.",
    )
    prefill: Role
    decode: Role
    routing: Routing | None = None


# MindIE Motor


class Servers(Model):
    """`prefill` or `decode` of MindIE Motor."""

    replicas: Number = Field(1, ge=1, le=1_024, description="Instances: one AscendJob each.")
    pod_num: Number = Field(1, ge=1, le=MAX_PODS, description="Pods of an instance.")
    npu_num: Number | None = Field(
        None, ge=1, le=MAX_NPUS, description="NPUs of a pod. Default: all of a node."
    )
    labels: Labels = Field({}, description="Of the AscendJobs.")
    annotations: Annotations = Field({}, description="Of the AscendJobs.")
    node_selector: Labels = Field(
        {}, description="Labels that a node must have besides the usual ones."
    )
    env_vars: Variables = Field({}, description="Environment variables.")


class MotorService(Model):
    """A service of MindIE Motor."""

    image: Image = Field(description="Of every pod.")
    hardware: Literal["800I_A2", "800I_A3"] = Field("800I_A2", description="What the nodes are.")
    model_path: HostPath = Field(description="The folder of the weights on the nodes.")
    log_path: HostPath = Field(
        "/root/log/ascend_log", description="The folder for logs on the nodes."
    )
    node_port: Number = Field(
        31_015, ge=1, le=65_535, description="Where every node takes requests."
    )
    prefill: Servers
    decode: Servers


class File(Model):
    """A short file that describes a service, for `scaler deploy`."""

    app_name: Name = Field(
        description="Name of the service; what it consists of is named after it."
    )
    app_namespace: Name = Field("default", description="Namespace.")
    platform: Literal["ome", "aibrix", "mindie-motor"] | None = Field(
        None, description="Default: told by the section that is there."
    )
    inference_service: InferenceService | None = Field(None, description="platform: ome")
    storm_service: StormService | None = Field(None, description="platform: aibrix")
    motor_service: MotorService | None = Field(None, description="platform: mindie-motor")
    mf_store: MfStore | None = Field(None, description="For OME with a decoder.")
    ratios: list[Ratio] | None = Field(
        None, min_length=1, description="What may run, largest first: makes it elastic."
    )


def json_schema() -> dict[str, Any]:
    """The JSON Schema of short files, for editors: `scaler schema service`."""
    schema = _with_digits(File.model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "scaler service",
    }


def _with_digits(schema: Any) -> Any:
    """Where a whole number belongs, digits in quotes are right as well."""
    if isinstance(schema, list):
        return [_with_digits(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") != "integer":
        return {key: _with_digits(one) for key, one in schema.items()}
    number = {}
    for key in ("type", "minimum", "maximum"):
        if key in schema:
            number[key] = schema[key]
    rest = {}
    for key, one in schema.items():
        if key not in number:
            rest[key] = one
    return {"anyOf": [number, {"type": "string", "pattern": "^[0-9]+$"}], **rest}
