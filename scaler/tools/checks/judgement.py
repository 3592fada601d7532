"""All checks of a cluster, in the order in which somebody who sets one up meets them. Pure."""

from __future__ import annotations

from scaler.tools.checks import admission, faults, install, platform, rights, services
from scaler.tools.checks.finding import Check
from scaler.tools.checks.picture import Picture

CHECKS = (
    platform.kubernetes, platform.kinds, rights.installer, platform.scheduler, platform.operator, platform.npu_nodes,
    faults.fault_data, install.scaler, install.installs, rights.accounts, admission.admission, admission.webhooks,
    services.services,
)  # fmt: skip


def judge(picture: Picture) -> list[Check]:
    """What each check says of a cluster."""
    return [each(picture) for each in CHECKS]
