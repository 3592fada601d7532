"""Keeping the certificate in a cluster, in virtual time: made once, shared, renewed, trusted, and
fixed."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from scaler.clock import Clock
from scaler.kube.api import (
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    KubeApi,
    Object,
    PatchType,
    Resource,
)
from scaler.kube.errors import ForbiddenError, KubeError, UnknownOutcomeError
from scaler.serve import certificates, server_certificate, webhook_certs
from scaler.serve.certificates import DAY, LIFE, RENEWED, SETTLE, KeyPair
from scaler.serve.server_certificate import REREAD, CertificateFiles, OwnCertificate
from scaler.serve.webhook_certs import CertificateKeeper
from scaler.settings import Settings
from scaler.sim import loop
from scaler.sim.cluster import SimCluster

HOME = "mind-cluster-scaler-system"
# The name of a Secret, no secret itself.
SECRET = "mind-cluster-scaler-webhook"  # noqa: S105
NAME = "mind-cluster-scaler"
SERVER = f"{SECRET}.{HOME}.svc"
START = 1_800_000_000.0
OTHER = certificates.advance(None, SERVER, START)
assert OTHER is not None
OTHER_KEY = base64.b64encode(OTHER.shown.key).decode()


def configuration(resource: Resource, webhooks: int) -> Object:
    hooks = [
        {"name": f"w{number}.a.svc", "clientConfig": {"url": "https://a/"}}
        for number in range(webhooks)
    ]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": NAME},
        "webhooks": hooks,
    }


class Home:
    """A cluster with the two configurations, and replicas that keep the certificate."""

    def __init__(self, *, installed: bool = True) -> None:
        self.clock = Clock(START)
        self.cluster = SimCluster(self.clock)
        self.api: KubeApi = self.cluster.client("admin", latency=0.0)
        self.cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}])
        if installed:
            self.install()

    def install(self) -> None:
        self.cluster.apply(
            [configuration(MUTATING_WEBHOOKS, 2), configuration(VALIDATING_WEBHOOKS, 3)]
        )

    def replica(self, api: KubeApi | None = None) -> CertificateKeeper:
        settings = Settings(lease_namespace=HOME, install=NAME, webhook_service=SERVER)
        return CertificateKeeper(api or self.api, self.clock, settings)

    def secret(self) -> Object:
        (found,) = self.cluster.peek(SECRETS, HOME)
        return found

    def keys(self) -> certificates.Keys:
        keys = certificates.read(
            {name: base64.b64decode(value) for name, value in self.secret()["data"].items()}
        )
        assert keys is not None
        return keys

    def bundles(self) -> set[str]:
        found = [
            obj
            for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
            for obj in self.cluster.peek(kind)
        ]
        return {
            hook["clientConfig"].get("caBundle", "") for obj in found for hook in obj["webhooks"]
        }


async def during(seconds: float, *works: Awaitable[None]) -> None:
    """Let these run for so long."""
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)


def story(tell: Callable[[Home], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        await tell(Home(**options))

    loop.run(main())


def test_the_leader_makes_a_certificate_and_everybody_shows_and_trusts_it() -> None:
    async def tell(home: Home) -> None:
        leader = home.replica()
        standby = home.replica()
        assert leader.problem == "no certificate yet"
        await during(5.0, leader.run_as_leader(), leader.follow(), standby.follow())
        assert leader.pair == standby.pair == home.keys().shown
        assert home.bundles() == {base64.b64encode(home.keys().trusted).decode()}
        assert (leader.problem, standby.problem) == ("", "")
        assert home.secret()["type"] == "kubernetes.io/tls"

    story(tell)


def test_where_the_leader_knows_no_webhook_the_first_of_the_others_makes_the_certificate() -> None:
    async def tell(home: Home) -> None:
        one = home.replica()
        two = home.replica()
        await during(10.0, one.follow(), two.follow())
        assert home.cluster.peek(SECRETS, HOME) == []  # one that leads would have made it by now
        await during(30.0, one.follow(), two.follow())
        assert one.pair == two.pair == home.keys().shown
        assert home.bundles() == {base64.b64encode(home.keys().trusted).decode()}
        assert len([write for write in home.cluster.writes() if write.resource == SECRETS]) == 1

    story(tell)


def test_two_years_of_renewals_never_show_what_is_not_trusted() -> None:
    async def tell(home: Home) -> None:
        leader = home.replica()
        standby = home.replica()
        work = asyncio.gather(leader.run_as_leader(), leader.follow(), standby.follow())
        issued = set()
        for _ in range(740):
            await asyncio.sleep(DAY)
            keys = home.keys()
            now = home.clock.now()
            for replica in (leader, standby):
                assert replica.pair == keys.shown
            certificate = x509.load_pem_x509_certificate(keys.shown.certificate)
            assert certificate.not_valid_after_utc.timestamp() - now > RENEWED - 2 * DAY
            assert home.bundles() == {base64.b64encode(keys.trusted).decode()}
            issued.add(keys.shown)
        assert 6 <= len(issued) <= 8
        work.cancel()
        await asyncio.wait([work])

    with pytest.MonkeyPatch.context() as patched:
        # two years of looks every ten seconds take long to compute
        patched.setattr(webhook_certs, "PERIOD", DAY / 2)
        patched.setattr(server_certificate, "REREAD", DAY / 5)
        story(tell)


def test_at_rest_nothing_is_written() -> None:
    async def tell(home: Home) -> None:
        keeper = home.replica()
        await during(5.0, keeper.run_as_leader())
        written = len(home.cluster.writes())
        await during(3600, keeper.run_as_leader(), keeper.follow())
        assert len(home.cluster.writes()) == written

    story(tell)


@pytest.mark.parametrize("harm", ["delete", "garbage", "mixed"])
def test_a_secret_that_somebody_spoilt_is_put_back_as_it_was(harm: str) -> None:
    async def tell(home: Home) -> None:
        keeper = home.replica()
        await during(5.0, keeper.run_as_leader())
        before = home.secret()["data"]
        if harm == "delete":
            await home.api.delete(SECRETS, HOME, SECRET)
        else:
            spoilt = OTHER_KEY if harm == "mixed" else "Z2FyYmFnZQ=="
            patch = {"data": {"tls.key": spoilt}}
            await home.api.patch(SECRETS, HOME, SECRET, patch, patch_type=PatchType.MERGE)
        await during(15.0, keeper.run_as_leader(), keeper.follow())
        assert home.secret()["data"] == before
        assert keeper.pair == home.keys().shown

    story(tell)


def test_a_new_leader_goes_on_with_what_the_last_one_made() -> None:
    async def tell(home: Home) -> None:
        for _ in range(3):
            keeper = home.replica()
            await during(5.0, keeper.run_as_leader())
        assert len([write for write in home.cluster.writes() if write.resource == SECRETS]) == 1
        assert keeper.pair == home.keys().shown

    story(tell)


def test_two_that_both_believe_they_lead_end_with_one_certificate() -> None:
    async def tell(home: Home) -> None:
        one = home.replica()
        two = home.replica()
        await during(30.0, one.run_as_leader(), two.run_as_leader())
        assert one.pair == two.pair == home.keys().shown
        assert home.bundles() == {base64.b64encode(home.keys().trusted).decode()}

    story(tell)


def test_a_configuration_that_comes_later_is_trusted_within_seconds() -> None:
    async def tell(home: Home) -> None:
        keeper = home.replica()
        await during(60.0, keeper.run_as_leader())
        assert keeper.problem == ""
        home.install()
        await during(15.0, keeper.run_as_leader())
        assert home.bundles() == {base64.b64encode(home.keys().trusted).decode()}

    story(tell, installed=False)


class Refusing:
    """Answers like the cluster, except that some calls fail."""

    def __init__(self, api: KubeApi, refused: set[tuple[str, str]], error: KubeError) -> None:
        self._api = api
        self.refused = refused
        self._error = error

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def call(resource: Resource, *arguments: Any, **options: Any) -> Any:
            if (verb, resource.plural) in self.refused:
                raise self._error
            return await getattr(self._api, verb)(resource, *arguments, **options)

        return call


FORBIDDEN = ForbiddenError(403, "Forbidden", "no right to that")


def test_a_new_certificate_is_shown_only_when_the_configurations_trust_it() -> None:
    async def tell(home: Home) -> None:
        api: Any = Refusing(home.api, set(), FORBIDDEN)
        keeper = home.replica(api)
        await during(5.0, keeper.run_as_leader())
        first = home.keys()
        await asyncio.sleep(LIFE - RENEWED)
        api.refused = {("patch", MUTATING_WEBHOOKS.plural)}
        await during(2 * SETTLE, keeper.run_as_leader())
        assert home.keys().coming is not None
        assert keeper.pair == home.keys().shown == first.shown
        api.refused = set()
        await during(15.0, keeper.run_as_leader())
        assert home.keys().coming is None
        assert keeper.pair == home.keys().shown != first.shown
        assert first.shown.certificate in home.keys().trusted

    story(tell)


def test_an_ended_certificate_is_replaced_while_the_configurations_cannot_be_written() -> None:
    async def tell(home: Home) -> None:
        api: Any = Refusing(home.api, set(), FORBIDDEN)
        keeper = home.replica(api)
        await during(5.0, keeper.run_as_leader())
        first = home.keys().shown
        api.refused = {
            ("patch", resource.plural) for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        }
        await asyncio.sleep(LIFE - DAY)
        await during(60.0, keeper.run_as_leader())
        coming = home.keys().coming
        assert coming is not None
        assert keeper.pair == first
        await asyncio.sleep(2 * DAY)
        await during(60.0, keeper.run_as_leader())
        assert keeper.pair == home.keys().shown == coming
        await during(60.0, keeper.run_as_leader())
        assert home.keys().coming is None
        api.refused = set()
        await during(15.0, keeper.run_as_leader())
        assert home.bundles() == {base64.b64encode(home.keys().trusted).decode()}

    story(tell)


@pytest.mark.parametrize(
    "error", [FORBIDDEN, UnknownOutcomeError("500")], ids=["forbidden", "unknown"]
)
@pytest.mark.parametrize("verb", ["get", "create"])
def test_whatever_the_api_server_answers_it_goes_on_and_says_why_nothing_is_shown(
    verb: str, error: KubeError
) -> None:
    async def tell(home: Home) -> None:
        api: Any = Refusing(home.api, {(verb, "secrets")}, error)
        keeper = home.replica(api)
        with capture_logs() as logs:
            await during(300.0, keeper.run_as_leader(), keeper.follow())
        assert keeper.pair is None
        assert keeper.problem not in ("", "no certificate yet")
        assert len([line for line in logs if line["log_level"] == "warning"]) <= 3
        api.refused = set()
        await during(15.0, keeper.run_as_leader(), keeper.follow())
        assert keeper.problem == ""

    story(tell)


def test_no_key_reaches_a_log() -> None:
    async def tell(home: Home) -> None:
        keeper = home.replica()
        with capture_logs() as logs:
            await during(5.0, keeper.run_as_leader(), keeper.follow())
            data = home.secret()["data"]
            await home.api.patch(
                SECRETS,
                HOME,
                SECRET,
                {"data": {"tls.crt": data["tls.key"]}},
                patch_type=PatchType.MERGE,
            )
            await during(REREAD, keeper.follow())
            await during(30.0, keeper.run_as_leader())
        assert logs
        assert keeper.pair is not None
        text = repr(logs)
        pem = base64.b64decode(data["tls.key"]).decode()
        assert not any(line in text for line in [data["tls.key"], *pem.splitlines()])

    story(tell)


@pytest.mark.parametrize("together", [False, True], ids=["two files", "one file"])
async def test_files_of_somebody_else_are_shown_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    monkeypatch.setattr(server_certificate, "SOON", 0.01)
    monkeypatch.setattr(server_certificate, "REREAD", 0.01)
    certificate = tmp_path / "tls.crt"
    key = tmp_path / ("tls.crt" if together else "tls.key")
    files = CertificateFiles("webhook", certificate, key)
    following = asyncio.create_task(files.follow())
    await until(lambda: "No such file" in files.problem)
    for _ in range(2):
        keys = certificates.advance(None, SERVER, START)
        assert keys is not None
        pair = keys.shown
        key.write_bytes(pair.key)
        certificate.write_bytes(pair.key + pair.certificate if together else pair.certificate)
        wanted = KeyPair(pair.key + pair.certificate, b"") if together else pair
        await until(lambda wanted=wanted: files.pair == wanted)  # type: ignore[misc]
    assert files.problem == ""
    following.cancel()
    await asyncio.wait([following])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - files give no event
            await asyncio.sleep(0.01)


def test_a_certificate_of_its_own_is_renewed_before_it_ends() -> None:
    async def tell(home: Home) -> None:
        own = OwnCertificate("metrics", home.clock, SERVER)
        await during(5.0, own.follow())
        first = own.pair
        assert first is not None
        await asyncio.sleep(LIFE - RENEWED - DAY)
        await during(5.0, own.follow())
        assert own.pair == first
        await asyncio.sleep(2 * DAY)
        await during(5.0, own.follow())
        assert own.pair not in (None, first)
        assert certificates.believed(own.pair or first, SERVER, home.clock.server() + RENEWED)
        assert home.cluster.peek(SECRETS, HOME) == []

    story(tell)
