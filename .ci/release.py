"""`make release`: everything that is published of one version, into dist/; the same commit gives
the same bytes.

Chart, manifests, wheel, bills of materials, notes, checksums; and the image, where buildah and a
base are to be had. It refuses a tree that is not clean, a version that is not the same everywhere
or one of development, and a changelog without a head for it or with unreleased entries; `--draft`
takes all but the version as they are, and the notes say so. Only files that git knows are taken."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import image
import yaml

ROOT = Path(__file__).resolve().parent.parent
NAME = "mind-cluster-scaler"
VERSION = r"([0-9]+\.[0-9]+\.[0-9]+[\w.+-]*?)"
PLACES = (
    (r"scaler/__init__\.py", rf'^__version__ = "{VERSION}"$'),
    (r"pyproject\.toml", rf'^version = "{VERSION}"$'),
    (r"manifests/image/Dockerfile", rf'image\.version="{VERSION}"'),
    (r"manifests/.*\.yaml", rf"^    newTag: {VERSION}$"),
    (r"manifests/helm/(.*/)?Chart\.yaml", rf"^(?:version|appVersion): \"?{VERSION}\"?$"),
    (
        r"manifests/.*|docs/.*\.md|README.*\.md",
        rf"\b{NAME}[:-]{VERSION}(?=[\s\"'.:/`]|$|-linux|-manifests)",
    ),
    (r"docs/.*\.md", rf"; or newTag: {VERSION}$"),
)
"""Which files say the version, and how."""
DEVELOPMENT = "-dev"
"""What the version between two releases ends with."""
OF_OTHERS = re.compile(r"CHANGELOG\.md|docs/(zh/)?howto/upgrade\.md|docs/reference/support\.md")
"""Pages that tell of other versions."""


class ReleaseError(Exception):
    """There is no release of this; `str()` says why and what to do."""


def git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise ReleaseError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout


def tracked() -> list[str]:
    return sorted(
        name for name in git("ls-files", "-z").split("\0") if name and (ROOT / name).is_file()
    )


def versions(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """`file:line` and the version that stands there, of these files."""
    return [
        (f"{name}:{text.count(chr(10), 0, match.start(1)) + 1}", match[1])
        for name, text in texts.items()
        if not OF_OTHERS.fullmatch(name)
        for where, what in PLACES
        if re.fullmatch(where, name)
        for match in re.finditer(what, text, re.MULTILINE)
    ]


def the_version(texts: Mapping[str, str]) -> str:
    """Raises ReleaseError unless all places say the same."""
    found = versions(texts)
    own = next(
        (said for place, said in found if place.startswith("scaler/__init__.py:")), "nothing"
    )
    others = sorted({f"  {place}: {said}" for place, said in found if said != own})
    if others:
        raise ReleaseError(
            "\n".join([f"scaler/__init__.py says {own}, and these say something else:", *others])
        )
    return own


def refuse_unreleased(version: str, unreleased: str) -> None:
    """Raises ReleaseError for a version of development, and for entries that no version has: two
    trees of one version would differ."""
    if version.endswith(DEVELOPMENT):
        raise ReleaseError(
            f"{version} is what comes after a release: write the version without {DEVELOPMENT};"
            " to try it as it is: make release ARGS=--draft"
        )
    if re.search(r"^- ", unreleased, re.MULTILINE):
        raise ReleaseError(
            "CHANGELOG.md has entries below Unreleased: put them below the head of this release"
        )


def notes(changelog: str, version: str, draft: bool) -> str:
    """What the changelog says of the version; of a draft that has no head yet, what is
    unreleased."""
    sections = dict(
        re.findall(
            r"^## \[?([^\]\s]+)\]?.*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
        )
    )
    if not draft:
        refuse_unreleased(version, sections.get("Unreleased", ""))
    if version in sections:
        date = re.search(
            rf"^## \[?{re.escape(version)}\]? - (\d{{4}}-\d\d-\d\d)$", changelog, re.MULTILINE
        )
        if date is None:
            raise ReleaseError(
                f"CHANGELOG.md: write the head of this release as `## [{version}] - YYYY-MM-DD`"
            )
        return f"# {NAME} {version}, {date[1]}\n{sections[version]}"
    if not draft:
        head = f"CHANGELOG.md has no head `## [{version}] - YYYY-MM-DD`: put it below Unreleased"
        raise ReleaseError(f"{head}; to try the release without one: make release ARGS=--draft")
    return f"# {NAME} {version}: draft, not released\n{sections.get('Unreleased', '')}"


def packed(files: Mapping[str, Path], moment: int, *, compress: bool = True) -> bytes:
    """A tar archive of these files by their names in it, without a trace of who made it when."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            entry.mtime = moment
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with path.open("rb") as content:
                tar.addfile(entry, content)
    return gzip.compress(plain.getvalue(), mtime=0) if compress else plain.getvalue()


def below(folder: Path) -> dict[str, Path]:
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def staged(folder: Path, names: list[str]) -> None:
    """Copies, so that nothing else of the clone gets into anything. Links become files."""
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)


def helm_program() -> str | None:
    """The one on PATH, or the newest that the tests have built."""
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / NAME / "control-plane"
    )
    built = [str(path) for path in sorted(cache.glob("helm-*/helm"))]
    return shutil.which("helm") or (built[-1] if built else None)


def packed_chart(stage: Path, out: Path, moment: int) -> Path | None:
    """As `helm package` would, which writes the time into it. None where there is no chart."""
    found = sorted((stage / "manifests/helm").rglob("Chart.yaml"), key=lambda path: len(path.parts))
    if not found:
        return None
    said = yaml.safe_load(found[0].read_text())
    files = {f"{said['name']}/{name}": path for name, path in below(found[0].parent).items()}
    target = out / f"{said['name']}-{said['version']}.tgz"
    target.write_bytes(packed(files, moment))
    return target


def chart(stage: Path, out: Path, moment: int) -> str:
    """What there is to say of it. Raises ReleaseError when Helm finds anything."""
    target = packed_chart(stage, out, moment)
    if target is None:
        return "no chart: there is no Chart.yaml below manifests/helm"
    helm = helm_program()
    if helm is None:
        return "chart: not judged by helm, which is not installed"
    command = [helm, "lint", "--strict", str(target)]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if linted.returncode:
        raise ReleaseError(f"helm lint --strict {target.name}:\n{linted.stdout}{linted.stderr}")
    return "chart: helm lint --strict finds nothing"


def manifests(stage: Path, out: Path, version: str, moment: int, name: str | None) -> None:
    """All kustomizations. `name`: the image in a registry, REGISTRY/NAME with `:TAG` or
    `@sha256:...` behind it."""
    folder = stage / "manifests"
    if name:
        place, digest, number = _parts(name)
        image_is = f"    newName: {place}\n    " + (
            f"digest: {digest}" if digest else f"newTag: {number or version}"
        )
        for path in folder.rglob("kustomization.yaml"):
            path.write_text(
                re.sub(rf"^    newTag: {VERSION}$", image_is, path.read_text(), flags=re.MULTILINE)
            )
    wanted = {
        name: path
        for name, path in below(folder).items()
        if not name.startswith(("helm/", "image/"))
    }
    files = {f"{NAME}-{version}/manifests/{name}": path for name, path in wanted.items()}
    files[f"{NAME}-{version}/LICENSE"] = stage / "LICENSE"
    (out / f"{NAME}-{version}-manifests.tar.gz").write_bytes(packed(files, moment))


def _parts(name: str) -> tuple[str, str, str]:
    """Place, digest, tag."""
    found = re.fullmatch(r"([^@\s]+?)(?::([\w.-]+))?(?:@(sha256:[0-9a-f]{64}))?", name)
    if found is None:
        raise ReleaseError(
            f"{name} is no image: REGISTRY/NAME, with :TAG or @sha256:DIGEST behind it"
        )
    return found[1], found[3] or "", found[2] or ""


def wheel(stage: Path, out: Path, moment: int) -> None:
    """By the build backend that pyproject.toml pins, which pip puts into an environment of its
    own."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(out),
        str(stage),
    ]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(moment)}
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        raise ReleaseError(f"the wheel could not be built:\n{done.stderr[-2000:]}")


def lock(stage: Path, out: Path) -> None:
    """What the wheel is installed with, under its own name: the directions of
    docs/reference/release.md name it."""
    shutil.copy(stage / "requirements.lock", out)


def bill(stage: Path, out: Path, version: str, moment: int) -> None:
    script = stage / "manifests/image/sbom.py"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(moment)}
    command = [sys.executable, str(script), str(stage / "requirements.lock"), version]
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=True, env=environment
    )
    (out / f"{NAME}-{version}.cdx.json").write_text(done.stdout)


def oci(stage: Path, out: Path, version: str, base: str | None, architecture: str) -> str:
    """The image as an OCI archive, with its bill beside it. What there is to say of it."""
    image.FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        image.tools()
        made = base or image.debian_base(architecture)
    except image.NotTriedError as error:
        return f"no image: {error}"
    name = f"localhost/{NAME}:{version}"
    moment = image.moment()
    image.build(stage, made, moment, name, architecture)
    with tempfile.TemporaryDirectory(dir=image.FOLDER) as folder:
        digest = image.unpacked(name, Path(folder))
        index = json.loads(Path(folder, "index.json").read_text())
        # podman and docker take the one, containerd (`ctr -n k8s.io images import`) the other.
        full = f"docker.io/library/{NAME}:{version}"
        index["manifests"][0]["annotations"] = {
            "org.opencontainers.image.ref.name": full,
            "io.containerd.image.name": full,
        }
        Path(folder, "index.json").write_text(json.dumps(index))
        stem = f"{NAME}-{version}-linux-{architecture}"
        (out / f"{stem}.oci.tar").write_bytes(packed(below(Path(folder)), moment, compress=False))
    words = ("-c", "print(open('/app/sbom.cdx.json').read(), end='')")
    (out / f"{stem}.cdx.json").write_text(
        image.in_cage(name, *words, options=("--network=none", "--entrypoint=python"))
    )
    return f"image: linux/{architecture} on {made}, {digest}"


def release(out: Path, options: argparse.Namespace) -> list[str]:
    """Fills `out`, which is made anew. What is to be said of it. Raises ReleaseError."""
    names = tracked()
    texts = {
        name: (ROOT / name).read_text("utf-8", "replace")
        for name in names
        if not name.startswith("tests/")
    }
    version = the_version(texts)
    if options.version and options.version != version:
        raise ReleaseError(f"the tree is {version}, not {options.version}")
    if not options.draft and (dirty := git("status", "--porcelain").strip()):
        raise ReleaseError(f"the tree is not clean, commit or remove these:\n{dirty}")
    text = notes(texts["CHANGELOG.md"], version, options.draft)
    moment = image.moment()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / "NOTES.md").write_text(text)
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder, "stage")
        staged(stage, names)
        said = [chart(stage, out, moment)]
        said += [
            oci(stage, out, version, options.base, one)
            for one in options.architectures.split(",")
            if one
        ]
        bill(stage, out, version, moment)
        wheel(stage, out, moment)
        lock(stage, out)
        manifests(stage, out, version, moment, options.image)
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}"
        for name, path in below(out).items()
    ]
    (out / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    return said


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Make everything that is published of this version."
    )
    parser.add_argument("version", nargs="?", help="refuse if the tree is another one")
    parser.add_argument(
        "--draft", action="store_true", help="of a tree as it is, before its changelog has a head"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--base", help="image with Python to build on (default: a Debian made here)"
    )
    parser.add_argument(
        "--image", help="where the manifests find it: REGISTRY/NAME, with :TAG or @sha256:DIGEST"
    )
    parser.add_argument(
        "--architectures",
        default=image.native(),
        help="of the images, with commas; empty: none (default: this one)",
    )
    return parser.parse_args(words)


def main() -> int:
    options = arguments()
    try:
        said = release(options.out, options)
    except ReleaseError as error:
        sys.stderr.write(f"No release: {error}\n")
        return 1
    print("\n".join([(options.out / "SHA256SUMS").read_text().rstrip(), *said]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
