"""A cluster to which one thing happens after the other, in the words of the contract.

It plays the controller and the owners, which do at once what is decided. The scheduler does nothing
but what the test says."""

from __future__ import annotations

from typing import Any, Self

from scaler.decide.world import Service
from tests.builders import Story, on_nodes


class Played:
    """Each instance has one pod. An event is followed by a decision at the same moment."""

    def __init__(self, nodes: str) -> None:
        self._story = Story(nodes)
        self._time = 0.0
        self._ratios: dict[str, str] = {}
        self._changes: dict[str, dict[str, Any]] = {}
        self._where: dict[str, dict[str, str]] = {}
        """Service -> instance -> where its pod is, as `on_nodes` says it."""
        self._done: dict[str, str] = {}

    def service(self, name: str, ratio: str, *instances: str, **changes: Any) -> Self:
        """A service whose instances are all held. Of two the one that is named first is older.
        `changes`: as `on_nodes` takes them."""
        self._ratios[name] = ratio
        self._changes[name] = changes
        self._where[name] = dict.fromkeys(instances, "held")
        return self

    def on(self, node: str, *, runs: str) -> Self:
        """The pod of an instance runs on this node."""
        service, instance = runs.split("-")
        self._where[service][instance] = f"on {node}"
        return self

    def after(self, words: str) -> Self:
        """`20 s` pass, in which nothing is decided; then there is a decision."""
        number, unit = words.split()
        assert unit == "s", words
        self._time += float(number)
        return self._decide()

    def decided(self, *, bound: bool = False) -> Self:
        """`bound`: a pod of somebody else was bound just before."""
        return self._decide(bound=bound)

    def bind(self, pod: str, *, to: str) -> Self:
        """The scheduler binds the pod, which starts there."""
        service, instance = pod.split("-")
        assert self._where[service][instance] == "unbound", f"{pod} is not with the scheduler"
        self._where[service][instance] = f"starts on {to}"
        return self._decide(bound=True)

    def admissions(self, seconds: int, *, every: int = 5) -> list[tuple[float, str]]:
        """What is admitted in the next seconds, and when, if nothing else happens and something is
        decided every few seconds."""
        found = []
        for _ in range(0, seconds, every):
            self.after(f"{every} s")
            found += [(self._time, uid) for uid in self.admitted]
        return found

    @property
    def admitted(self) -> list[str]:
        """The instances that the last decision admits."""
        return self._whom("Admit")

    @property
    def revoked(self) -> list[str]:
        """The instances that the last decision revokes."""
        return self._whom("Revoke")

    @property
    def reasons(self) -> dict[str, str]:
        return self._story.reasons

    def _whom(self, action: str) -> list[str]:
        return sorted(uid for uid, done in self._done.items() if done == action)

    def _decide(self, *, bound: bool = False) -> Self:
        self._done = self._story.at(self._time, *self._services(), bound=bound)
        for uid, action in self._done.items():
            service, instance = uid.split("-")
            match action:
                case "Admit":
                    self._where[service][instance] = "unbound"
                case "Revoke":
                    self._where[service][instance] = "held"
                case _:
                    raise AssertionError(f"nothing plays {action} of {uid}")
        return self

    def _services(self) -> list[Service]:
        services = []
        for number, (name, ratio) in enumerate(self._ratios.items()):
            places = [f"{instance} {where}" for instance, where in self._where[name].items()]
            age = 100 * (len(self._ratios) - number)
            changes = {"age": age, **self._changes[name]}
            services.append(on_nodes(ratio, ", ".join(places), name=name, **changes))
        return services
