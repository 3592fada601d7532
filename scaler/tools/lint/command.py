"""`scaler lint`: finds errors in rules, and in the jobs that name them, before they are applied to
a cluster.

Reads files and prints; scaler.rules decides what an error is. Writes files only with --write, each
with a backup."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from scaler.rules.finding import encodable
from scaler.tools.common.output import Members, add_output, converted, in_one_line
from scaler.tools.common.render import as_values, render
from scaler.tools.common.usage import UnreadableError, add_renamed, wrong
from scaler.tools.lint.files import Report, lint
from scaler.tools.lint.repair import repair
from scaler.tools.lint.source import BOM, Source
from scaler.tools.lint.unchecked import counted

HELP = """Check scaling rules and the workloads that name them.

FILE is a ConfigMap (YAML, also among other documents), the bare JSON of a rule, workloads of any
kind, what `kubectl get -o yaml` prints, a folder of manifests (*.yaml, *.yml, *.json, searched to
the bottom), or - for standard input. Files given together are checked against each other.

  scaler lint scaling-rule.yaml
  scaler lint deployment/               the rule and the workloads of a service
  kubectl -n mindie get configmap,acjob,deploy,lws -o yaml | scaler lint -
  scaler lint --fix scaling-rule.yaml   print the file with all corrected that has one cure only
  scaler lint --write deployment/       the same in place; what was there before is kept as FILE.bak

Exit code: 0 clean or warnings only, 1 errors (with --fix and --write: errors that are left), 2
usage."""

EXIT_ERRORS = 1
SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "<stdin>"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="manifest, bare JSON, folder; - = standard input"
    )
    add_output(parser)
    parser.add_argument(
        "--fix",
        action="store_true",
        help="print the file, corrected where the cure is beyond doubt",
    )
    parser.add_argument(
        "--write", action="store_true", help="correct the files in place, and keep FILE.bak"
    )
    add_renamed(parser, "-w", now="--write")


def run(args: argparse.Namespace) -> int:
    """Print findings on standard output, errors on standard error; the exit code is in HELP."""
    wrong = _wrong_usage(args)
    if wrong:
        return _usage(wrong)
    try:
        sources = []
        for name in args.files:
            sources.extend(_sources(name))
        if not sources:
            return _usage(
                f"no {', '.join(f'*{suffix}' for suffix in SUFFIXES)} below {' '.join(args.files)}"
            )
        if args.fix or args.write:
            sources = list({source.name: source for source in sources}.values())
            return max(_fix(source, sources, write=args.write) for source in sources)
    except OSError as error:
        raise UnreadableError(f"{error.filename}: {error.strerror}") from None
    report = lint(sources)
    sys.stdout.write(
        _text(report, sources) if args.format == "text" else converted(_json(report), args.format)
    )
    return 0 if report.ok else EXIT_ERRORS


def _wrong_usage(args: argparse.Namespace) -> str:
    if args.files.count("-") > 1:
        return "standard input can be read only once; give - once"
    if args.write and "-" in args.files:
        return "--write writes files in place; standard input is none: use --fix, which prints"
    if (args.fix or args.write) and args.format != "text":
        return "--fix and --write answer with files; give no -o"
    if args.fix and not args.write and (len(args.files) != 1 or Path(args.files[0]).is_dir()):
        return (
            "--fix corrects one file and prints it; give one FILE, or --write to correct several in"
            " place"
        )
    return ""


def _sources(name: str) -> list[Source]:
    """The file `name`, or the manifests below a folder in the order of their names."""
    if name == "-":
        return [Source(STDIN, sys.stdin.buffer.read())]
    path = Path(name)
    if not path.is_dir():
        return [_source(path, listed=True)]
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    return [_source(file, listed=False) for file in files]


def _source(path: Path, *, listed: bool) -> Source:
    return Source(encodable(str(path)), path.read_bytes(), listed)


def _fix(source: Source, beside: Sequence[Source], *, write: bool) -> int:
    """Correct one file; standard error gets what was corrected, and what is left to do."""
    result = repair(source, beside)
    if write and result.changed:
        kept = write_in_place(Path(source.name), result.text.encode("utf-8"))
        sys.stderr.write(
            f"{source.name}: {_count(result.changed, 'change')} made; as it was: {kept}\n"
        )
    elif write and source.listed and not result.remaining:
        sys.stderr.write(f"{source.name}: nothing to correct\n")
    elif not write:
        sys.stdout.flush()
        sys.stdout.buffer.write(result.text.encode("utf-8") if result.text else source.data)
        sys.stderr.write(f"{source.name}: {_count(result.changed, 'change')}\n")
    if result.remaining:
        left = _count(len(result.remaining), "error")
        sys.stderr.write(f"{source.name}: {left} left, the cure of which is not beyond doubt:\n")
        shown = render(
            result.remaining, {source.name: result.text}, color=_wants_color(sys.stderr.isatty())
        )
        sys.stderr.write(shown)
    return EXIT_ERRORS if result.remaining else 0


def write_in_place(path: Path, data: bytes) -> Path:
    """Write a file again, whole or not at all, and keep the old content under the returned name.
    Raises OSError.

    An existing backup is never overwritten: the first one has the user's own text."""
    target = path.resolve()
    backup = _unused_backup(target)
    shutil.copy2(target, backup)
    half = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        half.write_bytes(data)
        shutil.copymode(target, half)
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)
    return backup


def _unused_backup(target: Path) -> Path:
    """FILE.bak, or FILE.bak.1 and so on when that exists."""
    backup = target.with_name(f"{target.name}.bak")
    number = 0
    while backup.exists():
        number += 1
        backup = target.with_name(f"{target.name}.bak.{number}")
    return backup


def _json(report: Report) -> str:
    members = ("file", "level", "code", "pointer", "line", "column", "message", "hint")
    answer = Members(
        ok=report.ok,
        findings=as_values(report.findings, members),
        checked=report.checked,
        left_out=report.left_out,
    )
    return in_one_line(answer)


def _text(report: Report, sources: list[Source]) -> str:
    texts = {}
    for source in sources:
        texts[source.name] = source.data.decode("utf-8", "replace").removeprefix(BOM)
    levels = Counter(one.level for one in report.findings)
    errors = levels["error"]
    warnings = levels["warning"]
    found = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"
    body = render(report.findings, texts, color=_wants_color(sys.stdout.isatty()))
    left_out = f"not looked at: {counted(report.left_out)}\n" if report.left_out else ""
    return f"{body}{left_out}{_looked_at(report)}: {found}\n"


def _looked_at(report: Report) -> str:
    """`1 rule, 5 AscendJobs and 1 LeaderWorkerSet checked`."""
    parts = [_count(number, kind) for kind, number in report.checked.items()] or ["nothing"]
    return (
        f"{' and '.join([', '.join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)} checked"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _wants_color(terminal: bool) -> bool:
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _usage(message: str) -> int:
    return wrong("lint", message)
