"""`scaler lint`: find what is wrong with rules and with the jobs that name them, before they reach a cluster.

Reads files and prints; what is wrong is decided by scaler.rules. Never writes a file.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from scaler.rules.finding import encodable
from scaler.tools.linting.lint import BOM, Report, Source, lint
from scaler.tools.linting.render import render
from scaler.tools.linting.repair import repair
from scaler.tools.output import add_output, converted

HELP = """Say what is wrong with a scaling rule, and with the AscendJobs that name it.

FILE is a ConfigMap (YAML, also among other documents), the bare JSON of a rule, a folder of manifests (*.yaml, *.yml,
*.json, searched to the bottom), or - for standard input. Files given together are checked against each other.

  scaler lint scaling-rule.yaml
  scaler lint deployment/                    the rule and the jobs of a service
  kubectl get configmap scaling-rule -o yaml | scaler lint -
  scaler lint --fix scaling-rule.yaml        print the corrected file

Exit code: 0 clean or warnings only, 1 errors, 2 usage."""

EXIT_ERRORS = 1
EXIT_USAGE = 2
SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "<stdin>"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="ConfigMap, bare JSON, folder of manifests; - = standard input"
    )
    add_output(parser)
    parser.add_argument("--fix", action="store_true", help="print the corrected file where the cure is beyond doubt")


def run(args: argparse.Namespace) -> int:
    """Answer on standard output, complain on standard error; the exit code is in HELP."""
    if args.fix and (len(args.files) != 1 or args.format != "text" or Path(args.files[0]).is_dir()):
        return _usage("--fix corrects one file and prints it; give one FILE, and no --format")
    if args.files.count("-") > 1:
        return _usage("standard input can be read only once; give - once")
    try:
        sources = [source for name in args.files for source in _sources(name)]
    except OSError as error:
        return _usage(f"cannot read {error.filename}: {error.strerror}")
    if not sources:
        return _usage(f"no {', '.join(f'*{suffix}' for suffix in SUFFIXES)} below {' '.join(args.files)}")
    if args.fix:
        return _fix(sources[0])
    report = lint(sources)
    sys.stdout.write(_text(report, sources) if args.format == "text" else converted(_json(report), args.format))
    return 0 if report.ok else EXIT_ERRORS


def _sources(name: str) -> list[Source]:
    """The file that `name` says, or the manifests below a folder in the order of their names."""
    if name == "-":
        return [Source(STDIN, sys.stdin.buffer.read())]
    path = Path(name)
    if not path.is_dir():
        return [_source(path, listed=True)]
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    return [_source(file, listed=False) for file in files]


def _source(path: Path, *, listed: bool) -> Source:
    return Source(encodable(str(path)), path.read_bytes(), listed)


def _fix(source: Source) -> int:
    result = repair(source)
    if result.remaining:
        sys.stderr.write(f"{source.name}: not corrected, because the cure of this is not beyond doubt:\n")
        sys.stderr.write(render(result.remaining, {}, color=_wants_color(sys.stderr.isatty())))
        return EXIT_ERRORS
    sys.stdout.flush()
    sys.stdout.buffer.write(result.text.encode("utf-8"))
    sys.stderr.write(f"{source.name}: {_count(result.changed, 'change')}\n")
    return 0


def _json(report: Report) -> str:
    names = ("file", "level", "code", "pointer", "line", "column", "message", "hint")
    findings = [{name: getattr(finding, name) for name in names} for finding in report.findings]
    return msgspec.json.encode({"ok": report.ok, "findings": findings}).decode() + "\n"


def _text(report: Report, sources: list[Source]) -> str:
    texts = {source.name: source.data.decode("utf-8", "replace").removeprefix(BOM) for source in sources}
    errors, warnings = (sum(one.level == level for one in report.findings) for level in ("error", "warning"))
    looked_at = f"{_count(report.rules, 'rule')} and {_count(report.jobs, 'job')} checked"
    found = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"
    body = render(report.findings, texts, color=_wants_color(sys.stdout.isatty()))
    return f"{body}{looked_at}: {found}\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _wants_color(terminal: bool) -> bool:
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _usage(message: str) -> int:
    sys.stderr.write(f"scaler lint: error: {message}\nTry 'scaler lint --help'.\n")
    return EXIT_USAGE
