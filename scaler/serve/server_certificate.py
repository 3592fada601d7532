"""The certificate of a TLS server, in a process: which one the next handshake uses, and where it is
read from.

No key ever reaches a disk or a log: the log has the words of OpenSSL or of the operating system."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

import structlog

from scaler.clock import Clock
from scaler.serve import certificates
from scaler.serve.certificates import RENEWED, KeyPair

REREAD = 60.0
"""Seconds until a replica uses a renewed certificate."""
SOON = 2.0
"""Seconds between two reads while there is no certificate."""
_log = structlog.get_logger("serve")


class ServerCertificate:
    """The certificate that a TLS server uses from the next handshake on; subclasses know its
    source.

    `server` is its name in the log. One thread may replace the certificate while another thread
    serves."""

    def __init__(self, server: str) -> None:
        self._server = server
        self.context: ssl.SSLContext | None = None
        """The TLS context, a new one for each pair: one in use is never changed. None before the
        first `use`."""
        self.pair: KeyPair | None = None
        self._problems = {"reading": "", "keeping": ""}

    def use(self, pair: KeyPair) -> None:
        """Use this pair from now on. Raises ssl.SSLError or OSError when it is unusable: the last
        pair stays."""
        if pair == self.pair:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The ssl module reads only files; this one is in memory, never on a disk. Linux only.
        # No path.
        with open(os.memfd_create("certificate", os.MFD_CLOEXEC), "wb", buffering=0) as file:  # noqa: PTH123
            file.write(pair.key.rstrip() + b"\n" + pair.certificate)
            # never prompt at a terminal
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=lambda: "")
        self.context = context
        self.pair = pair

    @property
    def problem(self) -> str:
        """Why there is no certificate in use, for people; "" while there is one."""
        words = self._problems["reading"] or self._problems["keeping"]
        return "" if self.pair else words or "no certificate yet"

    @property
    def ends(self) -> float | None:
        """The end of the certificate in use, in seconds since the epoch; None without a readable
        one."""
        try:
            return certificates.ends(self.pair) if self.pair else None
        except ValueError:
            return None

    async def follow(self) -> None:
        """Use the newest certificate, in every replica, until cancelled."""
        while True:
            self._note("reading", await self._read())
            await asyncio.sleep(REREAD if self.pair else SOON)

    async def run_as_leader(self) -> None:
        """Make and renew the certificate and write the caBundles, until cancelled; does nothing for
        files."""

    async def _read(self) -> str:
        """Read the newest certificate and use it; returns why that failed, or ""."""
        return ""

    def _note(self, doing: str, problem: str) -> None:
        """Note what is wrong with the certificate; a log line when that changes, not every time."""
        if problem and problem != self._problems[doing]:
            _log.warning(f"{self._server} certificate", problem=problem)
        self._problems[doing] = problem

    def _show(self, pair: KeyPair, source: str) -> str:
        before = self.pair
        try:
            self.use(pair)
        except (ssl.SSLError, OSError) as error:
            return f"{source}: not usable: {error}"
        if pair != before:
            _log.info(f"{self._server} certificate shown", source=source)
        return ""


class CertificateFiles(ServerCertificate):
    """Files that another program renews, for example cert-manager; certificate and key may be one
    file."""

    def __init__(self, server: str, certificate: Path, key: Path) -> None:
        super().__init__(server)
        self._certificate = certificate
        self._key = key

    async def _read(self) -> str:
        try:
            shown = await asyncio.to_thread(self._certificate.read_bytes)
            private = (
                await asyncio.to_thread(self._key.read_bytes)
                if self._key != self._certificate
                else b""
            )
        except OSError as error:
            return f"cannot read {error.filename}: {error.strerror}"
        return self._show(KeyPair(shown, private), str(self._certificate))


class OwnCertificate(ServerCertificate):
    """Made by this process for `name`, kept in its memory alone, and renewed: for clients that do
    not check it."""

    def __init__(self, server: str, clock: Clock, name: str) -> None:
        super().__init__(server)
        self._clock = clock
        self._name = name

    async def _read(self) -> str:
        now = self._clock.server()
        if self.pair and certificates.believed(self.pair, self._name, now + RENEWED):
            return ""
        return self._show(certificates.made(self._name, now), "this process")
