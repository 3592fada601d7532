"""`make image-try`: builds the image without privileges and looks at it; `build` is also what a
release uses.

Debian's buildah, podman and runc, in a storage of its own below build/image. Where they are missing
and may be installed, apt does it. The base is `--base`, or a Debian with its Python made by
mmdebstrap: that proves the Dockerfile and all that the image does, not the official base. Prints
one line for each check, with what was measured, and what was not tried. Ends with 1 when a check
failed, with 3 when none failed but nothing could be tried here, or the machine was too busy to tell
how fast it is."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import certifi

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "image"
DEBIAN = ("buildah", "podman", "runc", "mmdebstrap", "uidmap")
MEGABYTES = 100
SECONDS = 2.0
PORT = 18080
AUTHORITY = Path(certifi.where())
"""Any certificates: nobody is asked for one."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_STORE = (
    "--root",
    str(FOLDER / "storage"),
    "--runroot",
    str(FOLDER / "run"),
    "--storage-driver",
    "overlay",
)
_CAGE = (
    "--rm",
    "--ulimit=nofile=1024:1024",
    "--ulimit=nproc=1024:1024",
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
)
_LOOK = """
import json, os
lines = open("/proc/self/status").read().splitlines()
status = dict(line.split(":\\t", 1) for line in lines if ":\\t" in line)
def writable(path):
    try:
        open(os.path.join(path, "x"), "w").close()
        return True
    except OSError:
        return False
places = ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"]
programs = [name for place in places if os.path.isdir(place) for name in os.listdir(place)]
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(),
    "capabilities": int(status["CapEff"], 16) | int(status["CapBnd"], 16),
    "writable": [path for path in ("/", "/app", "/etc", "/usr/bin") if writable(path)],
    "programs": sorted(set(programs)),
    "bill": len(json.load(open("/app/sbom.cdx.json"))["components"]),
    "pip": any(os.path.exists(os.path.join(path, "pip")) for path in __import__("sys").path),
}))
"""


class NotTriedError(Exception):
    """Nothing of this can be had on this machine; `str()` says why."""


def native() -> str:
    """This machine's architecture in the words of images."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def run(*command: str, check: bool = True, seconds: float = 1200) -> str:
    """Its output. Raises CalledProcessError with the end of what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)  # noqa: S603
    if check and done.returncode:
        sys.stderr.write((done.stdout + done.stderr)[-3000:])
        raise subprocess.CalledProcessError(done.returncode, command[0])
    return done.stdout


def buildah(*words: str) -> str:
    return run("buildah", *_STORE, *words)


def podman(*words: str, check: bool = True) -> str:
    """With runc: crun fails where there is no systemd."""
    return run(
        "podman",
        *_STORE,
        "--runtime",
        shutil.which("runc") or "/usr/sbin/runc",
        *words,
        check=check,
    )


def in_cage(image: str, *words: str, options: tuple[str, ...] = ("--network=none",)) -> str:
    """What it prints in a container that may do nothing."""
    return podman("run", *_CAGE, *options, image, *words)


def tools() -> None:
    """Installs what is missing. Raises NotTriedError where that cannot be done."""
    missing = [name for name in DEBIAN if not shutil.which({"uidmap": "newuidmap"}.get(name, name))]
    if not missing:
        return
    if os.geteuid() or not shutil.which("apt-get"):
        raise NotTriedError(
            f"{', '.join(missing)} missing; apt install --no-install-recommends {' '.join(DEBIAN)}"
        )
    print(f"Installing {', '.join(missing)}")
    try:
        run("apt-get", "update", "-qq")
        run("apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing)
    except subprocess.CalledProcessError as error:
        raise NotTriedError(f"apt-get could not install {', '.join(missing)}") from error


def debian_base(architecture: str) -> str:
    """The name of an image with Debian's Python and pip, made once. Raises NotTriedError."""
    name = f"localhost/debian-python:{architecture}"
    if buildah("images", "--quiet", "--filter", f"reference={name}"):
        return name
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        tar = f"{folder}/base.tar"
        try:
            run(
                "mmdebstrap",
                f"--arch={architecture}",
                "--variant=apt",
                "--include=python3,python3-pip",
                "bookworm",
                tar,
            )
        except subprocess.CalledProcessError as error:
            raise NotTriedError(
                f"mmdebstrap cannot make a base for {architecture}, see above"
            ) from error
        container = buildah("from", f"--arch={architecture}", "scratch").strip()
        buildah("add", "--quiet", container, tar, "/")
        buildah("config", "--env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", container)
        buildah("commit", "--quiet", "--rm", container, name)
    return name


def build(context: Path, base: str, moment: int, name: str, architecture: str) -> None:
    """Anew, nothing of an earlier build is used."""
    certificates = Path("/etc/ssl/certs")
    index = os.environ.get("PIP_INDEX_URL")
    buildah(
        "build",
        "--no-cache",
        "--quiet",
        "--isolation",
        "chroot",
        "--platform",
        f"linux/{architecture}",
        *(["--volume", f"{certificates}:{certificates}:ro"] if certificates.is_dir() else []),
        *(["--build-arg", f"PIP_INDEX_URL={index}"] if index else []),
        "--build-arg",
        f"PYTHON={base}",
        "--build-arg",
        f"SOURCE_DATE_EPOCH={moment}",
        "--timestamp",
        str(moment),
        "--file",
        str(context / "manifests/image/Dockerfile"),
        "--tag",
        name,
        str(context),
    )


def unpacked(name: str, folder: Path) -> str:
    """Writes the image as an OCI layout into `folder`; the digest of its manifest."""
    buildah("push", "--quiet", name, f"oci:{folder}:image")
    (manifest,) = json.loads((folder / "index.json").read_text())["manifests"]
    return str(manifest["digest"])


@dataclass
class Report:
    """Lines for people. A busy machine says nothing of speed: what is too slow there is left
    open."""

    emulated: bool = False
    busy: bool = False
    failed: bool = False
    left_open: bool = False

    def say(self, good: bool, what: str) -> None:
        self.failed |= not good
        print(f"  {'ok    ' if good else 'FAILED'} {what}", flush=True)

    def speed(self, seconds: float, what: str) -> None:
        """Judged against SECONDS."""
        if seconds < SECONDS or not (self.busy or self.emulated):
            self.say(seconds < SECONDS, f"{what}: {seconds:.2f} s")
            return
        self.left_open |= not self.emulated
        why = (
            "emulated"
            if self.emulated
            else f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
        )
        print(f"  not judged: {what}: {seconds:.2f} s ({why})", flush=True)

    def code(self) -> int:
        """0, 1 when anything failed, 3 when something was left open."""
        return 1 if self.failed else 3 if self.left_open else 0


def is_busy() -> bool:
    return os.getloadavg()[0] > 2 * (os.cpu_count() or 1)


def fastest(image: str, *words: str) -> float:
    """Seconds of the fastest of three."""

    def once() -> float:
        started = time.monotonic()
        in_cage(image, *words)
        return time.monotonic() - started

    return min(once() for _ in range(3))


@contextmanager
def credentials() -> Iterator[Path]:
    """A ServiceAccount's folder that no API server knows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for file, text in (
            ("token", "t"),
            ("namespace", "default"),
            ("ca.crt", AUTHORITY.read_text()),
        ):
            (folder / file).write_text(text)
        yield folder


def listening(image: str) -> float:
    """Seconds until `scaler run`, which finds no API server, answers /healthz; 60 when it never
    does."""
    with credentials() as folder:
        variables = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": "1",
            "SCALER_LEASE_NAMESPACE": "default",
            "SCALER_HTTP_HOST": "127.0.0.1",
            "SCALER_HTTP_PORT": str(PORT),
        }
        given = [f"--env={name}={value}" for name, value in variables.items()]
        given += [
            "--network=host",
            f"--volume={folder}:/var/run/secrets/kubernetes.io/serviceaccount:ro",
        ]
        started = time.monotonic()
        container = podman("run", "--detach", *_CAGE, *given, image).strip()
        try:
            while time.monotonic() - started < 60:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{PORT}/healthz", timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.01)
            return time.monotonic() - started
        finally:
            podman("rm", "--force", "--time", "5", container, check=False)


def look(image: str, report: Report) -> None:
    """What the image may do, and how fast it is."""
    found = json.loads(
        in_cage(image, "-c", _LOOK, options=("--network=none", "--entrypoint=python"))
    )
    report.say(found["uid"] == found["gid"] == 65532, f"runs as {found['uid']}:{found['gid']}")
    report.say(found["capabilities"] == 0, "has no capability")
    report.say(found["writable"] == [], f"writes nowhere {found['writable'] or ''}")
    others = [name for name in found["programs"] if not name.startswith("python")]
    report.say(not others and not found["pip"], f"holds no shell and no pip {others or ''}")
    report.say(found["bill"] > 30, f"/app/sbom.cdx.json names {found['bill']} parts")
    for words in (("--version",), ("run", "--help")):
        report.speed(fastest(image, *words), f"scaler {' '.join(words)}")
    seconds = listening(image)
    report.say(seconds < 60, "scaler run listens")
    report.speed(seconds, "scaler run until it listens")
    report.say("FAILED" not in in_cage(image, "demo"), "scaler demo plays to its end")


def attempt(base: str | None, architecture: str, moment: int) -> Report:
    """Raises NotTriedError when the base cannot be had."""
    name = f"localhost/mind-cluster-scaler:{architecture}"
    emulated = architecture != native()
    made = base or debian_base(architecture)
    print(
        f"linux/{architecture} on {made}{' (emulated: speed is not judged)' if emulated else ''}",
        flush=True,
    )
    report = Report(emulated, is_busy())
    digests = []
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        for turn in ("first", "second"):
            started = time.monotonic()
            build(ROOT, made, moment, name, architecture)
            print(f"  built in {time.monotonic() - started:.0f} s", flush=True)
            digests.append(unpacked(name, Path(folder, turn)))
        report.say(digests[0] == digests[1], f"built twice: {' and '.join(sorted(set(digests)))}")
        size = (
            sum(path.stat().st_size for path in Path(folder, "first").rglob("*") if path.is_file())
            / 1e6
        )
        report.say(size <= MEGABYTES, f"{size:.1f} MB compressed")
    report.busy |= is_busy()
    look(name, report)
    return report


def moment() -> int:
    """Seconds since 1970 of the last commit, or SOURCE_DATE_EPOCH."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or run("git", "-C", str(ROOT), "log", "-1", "--format=%ct"))


def locked_wheels(architecture: str) -> str:
    """Whether the lock has a wheel of every distribution for this architecture, as far as pip
    says."""
    platforms = [f"--platform=manylinux_2_{minor}_{architecture}" for minor in (17, 28)]
    platforms.append(f"--platform=manylinux2014_{architecture}")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--dest",
            folder,
        ]
        command += [
            "--only-binary=:all:",
            "--python-version=3.13",
            *platforms,
            "-r",
            str(ROOT / "requirements.lock"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)  # noqa: S603
        return done.stderr if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the image and look at it.")
    parser.add_argument(
        "--base", help="image with Python and pip (default: Debian's, made by mmdebstrap)"
    )
    parser.add_argument(
        "--architecture", default=native(), help="amd64 or arm64 (default: this machine's)"
    )
    options = parser.parse_args()
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        tools()
        report = attempt(options.base, options.architecture, moment())
    except NotTriedError as error:
        print(f"  not tried: the image ({error})")
        return 3
    other = {"amd64": "aarch64", "arm64": "x86_64"}[native()]
    missing = locked_wheels(other)
    print(
        f"  {'FAILED' if missing else 'ok    '} every locked wheel for {other}, Python 3.13"
        f" {missing}"
    )
    if options.architecture == native():
        print(
            f"  not tried: an image for {ARCHITECTURES[other]} (--architecture, needs binfmt_misc"
            " with qemu)"
        )
    if not options.base:
        print("  not tried: the official base, python:3.13-slim-bookworm (--base)")
    report.failed |= bool(missing)
    return report.code()


if __name__ == "__main__":
    sys.exit(main())
