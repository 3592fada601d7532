"""`make release-check`: every step that a release needs, one after the other, each with its verdict
at the end.

A step is ok, failed, or not run, with the reason; what a step itself could not try stands below it.
Ends with 0 only when every step ran and was ok, with 3 when none failed but something was not run,
otherwise with 1."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import release as release_of

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "manifests" / "helm"
WORDS = {0: "ok", 3: "not run"}
"""What the programs of a step end with; anything else is a failure."""
GIVEN = {
    "VOLCANO_BIN_DIR": "tests with Volcano's programs",
    "ASCEND_OPERATOR_BIN_DIR": "tests with Ascend Operator",
}
"""Programs that a person may have, and what is left out without them."""


@dataclass(frozen=True)
class Outcome:
    """What became of a step: one of ok, failed, not run; and what is to be said of it."""

    word: str
    why: str = ""
    seconds: float = 0.0


def ran(*command: str) -> tuple[int, str]:
    """How it ended, and the lines in which it says that it left something out. Its output is shown
    as it comes."""
    said = []
    with subprocess.Popen(  # noqa: S603
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            if re.search(
                r"not (tried|run|judged|made)\b|^SKIPPED|^no (chart|image)\b|^(chart|image):",
                line.strip(),
            ):
                said.append(line.strip())
    return process.returncode, "\n".join(dict.fromkeys(said))


def program(*command: str) -> Outcome:
    code, said = ran(*command)
    return Outcome(WORDS.get(code, "failed"), said)


def make(target: str, *words: str) -> Callable[[], Outcome]:
    def step() -> Outcome:
        code, said = ran("make", "--no-print-directory", target, *words)
        return Outcome("failed" if code else "ok", said)

    return step


def rest() -> Outcome:
    made = make("test-rest")()
    missing = [
        f"{what}: {name} names no folder"
        for name, what in GIVEN.items()
        if not os.environ.get(name)
    ]
    return Outcome(made.word, "\n".join([made.why, *missing]).strip())


def links() -> Outcome:
    return program(
        sys.executable, "-m", "pytest", "-q", "-n", "1", "--no-control-plane", "tests/test_docs.py"
    )


def helm() -> Outcome:
    """The chart by Helm itself, for the oldest and the newest Kubernetes."""
    charts = sorted(CHART.rglob("Chart.yaml"), key=lambda path: len(path.parts))
    if not charts:
        return Outcome("not run", "there is no chart below manifests/helm")
    helm_is = release_of.helm_program()
    if helm_is is None:
        return Outcome("not run", "helm is not installed, and the tests have built none")
    folder = str(charts[0].parent)
    lint, _ = ran(helm_is, "lint", "--strict", folder)
    codes = [lint]
    for version in ("1.27.0", "1.36.0"):
        code = subprocess.run(  # noqa: S603
            [helm_is, "template", "check", folder, "--kube-version", version],
            stdout=subprocess.DEVNULL,
            check=False,
        ).returncode
        codes.append(code)
    return Outcome(
        "failed" if any(codes) else "ok", f"lint --strict, template for 1.27 and 1.36: {codes}"
    )


def image() -> Outcome:
    return program(sys.executable, str(ROOT / ".ci/image.py"))


def release() -> Outcome:
    """Made twice, as a draft where it must be, and compared byte by byte."""
    command = [sys.executable, str(ROOT / ".ci/release.py"), "--draft"]
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder, turn) for turn in ("first", "second")]
        said = ""
        for out in outs:
            code, said = ran(*command, "--out", str(out))
            if code:
                return Outcome("failed", "see above")
        first, second = ((out / "SHA256SUMS").read_text().splitlines() for out in outs)
        differ = sorted(line.split()[1] for line in set(first) ^ set(second))
        if differ:
            return Outcome(
                "failed", f"two releases of one tree differ: {', '.join(sorted(set(differ)))}"
            )
        draft = (outs[0] / "NOTES.md").read_text().splitlines()[0]
    return Outcome(
        "ok", "\n".join([f"{len(first)} files, twice the same", said, draft.removeprefix("# ")])
    )


STEPS: dict[str, Callable[[], Outcome]] = {
    "static": make("static"),
    "tests": make("test"),
    "rest": rest,
    "links": links,
    "chart": helm,
    "image": image,
    "release": release,
}


def table(outcomes: dict[str, Outcome]) -> str:
    lines = []
    for name, outcome in outcomes.items():
        took = f" ({outcome.seconds:.0f} s)" if outcome.seconds else ""
        lines.append(f"{outcome.word:8} {name}{took}")
        lines += [f"           {line}" for line in outcome.why.splitlines() if line]
    return "\n".join(lines)


def verdict(outcomes: dict[str, Outcome]) -> int:
    words = {outcome.word for outcome in outcomes.values()}
    return 1 if "failed" in words else 3 if "not run" in words else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Try all that is to be tried before a release.")
    parser.add_argument(
        "--without",
        nargs="*",
        default=[],
        choices=STEPS,
        help="steps to leave out; they are not ok",
    )
    options = parser.parse_args()
    outcomes = {}
    for name, step in STEPS.items():
        print(f"== {name}", flush=True)
        if name in options.without:
            outcomes[name] = Outcome("not run", "--without")
            continue
        started = time.monotonic()
        made = step()
        outcomes[name] = Outcome(made.word, made.why, time.monotonic() - started)
    code = verdict(outcomes)
    print(f"\n{table(outcomes)}")
    print(
        {0: "Everything ran, all ok.", 3: "Nothing failed, but not everything was run."}.get(
            code, "Not fit."
        )
    )
    return code


if __name__ == "__main__":
    sys.exit(main())
