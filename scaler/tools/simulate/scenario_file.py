"""Scenario files: YAML into a Scenario, with every problem named by file, line and column.

Must not: run anything; paths in the file become relative to the file, and nothing else is
changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scaler.kube.api import Object
from scaler.sim.stories.manifests import SHORT_FILES, ManifestError, files_of, read_manifests
from scaler.sim.stories.scenario import Copies, Scenario
from scaler.sim.stories.scenario_run import EventError, node_specs
from scaler.tools.common.render import in_one_line
from scaler.tools.common.short_file.service import ConfigError, read_service
from scaler.tools.common.usage import content_of
from scaler.tools.deploy.objects import labelled


def _short_file(path: Path, text: str) -> Sequence[Object]:
    """The objects as `scaler deploy apply` sends them, so that it takes them for its own where a
    scenario is kept up."""
    try:
        service = read_service(text)
        return [labelled(obj, service.name, service.namespace) for obj in service.objects]
    except ConfigError as error:
        lines = [f"{path}:{in_one_line(finding)}" for finding in error.findings]
        raise ManifestError("\n".join(lines)) from None


SHORT_FILES[:] = [_short_file]


class ScenarioError(Exception):
    """The file is not a scenario. `problems` has one line for each reason: `FILE:LINE:COLUMN:
    where: what`."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load_scenario(path: Path) -> Scenario:
    """Read and check a scenario file. Raises UnreadableError or ScenarioError."""
    try:
        text = content_of(path).decode("utf-8-sig")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ScenarioError(
            [f"{path}{place}: not YAML: {error.problem or error.context}"]
        ) from None
    except (UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise ScenarioError([f"{path}: cannot be read: {error}"]) from None
    try:
        return Scenario.model_validate(data, context={"folder": path.parent})
    except ValidationError as error:
        raise ScenarioError([_problem(path, root, details) for details in error.errors()]) from None


def _problem(path: Path, root: yaml.Node | None, details: ErrorDetails) -> str:
    where = details["loc"]
    mark = _mark(root, where)
    place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        message = "unknown key"
    return f"{path}{place}: {'.'.join(map(str, where)) or 'scenario'}: {message}"


def _mark(node: yaml.Node | None, where: Sequence[int | str]) -> yaml.Mark | None:
    """The place in the file of the value that pydantic's error is about, or of the nearest value
    around it."""
    if node is None:
        return None
    mark: yaml.Mark = node.start_mark
    for step in where:
        found = _child(node, step)
        if found is None:
            break
        node, mark = found
    return mark


def _child(node: yaml.Node, step: int | str) -> tuple[yaml.Node, yaml.Mark] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, key.start_mark
    return None


def check_inputs(scenario: Scenario) -> None:
    """Read all files that the scenario names, so that a run does not fail half way. Raises
    ScenarioError."""
    files = list(scenario.manifests)
    for copies in scenario.copies:
        files.extend(copies.manifests)
    rules = []
    for event in scenario.events:
        file = event.apply or event.delete_file
        if file is not None:
            files.append(file)
        if event.rule is not None and event.rule.file is not None:
            rules.append(event.rule.file)
    problems = list(filter(None, map(_unreadable, files)))
    for copies in scenario.copies:
        problems.extend(_unused(copies))
    for path in rules:
        if not path.is_file():
            problems.append(f"{path}: no such file")
    try:
        node_specs(scenario.nodes)
    except EventError as error:
        problems.append(str(error))
    if problems:
        raise ScenarioError(problems)


def _unused(copies: Copies) -> list[str]:
    """Replacement texts that do not occur."""
    text = ""
    try:
        for path in copies.manifests:
            for file in files_of(path):
                text += file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return []  # reported already
    found: list[str] = []
    for old in copies.replace:
        if old not in text:
            found.append(f"copies {copies.namespace}: no manifest contains {old!r}")
    return found


def _unreadable(path: Path) -> str:
    try:
        return "" if read_manifests(path) else f"{path}: no manifests in there"
    except ManifestError as error:
        return str(error)
