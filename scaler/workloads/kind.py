"""A kind of workload is one value, in `workloads/<kind>.py`.

A kind leaves out what it does not have: every member but its name is optional. Everything else
derives from the list in `kinds.py`: what is watched and which rights that needs, what admission,
`scaler lint`, `why`, `preflight` and `uninstall` look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from scaler.kube.api import Object, Resource
from scaler.kube.metadata import Metadata
from scaler.rules.finding import Path
from scaler.workloads.membership import Membership, OwnerFacts

Look = Callable[[Path], Any]
"""The value at a path of an object, None where there is none. Of mappings and lists inside it only
that they are there."""
LABELS: Path = ("metadata", "labels")
GATES: Path = ("spec", "schedulingGates")
TEMPLATE = "template"
"""Name of the only pod template of an object."""


class Template(msgspec.Struct, frozen=True):
    """The paths from which pods get their labels and scheduling gates."""

    name: str
    """`template`, `leaderTemplate`, `of role decode`, `this pod`."""
    labels: Path
    gates: tuple[Path, ...]
    """Several where one place has the labels of several templates."""

    @property
    def place(self) -> Path:
        """The path of the template itself."""
        return self.labels[: -len(LABELS)]


class Role(msgspec.Struct, frozen=True):
    """A part of a workload that makes instances of one group: all of their pods have the same three
    labels."""

    templates: tuple[Template, ...]
    pods: int | None = None
    """Pods of one instance; None if the object does not have the number."""
    pods_at: Path = ()
    """Path of that number."""
    is_instance: bool = True
    """False for a part beside the instances, such as a router."""


LONGEST_LABEL = 63
"""Characters of a label's value, and of the name of a Service."""
REVISION_LENGTH = len("-0123456789")
"""Characters that Kubernetes adds to the name of a StatefulSet for the label of its revision."""


class MadeName(msgspec.Struct, frozen=True):
    """A name, or the value of a label, that is made of the name of an object. `what`: in words."""

    what: str
    length: int
    of_service: bool = False
    """It is the name of a Service, which begins with a letter and has no dots."""


class Written(msgspec.Struct, frozen=True):
    """A type of object in which pod templates stand."""

    resource: Resource
    roles: Callable[[Look], Iterator[Role]] | None = None
    """None where the labels of the object itself count."""
    by_users: bool = False
    """Users write objects of this type; others are made by controllers only, or looked at only by
    `scaler lint`."""
    made_names: Callable[[str, Look], Iterator[MadeName]] | None = None
    """From the name of an object to names that are made of it and may be too long."""
    on_every_node: bool = False
    """It makes a pod for each node and chooses the node: no ratio decides how many run."""


class OwnerObject(msgspec.Struct, gc=False):
    """The fields that the scaler reads of most owners of pods."""

    class Spec(msgspec.Struct, rename="camel", gc=False):
        replicas: Any = None
        pod_management_policy: Any = None
        template: Any = None

    metadata: Metadata
    spec: Spec | None = None

    @property
    def replicas(self) -> Any:
        return self.spec.replicas if self.spec is not None else None

    @property
    def template(self) -> Any:
        """The pod template, of any shape."""
        return self.spec.template if self.spec is not None else None


OwnerType = tuple[str, str]
"""API group and kind of the owner of a pod."""


class OwnerSource(msgspec.Struct, frozen=True):
    """A type of object that says what no pod says: sizes, newest revisions, numbers of
    instances."""

    resource: Resource
    facts: Callable[[Any], OwnerFacts | None]
    """From an object of type `decode` to what it says; None for an object of another kind."""
    decode: type = OwnerObject
    label_selector: str = ""
    counts_instances: bool = False
    """Each of its replicas is an instance; it is the owner of all their revisions."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of workload."""

    name: str
    """The name of the kind in status, logs and documents."""
    written: tuple[Written, ...] = ()
    """The types of objects that users, or controllers for them, write; the main one first."""
    membership: Callable[[Metadata], Membership | None] | None = None
    """From a pod to its instance, None for a pod of another kind. Reads only the pod, and never
    raises. The kind itself is no instance of pods when it has none: it is a job, or makes workloads
    of other kinds."""
    pods_of: tuple[OwnerType, ...] = ()
    """The types of objects that own its pods: `membership` is asked about these pods only; () for
    all pods."""
    owners: tuple[OwnerSource, ...] = ()
    """The owners that say sizes or revisions, where pods do not."""
    job: Resource | None = None
    """Each of these objects is one instance, which exists before its pods."""
    several: bool = False
    """One object makes several instances, and their owner or uid begins with its kind and name."""
    one_instance: bool = False
    """Several templates make the pods of one instance: all of them have the labels, or none."""
    reviewed: bool = False
    """Admission warns of labels in the wrong place: manifests/admission-webhook names the main
    object."""
    own_labels: Callable[[Object], Mapping[str, Any]] | None = None
    """The labels that count of an object whose own labels count."""
    looked_up: bool = False
    """`scaler why NAME` looks for an object of this name, and at the labels in it: all its pods are
    of one group."""
    project: str = ""
    """The product that installs the definitions; "" for Kubernetes itself."""
    definitions: tuple[Resource, ...] = ()
    """The definitions that the scaler uses where they are installed."""
    tried: str = ""
    """What it was tried with, as docs/reference/kinds.md says it; "" = only with a stand-in."""
    rights: Mapping[str, Mapping[tuple[str, str], str]] = {}
    """Verbs by (group, resource), by role of the manifests, besides list and watch of what is
    watched."""
    pods_made_by: str = ""
    """The component that makes the pods, for people."""
    pods_label: str = ""
    """The label of pods with the name of the object that they belong to."""
    pods_wanted: Callable[[Object], int] | None = None
    """The number of pods that the spec of an object asks for, all instances together."""

    @property
    def main(self) -> Written:
        """What users write of this kind."""
        return self.written[0]


def look_into(obj: Object) -> Look:
    """The look at an object as the API server answers it."""

    def look(path: Path) -> Any:
        here: Any = obj
        for step in path:
            if isinstance(step, int):
                here = here[step] if isinstance(here, list) and step < len(here) else None
            else:
                here = here.get(step) if isinstance(here, dict) else None
        return here

    return look


def template_at(path: Path, name: str = TEMPLATE) -> Template:
    """The pod template at a path."""
    return Template(name, (*path, *LABELS), ((*path, *GATES),))


def number_at(look: Look, path: Path, default: int) -> int | None:
    """The number at `path`; `default` where there is none, None where it is no number."""
    value = look(path)
    if value is None:
        return default
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def named_at(look: Look, path: Path) -> Iterator[tuple[Path, str]]:
    """Each item of the list at `path`: its path, and its name, or its place in the list."""
    found = look(path)
    for index in range(len(found) if isinstance(found, list) else 0):
        item = (*path, index)
        name = look((*item, "name"))
        yield item, name if isinstance(name, str) and name else str(index)


def each_pod(_: Look) -> Iterator[Role]:
    """The role of an object of which each pod is an instance."""
    path = ("spec", "template")
    yield Role((template_at(path),), pods=1, pods_at=path)
