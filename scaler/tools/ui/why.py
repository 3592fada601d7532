"""The answer of `scaler why` about one service, for the page. Reads with the caller's rights."""

from __future__ import annotations

from typing import Any

from scaler.kube.api import KubeApi
from scaler.kube.errors import KubeError
from scaler.reasons.said import Language
from scaler.tools.common.view import Cluster, ServiceView
from scaler.tools.why import workings
from scaler.tools.why.answer import RANKS, Section, answer_of, document
from scaler.tools.why.inquiry import hints_for, sections
from scaler.tools.why.subject import find


async def why(
    cluster: Cluster, api: KubeApi, view: ServiceView, language: Language
) -> dict[str, Any]:
    """Sections of checks, and the advice; `problem` says why there is no answer."""
    name = view.name or view.key.job_id or view.key.rule
    try:
        subject = await find(cluster, api, view.key.namespace, name, stale=False)
        if subject is None:
            return {"problem": f"no job of {view.key} is seen"}
        looked = await workings.look(cluster, api, subject)
    except KubeError as error:
        return {"problem": str(error)}
    found = sections(cluster, subject, looked, Section(RANKS, ()))
    hints = hints_for(cluster, subject, looked)
    return document(answer_of(subject, (), found, hints), language)
