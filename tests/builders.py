"""The vocabulary of the tests: a service in one line. `P` stands for group0 (prefill), `D` for
group1 (decode).

plan(service("2P1D > 1P1D", "p0 Running, p1 Held, d0 Terminating"))

Where room matters, instances say where their pods are, and nodes are a line too:

climbs = on_nodes("2P > 1P", "p0 on a0, p1 held")
decide(world(climbs, on_nodes("1P", "p0 unbound", name="b"), nodes="a:8x3"))"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from scaler.decide.decide import decide
from scaler.decide.decision import Decision, Plan, State
from scaler.decide.memory import InstanceMemory, Memory, ServiceMemory
from scaler.decide.nodes import (
    Node,
    NodeClass,
    Nodes,
    PodRequest,
    Requirement,
    Return,
    Where,
    terms_of,
)
from scaler.decide.world import Instance, Policy, Service, ServiceKey, World
from scaler.reasons.reasons import Reason
from scaler.rules.rule import Ratio, Rule

GROUPS = {"p": "group0", "d": "group1", "e": "group2"}
KEY = ServiceKey("default", "rule", "mindie")
NOW = 1_000_000.0
SIZE = 2

PODS: dict[State, dict[str, Any]] = {
    State.HELD: {},
    State.ADMITTED: {"pods": SIZE},
    State.STARTING: {"pods": SIZE, "bound": SIZE},
    State.RUNNING: {"pods": SIZE, "bound": SIZE, "running": SIZE, "ready": SIZE},
    State.BROKEN: {"pods": SIZE, "bound": SIZE, "running": SIZE, "ready": SIZE, "crashing": 1},
    State.TERMINATING: {"terminating": SIZE},
    State.FINISHED: {"owner_finished": True},
}


def rule(text: str) -> Rule:
    """`2P1D > 1P1D`, the largest ratio first."""
    return Rule(tuple(ratio(part) for part in text.split(">")))


def ratio(text: str) -> Ratio:
    counts = {
        GROUPS[letter.lower()]: int(number) for number, letter in re.findall(r"(\d+)([A-Z])", text)
    }
    return Ratio(counts=counts, sizes=dict.fromkeys(counts, SIZE))


def instance(name: str, state: str = State.HELD, **changes: Any) -> Instance:
    """`p0`, `d1`: the letter names the group, the number the age (d0 is the oldest decode)."""
    number = int(re.sub(r"\D", "", name) or 0)
    pods = PODS[State(state)]
    since = NOW - 100 + number if "pods" in pods else 0.0
    usual: dict[str, Any] = {
        "uid": f"uid-{name}",
        "name": name,
        "group": GROUPS[name[0]] if re.fullmatch(r"[pde]\d+", name) else name,
        "created": NOW - 1000 + number,
        "expected": SIZE,
        "leftovers": "pods" in pods,
        "admitted_at": since,
        "newest": since,
        "ends_by": NOW if "terminating" in pods else 0.0,
    }
    return Instance(**{**usual, **pods, **changes})


def instances(text: str) -> tuple[Instance, ...]:
    """`p0 Running, p1 Held`."""
    return tuple(instance(*part.split()) for part in text.split(",") if part.strip())


def rolling(text: str, **changes: Any) -> tuple[Instance, ...]:
    """Instances of one owner: `p0 Running old, p1 Held new`."""
    parts = [part.split() for part in text.split(",") if part.strip()]
    return tuple(
        others(name, state, owner="owner", outdated=revision == "old", **changes)
        for name, state, revision in parts
    )


def others(name: str, state: str = State.HELD, **changes: Any) -> Instance:
    """An instance whose pods others make: a held one has them all, gated."""
    gates = {"pods": SIZE, "gated": SIZE, "newest": NOW - 100} if state == State.HELD else {}
    return instance(name, state, made_by_us=False, **{**gates, **changes})


def service(ratios: str | Rule | None, found: str | Iterable[Instance], **changes: Any) -> Service:
    """A whole service in two strings, its rule and its instances, or from values."""
    ladder = rule(ratios) if isinstance(ratios, str) else ratios
    members = instances(found) if isinstance(found, str) else tuple(found)
    return Service(**{"key": KEY, "instances": members, "rule": ladder, **changes})


def remembering(service: Service, *found: tuple[str, InstanceMemory], **changes: Any) -> Memory:
    """What is remembered of one service: of these of its instances, by uid, and of itself."""
    return Memory({str(service.key): ServiceMemory(instances=dict(found), **changes)})


def world(*services: Service, nodes: str | Nodes | None = None, **changes: Any) -> World:
    """Services at one moment, on these nodes if any are said; fields of the policy may be named
    beside the world's."""
    settings = {
        name: changes.pop(name) for name in tuple(changes) if name in Policy.__struct_fields__
    }
    if settings:
        changes["policy"] = Policy(**settings)
    ordered = tuple(sorted(services, key=lambda one: one.key))
    seen = nodes_for(nodes, ordered) if isinstance(nodes, str) else nodes
    return World(**{"now": NOW, "services": ordered, "nodes": seen, **changes})


def decision(service: Service, **changes: Any) -> Decision:
    """What is decided about a service that nothing is known of the nodes of."""
    return decide(world(service, **changes))


def plan(service: Service, **changes: Any) -> Plan:
    return decision(service, **changes).plans[0]


# Services on nodes: whole nodes of 8, unless a service or a node says otherwise

NPU = "x/npu"
RESOURCES = (NPU, "pods")
PODS_PER_NODE = 110
WHOLE = 8


def request(npus: int = WHOLE, classes: str = "") -> PodRequest:
    """A pod that may run on nodes of one of these classes, or on any: `request(8, "ab")`."""
    only = Requirement("class", "In", tuple(classes))
    return PodRequest(
        ((NPU, npus), ("pods", 1)), Where(affinity=((only,),)) if classes else Where()
    )


def on_nodes(
    ratios: str,
    text: str,
    *,
    name: str = "a",
    npus: int = WHOLE,
    others: bool = False,
    **changes: Any,
) -> Service:
    """A service whose instances say where their pods are:

        "p0 on a0, p1@b held, d0@ab:4 starts on a1 + unbound, d1 held 2"

    A pod runs, `starts`, `loads` (it runs and is not Ready), `crashes` or has `failed` on a node,
    or is `unbound` (the scheduler has it), `gated`, `ends` or is `gone`. `held` stands for the
    whole instance, with the number of its pods where that is not one. Behind `@` stand the classes
    of nodes that an instance may use, behind `:` what each of its pods takes. `priority` and `age`
    (seconds that its jobs are older) are for all instances."""
    alike = {name: changes.pop(name) for name in ("priority", "age") if name in changes}
    found = [
        _placed(part.strip(), name, npus, made_by_us=not others, **alike)
        for part in text.split(",")
        if part.strip()
    ]
    return service(ratios, found, **{"key": ServiceKey("default", "rule", name), **changes})


def _placed(words: str, service: str, npus: int, **changes: Any) -> Instance:
    match = re.fullmatch(r"(\w+)(?:@(\w+))?(?::(\d+))? (.+)", words)
    assert match, words
    name, classes, amount, where = match.groups()
    held = re.fullmatch(r"held(?: (\d+))?", where)
    held_pod = "." if changes["made_by_us"] else "g"
    pods = [held_pod] * int(held[1] or 1) if held else pods_of(where)
    need = request(int(amount or npus), classes or "")
    return located(name, need, pods, uid=f"{service}-{name}", **changes)


def pods_of(where: str) -> list[str]:
    """`on a0 + unbound`, as `located` takes them."""
    return [_pod(one) for one in where.split(" + ")]


def _pod(words: str) -> str:
    """As `located` takes it."""
    if words in _NOWHERE:
        return _NOWHERE[words]
    match = re.fullmatch(r"(starts |loads |crashes |failed |)on (\w+)", words)
    assert match, words
    ending = {"": "", "starts ": "*", "loads ": "~", "crashes ": "?", "failed ": "#"}[match[1]]
    return match[2] + ending


_NOWHERE = {"unbound": "u", "gated": "g", "ends": "!", "gone": "."}


def located(
    name: str, need: PodRequest, pods: list[str], *, age: float = 0, **changes: Any
) -> Instance:
    """An instance by its pods: `a0` runs on that node, `a0*` starts, `a0~` runs and is not Ready,
    `a0?` crashes and `a0#` has failed there, `u` is unbound, `g` is gated, `!` ends, `.` is
    gone."""
    bound = [pod for pod in pods if pod[0].isalpha() and pod not in ("u", "g")]
    on_nodes = [pod for pod in bound if pod[-1] != "#"]
    alive = [pod for pod in pods if pod not in ("!", ".")]
    number = int(re.sub(r"\D", "", name) or 0)
    waiting = len(pods) - len(on_nodes)
    released = len(alive) > pods.count("g")
    usual: dict[str, Any] = {
        "created": NOW - 1000 + number - age,
        "expected": len(pods),
        "pods": len(alive),
        "gated": pods.count("g"),
        "bound": len(bound),
        "running": sum(pod[-1] not in "*#" for pod in bound),
        "ready": sum(pod[-1] not in "*~?#" for pod in bound),
        "ended": len(bound) - len(on_nodes),
        "crashing": sum(pod[-1] == "?" for pod in bound),
        "terminating": pods.count("!"),
        "ends_by": NOW if "!" in pods else 0.0,
        "admitted_at": NOW - 100 + number if released else 0.0,
        "newest": NOW - 5 if alive else 0.0,
        "leftovers": released,
        "requests": ((need, len(pods)),),
        "unbound": ((need, waiting),) if waiting else (),
        "bound_pods": tuple((pod.rstrip("*~?"), need) for pod in on_nodes),
    }
    return instance(name, **{**usual, **changes})


def nodes_for(text: str, services: Iterable[Service] = ()) -> Nodes:
    """`a:8x3 b:16` are nodes a0, a1, a2 and b0 of classes a and b, with room for what the services
    have bound there.

    More is said behind commas, of one node each: `a0 used 3` by strangers, `a1 ending 8 -20` (pods
    of so much that should have been gone 20 s ago; the time may be left out), `a2 lost 400` (not
    Ready for 400 s), `b0 cordoned 10`, `b0 since 10` (schedulable for 10 s), `b1 faulty 2 40` (two
    chips faulty for 40 s), `b1 healed 10` (chips became healthy 10 s ago)."""
    sizes, *marks = [part.split() for part in text.split(",")]
    found: dict[str, Node] = {}
    for word in sizes:
        name, size, count = re.fullmatch(r"(\w+):(\d+)(?:x(\d+))?", word).groups()  # type: ignore[union-attr]
        first = sum(each.startswith(name) for each in found)
        for number in range(first, first + int(count or 1)):
            whole = (int(size), PODS_PER_NODE)
            found[f"{name}{number}"] = Node(
                f"{name}{number}", NodeClass((("class", name),)), whole, whole
            )
    for one in services:
        for each in one.instances:
            for place, need in each.bound_pods:
                if place in found:
                    found[place] = _used(found[place], dict(need.requests)[NPU])
    for place, what, *numbers in marks:
        found[place] = _marked(found[place], what, [float(number) for number in numbers])
    return Nodes(RESOURCES, tuple(found[name] for name in sorted(found)))


class Machine(NamedTuple):
    """A node as the API server describes it."""

    name: str
    labels: dict[str, str]
    whole: dict[str, int]
    free: dict[str, int]


def on_machines(services: Iterable[Service], machines: Iterable[Machine]) -> World:
    """The services on these nodes. Their resources, amounts and classes are made of what the pods
    ask for, as the product does."""
    ordered = tuple(sorted(services, key=lambda one: one.key))
    wanted: set[PodRequest] = set()
    for one in ordered:
        for each in one.instances:
            wanted.update([need for need, _ in each.requests])
    terms = terms_of(wanted)
    nodes = []
    for name, labels, whole, free in machines:
        node_class = terms.node_class(labels, ())
        nodes.append(Node(name, node_class, terms.whole(whole), terms.whole(free)))
    return World(NOW, ordered, Nodes(terms.resources, tuple(nodes)))


def _used(node: Node, npus: int) -> Node:
    left = (node.free[0] - npus, node.free[1] - 1)
    return msgspec.structs.replace(node, free=left)


def _marked(node: Node, what: str, numbers: list[float]) -> Node:
    match what:
        case "used":
            return _used(node, int(numbers[0]))
        case "ending":
            amount = int(numbers[0])
            after = (*numbers[1:], 0.0)[0]
            return msgspec.structs.replace(
                _used(node, amount), ending=(*node.ending, (NOW + after, (amount, 1)))
            )
        case "faulty":
            amount = int(numbers[0])
            since = NOW - (*numbers[1:], 0.0)[0]
            left = (node.free[0] - amount, node.free[1])
            return msgspec.structs.replace(node, free=left, away=((since, (amount, 0)),))
        case "healed":
            return msgspec.structs.replace(node, returns=(Return(NOW - numbers[0]),))
    since = NOW - (*numbers, 1.0)[0]
    return msgspec.structs.replace(
        node,
        ready=node.ready and what != "lost",
        cordoned=node.cordoned or what == "cordoned",
        since=since,
        returns=(Return(since),) if what == "since" else node.returns,
    )


# What was decided, in short


def doings(made: Decision | Plan) -> dict[str, str]:
    """What is done to whom: `{"a-p0": "Admit"}`."""
    plans = made.plans if isinstance(made, Decision) else (made,)
    return {action.uid: type(action).__name__ for one in plans for action in one.actions}


def reasons(made: Decision | Plan) -> dict[str, Reason]:
    """The reason of every instance, by uid."""
    plans = made.plans if isinstance(made, Decision) else (made,)
    return {verdict.uid: verdict.reason for one in plans for verdict in one.verdicts}


class Story:
    """Decisions one after the other in virtual seconds. Nothing happens by itself: each step says
    what the cluster looks like then."""

    def __init__(self, nodes: str | Nodes, **settings: Any) -> None:
        self.nodes = nodes
        self.settings = settings
        self.memory = Memory()
        self.last_bind = 0.0
        self.made: Decision

    def at(
        self, time: float, *services: Service, nodes: str = "", bound: bool = False
    ) -> dict[str, str]:
        """What is done at this time, seconds after the start; `bound`: any pod was bound just
        before."""
        if bound:
            self.last_bind = NOW + time
        changes: dict[str, Any] = {
            "memory": self.memory,
            "last_bind": self.last_bind,
            **self.settings,
        }
        self.made = decide(world(*services, nodes=nodes or self.nodes, now=NOW + time, **changes))
        self.memory = self.made.memory
        return doings(self.made)

    def remembered(self, service: Service) -> ServiceMemory:
        return self.memory.services.get(str(service.key), ServiceMemory())

    @property
    def reasons(self) -> dict[str, str]:
        return {uid: str(reason) for uid, reason in reasons(self.made).items()}

    @property
    def recheck_in(self) -> float:
        """Seconds from the start until the decision has to be made again."""
        return self.made.recheck_at - NOW
