"""Pods of no other kind, of whatever owner: each is an instance, which ends with the pod."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.kube.api import PODS, Resource
from scaler.workloads.kind import Kind, Look, MadeName, Role, Written, each_pod, template_at
from scaler.workloads.membership import pod_alone

THIS_POD = "this pod"
_REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
_DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
_JOBS = Resource("batch", "v1", "jobs", "Job")
_CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")


def pod_roles(_: Look) -> Iterator[Role]:
    """The pod itself."""
    yield Role((template_at((), THIS_POD),))


def cron_job_roles(_: Look) -> Iterator[Role]:
    """Each pod, as `each_pod` does it, one level deeper."""
    path = ("spec", "jobTemplate", "spec", "template")
    yield Role((template_at(path),), pods=1, pods_at=path)


def _names_of_job(name: str, _: Look) -> Iterator[MadeName]:
    yield MadeName("the label batch.kubernetes.io/job-name of its pods", len(name))


def _names_of_cron_job(name: str, _: Look) -> Iterator[MadeName]:
    """The time of each run is added to the names of its Jobs, as a number."""
    yield MadeName("the names of its Jobs", len(name) + len("-0123456789"))


KIND = Kind(
    name="Pod",
    written=(
        Written(PODS, pod_roles),
        Written(_REPLICATION_CONTROLLERS, each_pod),
        Written(_DAEMON_SETS, each_pod, on_every_node=True),
        Written(_JOBS, each_pod, made_names=_names_of_job),
        Written(_CRON_JOBS, cron_job_roles, made_names=_names_of_cron_job),
    ),
    membership=pod_alone,
    looked_up=True,
)
