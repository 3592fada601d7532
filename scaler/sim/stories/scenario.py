"""A scenario: nodes, manifests, timed events and what is expected of them. The model behind the
YAML files.

schemas/scenario.schema.json is generated from this model (`scaler schema scenario`).
Must not: run anything (scaler.sim.stories.play) or touch the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from scaler.settings import Settings
from scaler.sim.actors.faulty_api import Curse
from scaler.sim.actors.nodes import KubeletTimings, NodeFate
from scaler.sim.stories.fields import Counts, File, Model, Name, Seconds
from scaler.sim.stories.loads import Load

_A3_CHIPS = 16


class SuperPods(Model):
    """Super-pods of equal nodes (Atlas A3 SuperPoD)."""

    count: int = Field(ge=1, le=1_000, description="How many super-pods.")
    nodes: int = Field(ge=1, le=1_000, description="Nodes in each of them.")
    first: int = Field(0, ge=0, description="Number of the first super-pod.")


class NodeGroup(Model):
    """A number of equal nodes, or super-pods of them."""

    name: Name = Field(
        "node-{}", description="Name pattern; {} is replaced by the number of the node."
    )
    count: int = Field(1, ge=1, le=10_000)
    super_pods: SuperPods | None = Field(
        None,
        description=(
            "Instead of count: the nodes are those of super-pods, in order, with 16 NPUs each"
            " unless npu says otherwise."
        ),
    )
    device_data: bool | None = Field(
        None,
        description=(
            "Whether MindCluster's device plugin reports the chips of the nodes, so that its"
            " scheduler decides by them. Default: with super_pods only. Where one group has it,"
            " nodes without take no NPU pods."
        ),
    )
    first: int = Field(0, ge=0, description="Number of the first node.")
    npu: int = Field(8, ge=0, le=1024, description="NPUs per node; 0 = a node for CPU pods.")
    npu_resource: str = "huawei.com/Ascend910"
    labels: dict[str, str] = Field({})
    cpu: int = Field(192, ge=0)
    memory: str = Field("2Ti", description="A Kubernetes quantity.")
    pods: int = Field(110, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _whole_nodes(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("super_pods") is not None:
            if "count" in data:
                raise ValueError("give either count or super_pods")
            return {"npu": _A3_CHIPS, **data}
        return data

    @model_validator(mode="after")
    def _distinct(self) -> NodeGroup:
        if self.number > 1 and "{}" not in self.name:
            raise ValueError("several nodes need {} in their name, for example node-{}")
        return self

    @property
    def number(self) -> int:
        """How many nodes."""
        return self.super_pods.count * self.super_pods.nodes if self.super_pods else self.count

    @property
    def reported(self) -> bool:
        """Whether its nodes carry device data."""
        stated = self.device_data
        return stated if stated is not None else self.super_pods is not None

    def super_pod_of(self, index: int) -> int | None:
        """The super-pod of the node with this place in the group, if they are in super-pods."""
        if self.super_pods is None:
            return None
        return self.super_pods.first + index // self.super_pods.nodes


class HyperNode(Model):
    """A HyperNode of Volcano."""

    name: Name
    tier: int = Field(1, ge=0, le=1_000, description="The lower, the faster is its network.")
    nodes: str = Field("", description="A pattern for the names of its nodes.")
    members: list[Name] = Field([], description="Names of HyperNodes in it.")


class Copies(Model):
    """Many services from the manifests of one: each copy in a namespace of its own."""

    manifests: list[File] = Field(
        min_length=1, description="Files and folders, applied in this order."
    )
    namespace: Name = Field(
        "copy-{}", description="Name pattern; {} is replaced by the number of the copy."
    )
    count: int = Field(1, ge=1, le=1000)
    first: int = Field(0, ge=0, description="Number of the first copy.")
    at: Seconds = Field(0.0, description="When the first is applied.")
    every: Seconds = Field(0.0, description="Time from one copy to the next.")
    lasting: Seconds | None = Field(None, description="Each is deleted again after this long.")
    replace: dict[str, str] = Field(
        {}, description="Texts to replace in the manifests; each must be in one of them."
    )

    @model_validator(mode="after")
    def _distinct(self) -> Copies:
        if self.count > 1 and "{}" not in self.namespace:
            raise ValueError("several copies need {} in their namespace, for example copy-{}")
        return self

    def arrivals(self) -> Iterator[tuple[float, str]]:
        """(time, namespace) of each copy; numbers are padded with zeros, so that names sort like
        numbers."""
        last = self.first + self.count - 1
        for number in range(self.count):
            digits = str(self.first + number).zfill(len(str(last)))
            yield self.at + number * self.every, self.namespace.replace("{}", digits)


class Timing(KubeletTimings):
    """How long the stand-ins take. A pair is the least and the most; each pod draws its own from
    the seed."""

    schedule_period: Seconds = Field(1.0, description="Least time between two scheduler sessions.")
    fault_detection: Seconds | None = Field(
        None,
        description=(
            "From a fault to the deletion of the pods. Default: 1.5 where nodes carry device data,"
            " as with the real plugin, else 5."
        ),
    )
    mindie_patience: Seconds = Field(
        60.0,
        description=(
            "How long a decode instance may lack nodes before a surplus prefill instance exits."
        ),
    )
    eviction: Seconds = Field(
        300.0, description="Time on a node that is not Ready before other pods are evicted."
    )


class ObjectRef(Model):
    kind: Literal[
        "AscendJob",
        "ConfigMap",
        "Pod",
        "PodGroup",
        "Service",
        "Node",
        "Namespace",
        "Deployment",
        "StatefulSet",
        "LeaderWorkerSet",
        "StormService",
        "InferServiceSet",
        "Job",
    ] = Field(description="Job is a Volcano Job.")
    name: Name
    namespace: Name = "default"


class OnNodes(Model):
    """Something happens to nodes, given by name or by the instance that runs on them."""

    names: list[Name] = Field([], description="Node names.")
    of_job: str = Field(
        "", description="Instead of names: `namespace/job`, the nodes that its pods are bound to."
    )
    at_most: int = Field(1000, ge=1, description="With of_job: so many of its nodes, by name.")

    @model_validator(mode="after")
    def _named(self) -> Self:
        every = (
            getattr(self, "becomes", None) is NodeFate.READY and not self.names and not self.of_job
        )
        if bool(self.names) == bool(self.of_job) and not every:
            raise ValueError("say which nodes: either names or of_job")
        return self


class NodeEvent(OnNodes):
    """Something happens to nodes, given by name or by the instance that runs on them."""

    becomes: NodeFate
    names: list[Name] = Field([], description="Node names; empty with `ready` means every node.")


class FaultEvent(OnNodes):
    """MindCluster reports a fault of chips, of their network, of whole nodes, or of their switches;
    or that it is over."""

    what: Literal["chip", "network", "node", "switch"]
    becomes: Literal["faulty", "healthy", "sub-healthy", "pre-separate"] = Field(
        "faulty",
        description=(
            "sub-healthy is for chips and switches; pre-separate is for nodes: what runs there goes"
            " on, and nothing new comes."
        ),
    )
    chips: list[Annotated[int, Field(ge=0, lt=1024)]] = Field(
        [0], description="With chip and network: their numbers on the node."
    )

    @model_validator(mode="after")
    def _possible(self) -> FaultEvent:
        fitting = {"sub-healthy": ("chip", "switch"), "pre-separate": ("node",)}
        if self.what not in fitting.get(self.becomes, (self.what,)):
            raise ValueError(f"{self.what} cannot become {self.becomes}")
        return self


class RuleEvent(Model):
    """Write the rule: the ConfigMap is created, or its document replaced."""

    namespace: Name
    name: Name
    text: str | None = Field(None, description="The new document.")
    file: File | None = Field(
        None, description="A file with the new document, relative to the scenario."
    )
    replace: dict[str, str] = Field(
        {}, description="Texts to replace in the document that is there."
    )

    @model_validator(mode="after")
    def _one(self) -> RuleEvent:
        if [self.text is not None, self.file is not None, bool(self.replace)].count(True) != 1:
            raise ValueError("give exactly one of text, file, replace")
        return self


class PatchEvent(Model):
    """A JSON merge patch, for labels, annotations or anything else. A patch of `status` alone
    writes the status, as a kubelet does; a name that ends in * means the newest object so named."""

    object: ObjectRef
    merge: dict[str, Any]


class ScaleEvent(Model):
    """As `kubectl scale esvc/... --replicas=...`, by a person or an autoscaler."""

    service: Name = Field(description="namespace/rule/jobID")
    replicas: int = Field(
        ge=0,
        le=1_000_000,
        description="Instances wanted in all; 1000000 is as many as there may be.",
    )


class PodExit(Model):
    """The first container of a pod exits."""

    namespace: Name
    pod: Name
    code: int = Field(1, ge=0, le=255)


ControllerEvent = Literal["stop", "start", "restart"]
SchedulerEvent = Literal["stopped", "running"]


class ApiFault(Model):
    """The controller's requests fail; the stand-ins' do not."""

    kind: Literal["errors", "watches-cut"]
    lasting: Seconds = 0.0
    share: float = Field(1.0, gt=0, le=1, description="Share of the requests that fail.")


_NOT_ACTIONS = ("at", "name", "note")


def _exactly_one(schema: dict[str, Any]) -> None:
    actions = [name for name in schema["properties"] if name not in _NOT_ACTIONS]
    schema["oneOf"] = [{"required": [name]} for name in actions]


class Event(Model):
    """One thing that happens at a time: exactly one of the actions."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_exactly_one)

    at: Seconds
    name: str = Field("", description="For `after:` in expectations.")
    note: str = Field("", description="Said in the timeline instead of the generated words.")
    node: NodeEvent | None = Field(None, description="Nodes fail, are cordoned, vanish or return.")
    apply: File | None = Field(None, description="A file or folder of manifests.")
    delete: ObjectRef | None = Field(None, description="One object.")
    delete_file: File | None = Field(None, description="What a file contains.")
    rule: RuleEvent | None = Field(None, description="Create or edit a rule.")
    patch: PatchEvent | None = Field(None, description="Change an object.")
    scale: ScaleEvent | None = Field(None, description="So many instances of a service are wanted.")
    pod_exit: PodExit | None = Field(None, description="A pod crashes.")
    fault: FaultEvent | None = Field(
        None, description="Chips, nodes or switches are reported as faulty."
    )
    controller: ControllerEvent | None = Field(
        None, description="The scaler itself dies or starts."
    )
    scheduler: SchedulerEvent | None = Field(
        None, description="The scheduler holds no more sessions, or goes on."
    )
    api_fault: ApiFault | None = Field(None, description="The API server fails the scaler.")
    mark: Name | None = Field(
        None, description="Nothing happens: words for the timeline, and a time for `after`."
    )

    @model_validator(mode="before")
    @classmethod
    def _one(cls, data: Any) -> Any:
        actions = [name for name in cls.model_fields if name not in _NOT_ACTIONS]
        fields = data if isinstance(data, dict) else {}
        given = [action for action in actions if fields.get(action) is not None]
        if len(given) != 1:
            raise ValueError(
                f"an event needs exactly one of {', '.join(actions)}; found"
                f" {', '.join(given) or 'none'}"
            )
        return data

    @property
    def action(self) -> str:
        """The name of the field that is set."""
        for name, value in self:
            if name not in _NOT_ACTIONS and value is not None:
                return name
        raise AssertionError("an event without an action is not valid")


_OVER_ALL = ("serving", "serving_at_least")
_OF_LOAD = ("lost_at_most", "queue_at_most")
_WHEN = ("at", "within", "never_for")


class Expectation(Model):
    """Conditions that must hold together: at a time, within a time, for good until the end, or
    never for long.

    Without at, within and never_for they must hold at the end."""

    at: Seconds | None = Field(None, description="They hold at this time.")
    within: Seconds | None = Field(
        None, description="They hold at some moment of this time, from `after` on."
    )
    never_for: Seconds | None = Field(
        None, description="They never hold for longer than this, from `after` on."
    )
    after: str = Field("", description="Name of an event; default is the start.")
    service: str = Field(
        "",
        description=(
            "namespace/rule/jobID; not needed while there is one service. With * in it: each"
            " service so named."
        ),
    )
    running: Counts | None = Field(None, description="Exactly so many instances of each group run.")
    running_at_least: Counts | None = Field(
        None, description="So many instances of each group run, or more."
    )
    target: Counts | None = Field(None, description="The ratio that the scaler works towards.")
    complete: bool | None = Field(None, description="The largest attainable ratio is reached.")
    reasons: dict[str, str] | None = Field(None, description="Job name -> its reason.")
    pods_deleted: int | None = Field(
        None, ge=0, description="So many pods of the service were deleted since `after`."
    )
    revocations_at_most: int | None = Field(
        None,
        ge=0,
        description=(
            "So many times at most, since `after`, did an instance lose pods that had no node."
        ),
    )
    evictions_at_most: int | None = Field(
        None,
        ge=0,
        description=(
            "So many pods at most that had a node, of each service, were deleted since `after`."
        ),
    )
    serving: int | None = Field(
        None,
        ge=0,
        description=(
            "So many services run their smallest ratio or more. About all services, so by itself."
        ),
    )
    serving_at_least: int | None = Field(None, ge=0, description="The same, or more of them.")
    lost_at_most: int | None = Field(
        None,
        ge=0,
        description=(
            "So many requests at most are lost from `after` to `at` or the end. Of a load, so by"
            " itself."
        ),
    )
    queue_at_most: int | None = Field(
        None, ge=0, description="So many requests at most wait in that time."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Expectation:
        no_condition = (*_WHEN, "after", "service")
        conditions = [key for key in type(self).model_fields if key not in no_condition]
        when = self._given(_WHEN)
        given = self._given(conditions)
        over_all = self._given(_OVER_ALL)
        if len(when) > 1:
            raise ValueError(f"give only one of {', '.join(when)}")
        if not given:
            raise ValueError(f"nothing is expected; give one of {', '.join(conditions)}")
        if over_all and (self.service or len(given) > 1):
            words = "is about all services: expect other things beside it in an entry of their own"
            raise ValueError(f"{over_all[0]} {words}")
        if self.of_load and (set(given) - {*_OF_LOAD} or set(when) - {"at"}):
            raise ValueError(
                f"{_OF_LOAD[0]} and {_OF_LOAD[1]} need an entry of their own, with `at` or without"
            )
        return self

    @property
    def of_load(self) -> bool:
        """Whether the expectation is about requests."""
        return bool(self._given(_OF_LOAD))

    @property
    def over_all(self) -> bool:
        """Whether the expectation is about the number of services that serve."""
        return bool(self._given(_OVER_ALL))

    def _given(self, keys: Iterable[str]) -> list[str]:
        """Those of these fields that are set."""
        return [key for key in keys if getattr(self, key) is not None]


class Scenario(Model):
    """A what-if: it runs in virtual time against the real controller."""

    title: str = ""
    seed: int = Field(0, ge=0, description="One seed gives one history; --seed overrides it.")
    nodes: list[NodeGroup] = Field(min_length=1)
    manifests: list[File] = Field(
        [], description="Files and folders, applied in this order at the start."
    )
    hyper_nodes: list[HyperNode] = Field(
        [], description="HyperNodes of Volcano; without any they are not installed."
    )
    copies: list[Copies] = Field([], description="Services that are there many times.")
    settings: Settings = Field(
        default_factory=lambda: Settings.model_validate({}),
        description="Settings of the controller, by their names.",
    )
    curse: list[Curse] = Field([], description="What never happens to which instance.")
    arbitration: bool = Field(
        True, description="The setting: weigh services against each other, minimums first."
    )
    ascend_operator: bool = Field(
        False,
        description=(
            "Ascend Operator makes the pods of AscendJobs, and the scaler decides beside it by"
            " gates."
        ),
    )
    timing: Timing = Field(default_factory=lambda: Timing.model_validate({}))
    load: list[Load] = Field(
        [], description="Requests for services, and the autoscalers that follow them."
    )
    events: list[Event] = Field([])
    expect: list[Expectation] = Field([])
    until: Seconds = Field(600.0, description="When the run ends.")

    @property
    def device_data(self) -> bool:
        """Whether nodes carry device data, so that MindCluster's plugin is at work."""
        return any(group.reported for group in self.nodes)

    @property
    def fault_detection(self) -> float:
        """Seconds from a fault to the deletion of the pods."""
        stated = self.timing.fault_detection
        return stated if stated is not None else 1.5 if self.device_data else 5.0

    @field_validator("settings")
    @classmethod
    def _without_ports(cls, settings: Settings) -> Settings:
        for name in ("http_port", "metrics_port", "webhook_port"):
            if name in settings.model_fields_set:
                raise ValueError(f"{name}: nothing is served in virtual time")
        return settings

    @model_validator(mode="after")
    def _known_events(self) -> Scenario:
        names = [event.name for event in self.events if event.name]
        for expectation in self.expect:
            if expectation.after and expectation.after not in names:
                raise ValueError(
                    f"no event is named {expectation.after!r};"
                    f" there are: {', '.join(names) or 'none'}"
                )
        services = [load.service for load in self.load]
        if len(set(services)) < len(services):
            raise ValueError("two loads are for the same service; add them up in one")
        for at in self._times():
            if at > self.until:
                words = f"{at:g} s is after the end of the scenario (until: {self.until:g} s)"
                raise ValueError(words)
        return self

    def _times(self) -> Iterator[float]:
        """Every time that must not be after the end."""
        for event in self.events:
            yield event.at
        for copies in self.copies:
            for at, _ in copies.arrivals():
                yield at
        for curse in self.curse:
            yield curse.since
        for expectation in self.expect:
            if expectation.at is not None:
                yield expectation.at


def json_schema() -> dict[str, Any]:
    """The JSON Schema of scenario files, for editors: `scaler schema scenario`."""
    schema = Scenario.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "scaler scenario",
    }
