"""The command that corrects a mistyped label, for `scaler why`. Pure."""

from __future__ import annotations

import shlex

from scaler.decide.world import Instance
from scaler.tools.why.subject import Subject

_OWN_LABELS = ("AscendJob", "Pod")
"""Kinds whose own labels count; of others those in the template of the pods do."""


def relabel(namespace: str, kind: str, name: str, *changes: str) -> str:
    """The command that writes these labels: `NAME=VALUE`, or `NAME-` to take one off. Where the
    template of the pods has the labels, the command that opens it."""
    if kind not in _OWN_LABELS:
        return f"kubectl -n {namespace} edit {kind.lower()} {name}"
    what = " ".join(shlex.quote(change) for change in changes)
    return f"kubectl -n {namespace} label --overwrite {kind.lower()} {name} {what}"


def relabel_subject(subject: Subject, *changes: str) -> str:
    """The same for the object that was asked about; "" if it is not seen."""
    meta = subject.object.get("metadata") if subject.object else None
    if meta is None:
        return ""
    return relabel(subject.namespace, subject.object["kind"], meta["name"], *changes)


def relabel_instance(namespace: str, instance: Instance, *changes: str) -> str:
    """The same for an instance; "" where its name is not that of the object with the labels."""
    if instance.kind not in _OWN_LABELS:
        return ""
    return relabel(namespace, instance.kind, instance.name, *changes)
