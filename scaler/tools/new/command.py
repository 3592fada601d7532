"""`scaler new`: writes a short file for `scaler deploy`, and a scenario to try it.

Must not: know what the file means (scaler.tools.common.short_file does), or overwrite files."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path

from scaler.tools.common.usage import add_renamed

HELP = """Write a short file of a service, and a scenario to try it in.

With --replicas also the ElasticService by which a new service starts with so many instances, and
not with all.

  scaler new 4P2D --platform ome -f my-service
  scaler demo --interactive -f my-service --nodes 12
  scaler deploy apply -c my-service/service.yaml

Exit code: 0 written, 1 something of that name is there, 2 usage."""

EXIT_FAILED = 1
ELASTIC_SERVICE = "elastic-service.yaml"
MOST = 64
"""Instances of a group, the limit of OME."""
STEPS = 5
_SHORT = re.compile(r"([1-9][0-9]?)[pP]([1-9][0-9]?)[dD]")

_HEAD = """\
# A service for `scaler deploy apply -c service.yaml`. Every key: docs/reference/service-file.md
app_name: my-service
app_namespace: default
platform: {platform}
ratios: [{ratios}]   # what may run, the largest first; it never runs below the last
"""
_OME = """\
inference_service:
  model_name: qwen2-5-7b-instruct   # a model that OME knows
  engine:                           # prefill
    min_replicas: {prefill}
    image: lmsysorg/sglang:v0.5.4-npu
    npu_num: 8                      # of each pod
    tp_size: 8
    node_selector: &nodes {{accelerator-type: module-910b-8}}
  decoder:
    min_replicas: {decode}
    image: lmsysorg/sglang:v0.5.4-npu
    npu_num: 8
    tp_size: 8
    node_selector: *nodes
mf_store: {{image: "lmsysorg/sglang:v0.5.4-npu"}}
"""
_AIBRIX = """\
storm_service:
  model_name: qwen3-moe
  model_path: /mnt/models/Qwen3-30B-A3B   # on the nodes
  prefill: &instances
    replicas: {prefill}
    podGroupSize: 1                       # pods of an instance
    dp_size: 1
    tp_size: 8
    npu_num: 8                            # of each pod
    image: vllm-ascend:v0.11.0
    nodeSelector: {{accelerator-type: module-910b-8}}
  decode:
    <<: *instances
    replicas: {decode}
  routing: {{image: "vllm-ascend:v0.11.0"}}
"""
_MOTOR = """\
motor_service:
  image: mindie:2.0.RC1-800I-A2-py311   # of every pod
  hardware: 800I_A2                     # or 800I_A3
  model_path: /mnt/models/deepseek-r1   # on the nodes
  prefill:
    replicas: {prefill}                         # an AscendJob each
    pod_num: 1                          # pods of an instance
  decode:
    replicas: {decode}
    pod_num: 1
# MindIE's own ConfigMaps (boot.sh and its like) must be in the namespace: \
docs/reference/service-file.md
"""
_SECTIONS = {"ome": _OME, "aibrix": _AIBRIX, "mindie-motor": _MOTOR}
_SCENARIO = """\
# scaler simulate scenario.yaml, or: scaler demo --interactive -f . --nodes {more}
title: {ratio} on {platform} loses a node, and gets it back
nodes:
  - {{name: "npu-{{}}", count: {nodes}, \
labels: {{accelerator: huawei-Ascend910, accelerator-type: module-910b-8}}}}
  - {{name: "cpu-{{}}", count: 2, npu: 0}}
manifests: [service.yaml]
events:
  - {{at: 5m, name: lost, node: {{names: [npu-0], becomes: not-ready}}}}
  - {{at: 12m, name: back, node: {{names: [npu-0], becomes: ready}}}}
expect:
  - {{at: 4m30s, running: {{{first}: {prefill}, {second}: {decode}}}, complete: true}}
  - {{within: 4m, after: back, running: {{{first}: {prefill}, {second}: {decode}}}, complete: true}}
until: 18m
"""

_ELASTIC_SERVICE = """\
# Apply it before the service, which then starts with so many instances. An autoscaler goes on from
# this number. Where you change app_name or app_namespace in service.yaml, change them here, too.
apiVersion: scaler.mind-cluster.io/v1alpha1
kind: ElasticService
metadata: {{name: {rule}-my-service, namespace: default}}
spec: {{rule: {rule}, jobID: my-service, replicas: {replicas}}}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ratio", metavar="4P2D", type=_ratio, help="prefill and decode instances")
    parser.add_argument(
        "--platform", choices=_SECTIONS, required=True, help="what runs the service"
    )
    parser.add_argument(
        "-f", "--folder", metavar="DIR", type=Path, help="the folder (default: as 4p2d)"
    )
    parser.add_argument(
        "--replicas",
        metavar="N",
        type=_replicas,
        help="instances to start with, prefill and decode together (default: all)",
    )
    add_renamed(parser, "-o", "--output", now="-f")


def _replicas(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 2 * MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to {2 * MOST}")
    return int(text)


def _ratio(text: str) -> tuple[int, int]:
    found = _SHORT.fullmatch(text)
    if found is None or max(map(int, found.groups())) > MOST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no ratio such as 4P2D, with at most {MOST} of each"
        )
    return int(found[1]), int(found[2])


def run(args: argparse.Namespace) -> int:
    """Write both files."""
    prefill, decode = args.ratio
    short = f"{prefill}P{decode}D"
    motor = args.platform == "mindie-motor"
    groups = ("group0", "group1") if motor else ("prefill", "decode")
    words = {
        "platform": args.platform,
        "prefill": prefill,
        "decode": decode,
        "first": groups[0],
        "second": groups[1],
        "ratios": ", ".join(ladder(prefill, decode)),
        "ratio": short,
        "nodes": prefill + decode,
        "more": 2 * (prefill + decode),
        "rule": "scaling-rule" if motor else "my-service-rule",
        "replicas": args.replicas,
    }
    folder = args.folder or Path(short.lower())
    files = {"service.yaml": _HEAD + _SECTIONS[args.platform], "scenario.yaml": _SCENARIO}
    if args.replicas is not None:
        files[ELASTIC_SERVICE] = _ELASTIC_SERVICE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            if (folder / name).exists():
                sys.stderr.write(
                    f"scaler new: {folder / name}: is there already; nothing was written\n"
                )
                return EXIT_FAILED
        for name, text in files.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text.format(**words))
    except OSError as error:
        sys.stderr.write(f"scaler new: {error.filename or folder}: {error.strerror or error}\n")
        return EXIT_FAILED
    sys.stdout.write(_next(folder, words["more"], ELASTIC_SERVICE in files))
    return 0


def ladder(prefill: int, decode: int) -> list[str]:
    """At most so many ratios from this one down to 1P1D, each about the same part smaller."""
    parts = [number / STEPS for number in range(STEPS, 0, -1)]
    found = [f"{max(1, round(prefill * part))}P{max(1, round(decode * part))}D" for part in parts]
    return list(dict.fromkeys([*found, "1P1D"]))


def _next(folder: Path, nodes: object, starts_small: bool) -> str:
    service = folder / "service.yaml"
    scenario = folder / "scenario.yaml"
    before = ""
    if starts_small:
        before = f"  kubectl apply -f {shlex.quote(str(folder / ELASTIC_SERVICE))}\n"
    return f"""{service} describes the service, {scenario} a cluster in which to try it.
The first command keeps that cluster up, and prints a KUBECONFIG for another terminal, in which the
last one applies what you change in the file:

  scaler demo --interactive -f {shlex.quote(str(folder))} --nodes {nodes}
{before}  scaler deploy apply -c {shlex.quote(str(service))}
"""
