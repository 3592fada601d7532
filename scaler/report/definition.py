"""The definition of ElasticService as this version installs it."""

from __future__ import annotations

from importlib import resources

import yaml

from scaler.kube.api import Object


def definition() -> Object:
    """The CustomResourceDefinition, ready to be created in any cluster."""
    file = resources.files(__package__).joinpath("elasticservices.yaml")
    found: Object = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found
