"""Bills of materials (CycloneDX 1.5, JSON): of the lock, for a release, and of what lies in the
image.

The same inputs give the same text: no random serial number, and SOURCE_DATE_EPOCH in place of the
time. Python's standard library only: the Dockerfile runs this in its build stage. `python sbom.py
requirements.lock VERSION` prints the bill of the lock."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

NAME = "mind-cluster-scaler"
Component = dict[str, Any]
VENDOR = "scaler/tools/ui/static/vendor"
"""The JavaScript of others, below the root of the tree or of the image's program."""
LONGEST_LICENCE = 100
_LICENCE = ("License-Expression", "License")
_SCRIPT = re.compile(
    r"^\| `[^`]+` \| (\S+) (\S+), `([^`]+)` \| (\S+) \| `([0-9a-f]{64})` \|$", re.MULTILINE
)
_PIN = re.compile(r"^([a-z0-9._-]+)==(\S+)(?: ; ([^\\\n]+?))? \\$", re.MULTILINE)


def of_lock(text: str, version: str, root: Path) -> str:
    """Every distribution that the lock names, with its licence where it is installed here, and
    where it is needed, if not everywhere; and the JavaScript of the tree at `root`, which the wheel
    brings."""
    components = []
    for name, pinned, marker in _PIN.findall(text):
        made = _wheel(name, pinned, marker)
        with suppress(metadata.PackageNotFoundError):
            found = metadata.distribution(name)
            if found.version == pinned:
                made |= _licence(found)
        components.append(made)
    return _document([*components, *_scripts(root / VENDOR)], version)


def of_image(app: Path, system: Iterable[Path]) -> str:
    """The wheels in the folder `app`, Python, and the packages that these files of the system come
    from."""
    components = []
    for found in metadata.distributions(path=[str(app)]):
        components.append(_wheel(found.metadata["Name"], found.version) | _licence(found))
    components += _scripts(app / VENDOR)
    python = platform.python_version()
    licence = {"license": {"id": "PSF-2.0"}}
    components.append(
        {
            "type": "platform",
            "name": "python",
            "version": python,
            "purl": f"pkg:generic/python@{python}",
            "licenses": [licence],
        }
    )
    return _document([*components, *_packages(system)], _version(app))


def _version(app: Path) -> str:
    found = re.search(
        r'^__version__ = "(.+)"', (app / "scaler/__init__.py").read_text(), flags=re.MULTILINE
    )
    if found is None:
        raise ValueError(f"{app}/scaler/__init__.py says no version")
    return found[1]


def _wheel(name: str, version: str, marker: str = "") -> Component:
    name = re.sub("[-_.]+", "-", name).lower()
    made: Component = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
    }
    if marker:
        made["properties"] = [{"name": f"{NAME}:only-where", "value": marker}]
    return made


def _licence(found: metadata.Distribution) -> Component:
    """What a distribution says of its licence: one line, or the names of its classifiers, since
    some have the whole text in that line."""
    known = {key: found.metadata[key] for key in _LICENCE if key in found.metadata}
    if expression := known.get("License-Expression"):
        return {"licenses": [{"expression": expression}]}
    said = known.get("License", "")
    names = [said] if said and "\n" not in said and len(said) < LONGEST_LICENCE else []
    for classifier in found.metadata.get_all("Classifier") or []:
        if classifier.startswith("License :: ") and not names:
            names.append(classifier.rsplit(" :: ", 1)[1])
    return {"licenses": [{"license": {"name": name}} for name in names]} if names else {}


def _scripts(vendor: Path) -> list[Component]:
    """The JavaScript of others that the page loads, from the table beside it."""
    found: dict[str, Component] = {}
    rows = _SCRIPT.findall((vendor / "README.md").read_text("utf-8"))
    for name, version, path, licence, digest in rows:
        made = found.setdefault(
            name,
            {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:npm/{name}@{version}",
                "licenses": [{"license": {"id": licence}}],
                "components": [],
            },
        )
        made["components"].append(
            {"type": "file", "name": path, "hashes": [{"alg": "SHA-256", "content": digest}]}
        )
    return list(found.values())


def _packages(files: Iterable[Path]) -> list[Component]:
    """Debian's packages that own these files, where the base is Debian; what no package owns is
    named as a file."""
    found: dict[str, Component] = {}
    for path in files:
        known = _owner(path)
        if known is None:
            found[str(path)] = {"type": "file", "name": str(path)}
            continue
        name, version, architecture = known
        escaped = version.replace("+", "%2B").replace(":", "%3A")
        purl = f"pkg:deb/debian/{name}@{escaped}?arch={architecture}"
        found[purl] = {"type": "library", "name": name, "version": version, "purl": purl}
    return [found[key] for key in sorted(found)]


def _owner(path: Path) -> tuple[str, str, str] | None:
    """Package, version, architecture; None without dpkg, or when none owns it."""
    names = {
        str(path),
        os.path.realpath(path),
        str(path).removeprefix("/usr"),
        os.path.realpath(path)[4:],
    }
    for name in sorted(names, reverse=True):
        owner = _answer("dpkg-query", "--search", name).split(": ")[0]
        if owner:
            said = _answer("dpkg-query", "--show", "--showformat=${Version} ${Architecture}", owner)
            version, architecture = said.split()
            return owner.split(":")[0], version, architecture
    return None


def _answer(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    except FileNotFoundError:
        return ""


def _document(components: Iterable[Component], version: str) -> str:
    own = {
        "type": "application",
        "name": NAME,
        "version": version,
        "purl": f"pkg:pypi/{NAME}@{version}",
    }
    moment = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), tz=UTC)
    document: Mapping[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "bom-ref": own["purl"],
                **own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [
            {"bom-ref": one.get("purl", one["name"]), **one}
            for one in sorted(components, key=lambda one: (one["type"], one["name"]))
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return (
        json.dumps({**document, "serialNumber": f"urn:uuid:{serial}"}, indent=2, sort_keys=True)
        + "\n"
    )


if __name__ == "__main__":
    sys.stdout.write(of_lock(Path(sys.argv[1]).read_text(), sys.argv[2], Path(sys.argv[1]).parent))
