"""Every setting of the controller, once: name, unit, default, meaning; set by flag, environment or
file.

Precedence: flag, then environment variable, then file, then default. Flags, environment names and
the reference page (.ci/settings_page.py) are derived from the fields of `Settings`. This module
must not import a Kubernetes or HTTP client, and reads no file except the one of `--config`."""

from __future__ import annotations

import argparse
import difflib
import re
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

from scaler.decide.world import Policy, Preempt
from scaler.defaults import MOST_KEPT, Mode
from scaler.rules.finding import shown

PREFIX = "SCALER_"
CONFIG_VARIABLE = PREFIX + "CONFIG"
_MAX_FILE = 1 << 20
JITTER = 1.2
REMOVED = {
    "status_beside_rule": "An ElasticService says what was decided; take the setting out.",
    "resync_period": (
        "The full pass that looks for anything missed is every 600 s; take the setting out."
    ),
}
"""Settings of earlier releases -> what to do instead. If one is still set, the start fails with
this text."""


LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "text"]


def _split(value: object) -> object:
    """`a, b` as ("a", "b"): flags and variables are text, files have lists."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _setting(default: Any, meaning: str, **limits: Any) -> Any:
    return Field(default, description=meaning, **limits)


def _seconds(default: float, meaning: str, least: float = 0.05, most: float = 86_400) -> Any:
    unit = {"unit": "s"}
    return _setting(
        float(default), meaning, ge=least, le=most, allow_inf_nan=False, json_schema_extra=unit
    )


def _number(default: int | None, unit: str, meaning: str, least: int, most: int) -> Any:
    return _setting(default, meaning, ge=least, le=most, json_schema_extra={"unit": unit})


def _named(name: str) -> str:
    if len(name) > 253 or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name):
        raise ValueError("not a Kubernetes name (lower case letters, digits, - and .)")
    return name


_Text = Annotated[str, Field(max_length=253)]
_Path = Annotated[str, Field(max_length=4096)]
_Name = Annotated[str, pydantic.AfterValidator(_named)]
_Namespace = Annotated[str, Field(max_length=63), pydantic.AfterValidator(_named)]


class Settings(BaseModel):
    """Frozen; an instance is always valid. Durations are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=False)

    namespaces: Annotated[tuple[_Name, ...], BeforeValidator(_split)] = _setting(
        (), "Namespaces to look after, separated by commas; empty means all.", max_length=1000
    )
    mode: Mode = _setting(
        Mode.CREATE,
        "Who creates the pods of AscendJobs: `create` = the scaler; `gates` = others, the scaler"
        " releases them; `auto` = gates beside an Ascend Operator, else create; `shadow` = others,"
        " and nothing is done.",
    )
    ascend_operator_namespace: _Namespace = _setting(
        "mindx-dl",
        "Where Ascend Operator's Deployment is looked for; one of that name elsewhere is somebody"
        " else's.",
    )
    kubeconfig: _Path = _setting(
        "", "Path; empty means the pod's service account, else the default kubeconfig."
    )
    context: _Text = _setting("", "Context in the kubeconfig; empty means the current one.")

    kept_per_namespace: int = _number(
        MOST_KEPT,
        "",
        "Last valid rules that are kept for each namespace at most, and as many ElasticServices,"
        " and counts of evictions. What comes later is not kept, and its jobs say so (`NotKept`).",
        1,
        100_000,
    )
    leader_election: bool = _setting(
        True, "Act only while holding the Lease. Off only for a single process."
    )
    lease_namespace: _Namespace = _setting(
        "default",
        "Own namespace of the install: its Lease, the last valid rules, counted evictions.",
    )
    install: _Name = _setting(
        "mind-cluster-scaler",
        "Name of the install: of its webhook configurations, its policy that holds pods, and its"
        " Service.",
    )
    lease_name: _Name = _setting("mind-cluster-scaler", "Name of the Lease.")
    identity: _Text = _setting("", "Name in the Lease; empty means host name and a random suffix.")
    lease_duration: float = _seconds(
        8, "A standby takes over when the Lease was not renewed for this long.", 1, 3600
    )
    renew_deadline: float = _seconds(
        5, "A leader that could not renew for this long stops writing.", 0.5, 3600
    )
    retry_period: float = _seconds(
        1, "Pause between two attempts to take or renew the Lease.", 0.1, 600
    )

    request_timeout: float = _seconds(10, "Deadline of one request to the API server.", 0.1, 600)
    out_of_touch: float = _seconds(
        120,
        "A replica that has heard nothing of something it decides on for this long is not ready; a"
        " leader stops admitting. A watch that is silent for three eighths of it is given up.",
        1,
    )

    broken_grace: float = _seconds(
        60, "A broken instance is kept for this long before it is replaced.", 0
    )
    stable_after: float = _seconds(
        30, "An instance that restarted counts as running again after this long.", 0
    )
    restart_reserve: int = _number(
        -1,
        "restarts",
        "Restarts that a revocation must leave a job, if it costs one; -1 = half, at least 2.",
        -1,
        10**6,
    )
    revoke: bool = _setting(
        True, "Revoke admissions of which no pod is bound when others need the place."
    )
    start_timeout: float = _seconds(
        1800, "An instance that is bound for this long and never runs is broken.", 1
    )

    arbitration: bool = _setting(
        True, "Weigh services against each other; needs all namespaces and the nodes."
    )
    minimum_timeout: float = _seconds(
        30, "An attempt: how long room is reserved while nothing of it gets bound.", 1
    )
    backoff: float = _seconds(30, "Pause after an attempt without progress; doubled each time.", 1)
    backoff_max: float = _seconds(
        300, "The longest such pause, and how long a service waits before it goes next.", 1
    )
    due_back: float = _seconds(
        300,
        "How long room of ending pods, of absent nodes and of faulty chips counts as expected.",
        0,
    )
    gather: float = _seconds(
        60, "How long a node that became usable is kept from scale-ups for a waiting minimum.", 0
    )
    fit_patience: float = _seconds(
        60, "A minimum that seems not to fit is tried all the same after this long.", 1
    )
    trade_after: float = _seconds(
        90, "Running surplus is evicted when another group has had a missing instance this long.", 1
    )
    eviction_pause: float = _seconds(
        600,
        "After an eviction or attempt that did not help: until somebody is evicted again for the"
        " service; doubled each time, without bound.",
        1,
    )
    flap_patience: float = _seconds(
        30,
        "Nobody is evicted for room of a node or of chips that are away for less; doubled, up to"
        " `due_back`, each time that they returned within that.",
        0,
    )
    restart_after: float = _seconds(
        10,
        "A training job that lost a pod is started anew when the pod has not come back after this.",
        0,
    )
    spare_patience: float = _seconds(
        60,
        "How long such a job waits for the room of its last size before it starts at a smaller"
        " one; from its first lost pod.",
        0,
    )
    grow_interval: float = _seconds(
        600,
        "A running training job is not restarted at a larger size before this, nor before ten times"
        " what a restart costs it; doubled each time that it did not last as long.",
        1,
    )
    grow_patience: float = _seconds(
        60,
        "How long a larger size has to fit before a running training job is restarted for it.",
        0,
    )
    preempt: Preempt = _setting(
        Preempt.HIGHER_PRIORITY,
        "Whose scale-ups a missing minimum may evict: those of a lower priority"
        " (`higher-priority`), of the same as well (`equal-or-higher`), or nobody's (`never`).",
    )
    honour_preemptable: bool = _setting(
        True, 'Whether mind-cluster/preemptable: "false" protects a service.'
    )
    max_service_priority: Annotated[
        int | None, BeforeValidator(lambda text: None if text == "" else text)
    ] = _number(
        None,
        "priority",
        "Most that mind-cluster/service-priority may ask for; empty: its PriorityClass.",
        -(10**9),
        10**9,
    )

    disruption_budgets: bool = _setting(
        True,
        "Have a PodDisruptionBudget refuse evictions (`kubectl drain`) of the running instances"
        " that the smallest ratio of a service needs.",
    )

    provisioning_request: _Text = _setting(
        "",
        "Class of the ProvisioningRequest (autoscaling.x-k8s.io) by which a minimum that has not"
        " fitted for `fit_patience` asks a pool of nodes to grow; empty switches it off.",
    )

    # Probes and API servers come from outside the pod.
    http_host: _Text = _setting("0.0.0.0", "Address that all servers listen on.")  # noqa: S104
    http_port: int = _number(
        8080, "port", "Port of health, metrics and snapshots; 0 switches them off.", 0, 65_535
    )
    metrics_port: int = _number(
        0,
        "port",
        "Port of the metrics over HTTPS, for those whose token may get `/metrics`; 0: they are on"
        " `http_port`, for everybody who reaches it.",
        0,
        65_535,
    )
    metrics_cert_file: _Path = _setting(
        "", "File with its certificate, renewed by others; empty: each replica makes one."
    )
    metrics_key_file: _Path = _setting(
        "", "File with its private key; empty means in the same file."
    )
    webhook_port: int = _number(
        0, "port", "Port of the admission webhook; 0 switches it off.", 0, 65_535
    )
    webhook_service: Annotated[str, pydantic.AfterValidator(lambda name: name and _named(name))] = (
        _setting(
            "",
            "What API servers call the webhook: a name or address of its URL; empty: the Service"
            " named as the install.",
        )
    )
    webhook_cert_file: _Path = _setting(
        "", "File with its certificate, renewed by others; empty: the leader makes one."
    )
    webhook_key_file: _Path = _setting(
        "", "File with its private key; empty means in the same file."
    )
    log_level: LogLevel = _setting("info", "Least severe level that is logged.")
    log_format: LogFormat = _setting("json", "`json`: one object per line; `text`: for people.")
    clusterd_address: _Text = _setting(
        "clusterd-grpc-svc.mindx-dl.svc.cluster.local", "Host of ClusterD, given to pods."
    )

    @pydantic.model_validator(mode="after")
    def _fit_together(self) -> Settings:
        wrong = []
        if not self.retry_period * JITTER < self.renew_deadline < self.lease_duration:
            wrong.append(
                f"{JITTER:g} * retry_period ({self.retry_period:g} s) < renew_deadline"
                f" ({self.renew_deadline:g} s) < lease_duration ({self.lease_duration:g} s) must"
                " hold, or a leader ends needlessly, or two act at once"
            )
        if self.backoff > self.backoff_max:
            wrong.append(
                f"backoff ({self.backoff:g} s) <= backoff_max ({self.backoff_max:g} s) must hold"
            )
        for server in ("webhook", "metrics"):
            key_file = f"{server}_key_file"
            cert_file = f"{server}_cert_file"
            if getattr(self, key_file) and not getattr(self, cert_file):
                wrong.append(f"{key_file} is set and {cert_file} is not")
        if self.mode is Mode.SHADOW and self.webhook_port:
            wrong.append("mode shadow does nothing, and webhook_port is set")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @property
    def webhook_name(self) -> str:
        """The name in the webhook's certificate."""
        return self.webhook_service or f"{self.install}.{self.lease_namespace}.svc"

    @property
    def policy(self) -> Policy:
        """The settings that decisions depend on: those with the names of its fields."""
        return msgspec.convert(
            self.model_dump(mode="json", include=set(Policy.__struct_fields__)), Policy
        )


class SettingsError(Exception):
    """All problems of the settings at once, one per line; the CLI prints them and exits with 2."""


_Given = dict[str, tuple[object, str]]
"""Name of a setting -> its value, and where it was set."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag per setting, and `--config`. `load` checks the values, so that all problems are
    shown at once."""
    group = parser.add_argument_group(
        "settings", "flag, else environment variable, else file, else default"
    )
    group.add_argument(
        "--config", metavar="FILE", default=None, help=f"YAML file of settings (${CONFIG_VARIABLE})"
    )
    for name, field in Settings.model_fields.items():
        text = f"{field.description} [{default_text(field)}; ${PREFIX}{name.upper()}]".replace(
            "%", "%%"
        )
        if field.annotation is bool:
            group.add_argument(
                flag(name), action=argparse.BooleanOptionalAction, default=None, help=text
            )
        else:
            group.add_argument(
                flag(name), metavar=unit(field).upper() or "VALUE", default=None, help=text
            )


def load(args: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """The settings from parsed flags and an environment; raises SettingsError with every problem
    found."""
    problems: list[str] = []
    path = getattr(args, "config", None) or environ.get(CONFIG_VARIABLE, "")
    given = _from_file(path, problems) if path else {}
    given |= _from_environment(environ, problems)
    for name in Settings.model_fields:
        value = getattr(args, name, None)
        if value is not None:
            given[name] = (value, f"flag {flag(name)}")
    settings = _validated(given, problems)
    if problems or settings is None:
        raise SettingsError("\n".join(problems))
    # Unique per process, also when a container restarts in its pod.
    identity = settings.identity or f"{socket.gethostname()[:200]}-{secrets.token_hex(4)}"
    return settings.model_copy(update={"identity": identity})


def _validated(given: _Given, problems: list[str]) -> Settings | None:
    try:
        return Settings.model_validate({name: value for name, (value, _) in given.items()})
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False)
    problems += [_refused(details, given) for details in found]
    wrong = {str(details["loc"][0]) for details in found if details["loc"]}
    if wrong:  # checks of several settings together need each of them valid
        valid = {name: item for name, item in given.items() if name not in wrong}
        _validated(valid, problems)
    return None


# Each problem says where the value was set, what was found, and the remedy.


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> _Given:
    names = {PREFIX + name.upper(): name for name in Settings.model_fields}
    # Only a near miss is an error: Kubernetes itself sets SCALER_* variables for a Service named
    # scaler.
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in names or variable == CONFIG_VARIABLE:
            continue
        if (removed := variable.removeprefix(PREFIX).lower()) in REMOVED:
            problems.append(f"variable {variable}: no such setting any more. {REMOVED[removed]}")
        for name in difflib.get_close_matches(variable, names, n=1, cutoff=0.9):
            problems.append(f"variable {variable}: no such setting. Did you mean {name}?")
    given: _Given = {}
    for variable, name in names.items():
        if variable in environ:
            given[name] = (environ[variable], f"variable {variable}")
    return given


def _from_file(path: str, problems: list[str]) -> _Given:
    import yaml  # noqa: PLC0415 - most starts have no file

    where = f"file {path}"
    try:
        with Path(path).expanduser().open("rb") as file:
            text = file.read(_MAX_FILE + 1)
        if len(text) > _MAX_FILE:
            raise ValueError("larger than 1 MiB")
        document = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        problems.append(
            f"{where}: cannot be read: {' '.join(str(error).split())}. Give a YAML mapping."
        )
        return {}
    if not isinstance(document, dict | None):
        problems.append(
            f"{where}: found {shown(document)}, not a mapping. Write `key: value` lines."
        )
        return {}
    given: _Given = {}
    for key, value in (document or {}).items():
        if key in Settings.model_fields:
            given[key] = (value, f"{where}, key {key}")
            continue
        close = difflib.get_close_matches(str(key).replace("-", "_"), Settings.model_fields, n=1)
        hint = f"Did you mean {close[0]}?" if close else "See docs/reference/settings.md."
        problems.append(f"{where}: no such setting: {shown(key)}. {REMOVED.get(str(key), hint)}")
    return given


def _refused(details: Any, given: _Given) -> str:
    """One pydantic error as a message with the place where the value was set."""
    name = str(details["loc"][0]) if details["loc"] else ""
    what = str(details["msg"]).removeprefix("Value error, ")
    if name not in given:
        named = [each for each in given if each in what]
        named.sort(key=what.index)  # settings that depend on each other
        return f"{', '.join(given[each][1] for each in named)}: {what}"
    field = Settings.model_fields[name]
    value, where = given[name]
    hint = f"{field.description} Default: {default_text(field)}."
    if str(value).startswith("tcp://"):
        hint = (
            "Kubernetes sets this for a Service of that name: set enableServiceLinks: false in the"
            " pod."
        )
    return f"{where}: found {shown(details['input'])}; {what[:1].lower()}{what[1:]}. {hint}"


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def unit(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""


def default_text(field: FieldInfo) -> str:
    value = field.default
    if value in ("", (), None):
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g} s" if isinstance(value, float) or unit(field) == "s" else str(value)
