"""The certificate that a TLS server shows, exchangeable while it serves. Must never write a key to a disk or a log."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate (chain) and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"KeyPair(certificate of {len(self.certificate)} bytes, key not shown)"


class ServerCertificate:
    """One TLS context for the life of the server. Before the first `use`, every handshake fails."""

    def __init__(self) -> None:
        self.context = _context()
        self.pair: KeyPair | None = None
        """What is shown now."""

    def use(self, pair: KeyPair) -> bool:
        """Show this one from the next handshake on; whether it differs from the last. Raises ssl.SSLError or OSError
        when it cannot be used: then the last one stays."""
        if pair == self.pair:
            return False
        with _file(pair) as path:
            _context().load_cert_chain(path, password=_no_password)  # half a pair must not get into the live context
            self.context.load_cert_chain(path, password=_no_password)
        self.pair = pair
        return True


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _no_password() -> str:
    """Instead of a question at the terminal."""
    return ""


@contextmanager
def _file(pair: KeyPair) -> Iterator[str]:
    """The pair under a file name, which is all that the ssl module reads. In memory where the system can do that: a
    container has no writable disk, and a key should not be on one."""
    text = pair.key.rstrip() + b"\n" + pair.certificate
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor has no path
            file.write(text)
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pair.pem"
            path.touch(mode=0o600)
            path.write_bytes(text)
            yield str(path)
