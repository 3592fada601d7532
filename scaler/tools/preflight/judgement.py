"""All checks of a cluster, in the order of a first installation. Pure."""

from __future__ import annotations

from scaler.tools.preflight import admission, faults, install, platform, rights, services
from scaler.tools.preflight.checks import Check
from scaler.tools.preflight.picture import Picture

CHECKS = (
    platform.kubernetes,
    platform.kinds,
    rights.installer,
    platform.scheduler,
    platform.operator,
    platform.npu_nodes,
    faults.fault_data,
    install.scaler,
    install.installs,
    rights.accounts,
    admission.admission,
    admission.webhooks,
    services.services,
)


def judge(picture: Picture) -> list[Check]:
    """The result of each check."""
    return [each(picture) for each in CHECKS]
