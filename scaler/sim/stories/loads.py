"""The load of a service in a scenario file: requests over time, what an instance does of them, and
who scales it.

Must not: let time pass (scaler.sim.load.service)."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Annotated, Literal

from pydantic import Field, model_validator

from scaler.sim.stories.fields import Model, Name, Seconds

DAY = 24 * 3600.0
UNGOVERNED = "-"
"""In place of a rule: the service has no rule."""
_Rate = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
_Amount = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class Day(Model):
    """A smooth curve that is the same each day: the most at `peak`, the least twelve hours before
    and after."""

    least: _Rate
    most: _Rate
    peak: Seconds = Field(
        14 * 3600.0, description="Time of day, counted from the start of the scenario."
    )


class Requests(Model):
    """Requests per second over time: points with straight lines between them, or a day."""

    points: list[tuple[Seconds, _Rate]] = Field(
        [], description="[time, requests per second], in the order of time."
    )
    day: Day | None = None

    @model_validator(mode="after")
    def _one(self) -> Requests:
        if bool(self.points) == (self.day is not None):
            raise ValueError("give either points or day")
        times = [at for at, _ in self.points]
        if times != sorted(set(times)):
            raise ValueError("the times of the points have to rise")
        return self

    def at(self, when: float) -> float:
        """Requests per second at a time; before the first point as there, after the last as
        there."""
        if self.day is not None:
            share = (1 + math.cos((when - self.day.peak) / DAY * 2 * math.pi)) / 2
            return self.day.least + (self.day.most - self.day.least) * share
        after = bisect_right(self.points, when, key=lambda point: point[0])
        if after in (0, len(self.points)):
            return self.points[min(after, len(self.points) - 1)][1]
        (start, first), (end, second) = self.points[after - 1 : after + 1]
        return first + (second - first) * (when - start) / (end - start)


class Prefill(Model):
    """What one prefill instance does."""

    group: Name = Field(
        "group0", description="The group of the rule; without a rule, the Deployment."
    )
    tokens_per_second: _Amount


class Decode(Model):
    """What one decode instance does."""

    group: Name = Field(
        "group1", description="The group of the rule; without a rule, the Deployment."
    )
    tokens_per_second: _Amount = Field(
        description="With all its sequences busy; each has the same share, always."
    )
    sequences: int = Field(
        64, ge=1, le=100_000, description="Requests that are decoded at the same time."
    )


class Metric(Model):
    """What an autoscaler looks at, and how much of it there should be for each replica."""

    of: Literal["rate", "requests", "queue", "busy"] = Field(
        description=(
            "rate: requests that arrive per second; requests: all that are there, waiting or at"
            " work; queue: those that wait; busy: instances at work (prefill: share of the time,"
            " decode: share of the sequences)."
        )
    )
    stage: Literal["prefill", "decode"] | None = Field(
        None, description="Only there; not with rate and requests."
    )
    average: _Amount = Field(description="The target: so much for each replica.")

    @model_validator(mode="after")
    def _known(self) -> Metric:
        if self.stage and self.of in ("rate", "requests"):
            raise ValueError(f"{self.of} is of both stages together")
        return self


class Autoscaler(Model):
    """A HorizontalPodAutoscaler: several metrics mean the largest demand."""

    least: int = Field(1, ge=0, le=1_000_000, description="minReplicas")
    most: int = Field(ge=1, le=1_000_000, description="maxReplicas")
    tolerance: float = Field(0.1, ge=0, le=1, description="What is off by less is right.")
    up: Seconds = Field(0.0, description="stabilizationWindowSeconds of scaling up.")
    down: Seconds = Field(300.0, description="stabilizationWindowSeconds of scaling down.")
    scales: Literal["service", "prefill", "decode"] = Field(
        "service",
        description="The ElasticService; without a rule, the Deployment of prefill or of decode.",
    )
    metrics: list[Metric] = Field(min_length=1)
    period: Seconds = Field(15.0, ge=1, description="Between two looks.")

    @model_validator(mode="after")
    def _ordered(self) -> Autoscaler:
        if self.least > self.most:
            raise ValueError(f"least ({self.least}) is more than most ({self.most})")
        return self


class Load(Model):
    """Requests for one service."""

    service: str = Field(
        pattern=r"^[^/]+/[^/]+/[^/]+$",
        description=(
            "namespace/rule/jobID. With - as the rule none governs it, and its groups are"
            " Deployments."
        ),
    )
    requests: Requests
    since: Seconds = Field(
        0.0, alias="from", description="When the first requests come, and counting begins."
    )
    prompt: _Amount = Field(description="Tokens of a prompt, on average.")
    answer: _Amount = Field(description="Tokens of an answer, on average.")
    prefill: Prefill
    decode: Decode
    patience: Seconds = Field(
        60.0, gt=0, description="A request that is not decoded after this long is lost."
    )
    queue: int | None = Field(
        None, ge=0, description="So many requests wait at most; what comes then is lost."
    )
    works: list[tuple[int, int]] = Field(
        [],
        description="[prefill, decode] instances that work together; time with others is counted.",
    )
    autoscalers: list[Autoscaler] = Field([])

    @model_validator(mode="after")
    def _modelled(self) -> Load:
        for scaler in self.autoscalers:
            if self.ungoverned == (scaler.scales == "service"):
                raise ValueError(
                    "with a rule autoscalers scale the service, without one prefill or decode"
                )
        if self.seconds < 1:
            raise ValueError(
                f"an answer is decoded in {self.seconds:.2g} s; less than 1 s is not modelled"
            )
        return self

    @property
    def namespace(self) -> str:
        return self.service.split("/")[0]

    @property
    def rule(self) -> str:
        return self.service.split("/")[1]

    @property
    def job_id(self) -> str:
        return self.service.split("/")[2]

    @property
    def ungoverned(self) -> bool:
        return self.rule == UNGOVERNED

    @property
    def prefilled(self) -> float:
        """Requests per second of one prefill instance."""
        return self.prefill.tokens_per_second / self.prompt

    @property
    def seconds(self) -> float:
        """Seconds for decoding one answer."""
        return self.answer * self.decode.sequences / self.decode.tokens_per_second
