"""A kubeconfig is read as kubernetes_asyncio reads it, and as kubectl does where the two differ."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.kube import kubeconfig
from scaler.kube.configuration import namespace_of
from scaler.kube.kubeconfig import Connection, Files, Loader, WithAuthProvider, loader_of

PEM = b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
DATA = base64.b64encode(PEM).decode()
FIELDS = ("host", "verify_ssl", "tls_server_name", "proxy", "api_key")
FILES = ("ssl_ca_cert", "cert_file", "key_file")

Part = dict[str, Any]


def document(cluster: Part, user: Part, **context: Any) -> Part:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **context}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }


def write(path: Path, content: Part) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return str(path)


def seen(one: Any) -> Part:
    """The values, and what stands in the files that they name."""
    made = {name: getattr(one, name) for name in FIELDS}
    for name in FILES:
        path = getattr(one, name)
        made[name] = Path(path).read_bytes() if path else None
    return made


HTTPS = {"server": "https://a:6443/"}


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"server": "http://a:8001/"}, {}),
        ({**HTTPS, "certificate-authority": "ca.pem"}, {"token": "t"}),
        ({**HTTPS, "certificate-authority-data": DATA}, {"tokenFile": "token"}),
        (
            {**HTTPS, "certificate-authority": "no", "certificate-authority-data": DATA},
            {"username": "u", "password": "p"},
        ),
        (
            {**HTTPS, "insecure-skip-tls-verify": True, "tls-server-name": "b"},
            {"client-certificate-data": DATA, "client-key-data": DATA},
        ),
        (
            {**HTTPS, "proxy-url": "http://proxy:3128"},
            {"client-certificate": "ca.pem", "client-key": "ca.pem"},
        ),
        (HTTPS, {"token": "t", "username": "u", "password": "p"}),
    ],
    ids=["plain", "token", "token file", "password", "data", "files", "several"],
)
async def test_it_says_what_kubernetes_asyncio_says(
    cluster: Part, user: Part, tmp_path: Path
) -> None:
    from kubernetes_asyncio import client, config

    (tmp_path / "ca.pem").write_bytes(PEM)
    (tmp_path / "token").write_text("from-a-file\n")
    path = write(tmp_path / "config", document(cluster, user))
    theirs = client.Configuration()
    await config.load_kube_config(path, client_configuration=theirs, persist_config=False)
    ours = Connection()
    loader = loader_of(path, None)
    await loader.load_and_set(ours)
    assert seen(ours) == seen(theirs)


def modes(path: str) -> list[int]:
    """Of the file and of its folder; nothing if it is not there."""
    return [one.stat().st_mode & 0o777 for one in (Path(path), Path(path).parent) if one.exists()]


async def test_certificates_of_the_kubeconfig_itself_are_readable_by_the_user_alone(
    tmp_path: Path,
) -> None:
    user = {"client-certificate-data": DATA, "client-key-data": DATA}
    loader = loader_of(write(tmp_path / "config", document(HTTPS, user)), None)
    made = Connection()
    await loader.load_and_set(made)
    assert made.key_file is not None
    assert modes(made.key_file) == [0o600, 0o700]
    del loader
    assert modes(made.key_file) == []


async def test_several_files_are_merged_as_by_kubectl(tmp_path: Path) -> None:
    """The first file that names something wins, also the current context; paths begin at the folder
    of their own file."""
    first = document({"server": "http://first"}, {})
    first["contexts"][0]["context"]["user"] = "other"
    second = document({"server": "http://second"}, {}) | {"current-context": "elsewhere"}
    second["users"].append({"name": "other", "user": {"tokenFile": "token"}})
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "token").write_text("beside the second")
    paths = [
        str(tmp_path / "missing"),
        write(tmp_path / "first" / "config", first),
        write(tmp_path / "second" / "config", second),
    ]
    made = Connection()
    await loader_of(os.pathsep.join(paths), None).load_and_set(made)
    assert (made.host, made.api_key["BearerToken"]) == ("http://first", "Bearer beside the second")


async def test_a_plugin_that_gives_a_certificate_is_asked_again_when_that_ends(
    tmp_path: Path,
) -> None:
    plugin = tmp_path / "plugin"
    status = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status":'
        ' {"clientCertificateData": "cert $n", "clientKeyData": "key $MORE",'
        ' "expirationTimestamp": "2020-01-01T00:00:00Z"}}'
    )
    plugin.write_text(
        f"#!/bin/sh\necho x >>{tmp_path}/calls\nn=$(wc -l <{tmp_path}/calls)\n"
        f"cat <<E\n{status}\nE\n"
    )
    plugin.chmod(0o700)
    how = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin",
        "env": [{"name": "MORE", "value": "of the user"}],
    }
    loader = loader_of(write(tmp_path / "config", document(HTTPS, {"exec": how})), None)
    made = Connection()
    await loader.load_and_set(made)
    assert loader.ages
    await loader.load_and_set(made)
    assert seen(made)["key_file"] == b"key of the user"
    assert seen(made)["cert_file"] == b"cert 2"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("false", "ended with 1"),
        ("true", "Expecting value"),
        ("there-is-no-such-program", "there-is-no-such-program"),
    ],
)
async def test_a_plugin_that_fails_says_so(command: str, words: str, tmp_path: Path) -> None:
    how = {"apiVersion": "client.authentication.k8s.io/v1", "command": command}
    loader = loader_of(write(tmp_path / "config", document(HTTPS, {"exec": how})), None)
    with pytest.raises((OSError, ValueError), match=words):
        await loader.load_and_set(Connection())


async def test_a_plugin_that_never_answers_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "PLUGIN_PATIENCE", 0.1)
    how = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sleep",
        "args": ["600"],
    }
    loader = loader_of(write(tmp_path / "config", document(HTTPS, {"exec": how})), None)
    with pytest.raises(ValueError, match="sleep does not answer for"):
        await loader.load_and_set(Connection())


def test_an_auth_provider_is_left_to_the_library(tmp_path: Path) -> None:
    user = {"auth-provider": {"name": "oidc", "config": {}}}
    path = write(tmp_path / "config", document(HTTPS, user))
    assert isinstance(loader_of(path, None), WithAuthProvider)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"current-context": None}, "names no current context"),
        ({"current-context": "x"}, "there is no context 'x'"),
        ({"clusters": []}, "there is no cluster 'k'"),
        ({"users": []}, "there is no user 'u'"),
        ({"clusters": [{"cluster": {}}]}, "something in clusters has no name"),
        ({"clusters": 5}, "clusters is no list"),
    ],
)
def test_what_is_missing_is_named(change: Part, words: str, tmp_path: Path) -> None:
    path = write(tmp_path / "config", document(HTTPS, {}) | change)
    with pytest.raises(ValueError, match=words):
        Loader(Files(path), None)


def test_the_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    path = write(tmp_path / "config", document(HTTPS, {}, namespace="mindie"))
    assert [namespace_of(path), namespace_of(path, "c"), namespace_of(path, "x")] == [
        "mindie",
        "mindie",
        "default",
    ]
