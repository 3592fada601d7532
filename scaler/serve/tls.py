"""The certificate that a TLS server shows, exchangeable while it serves. Must never write a key to a disk or a log."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate (chain) and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"KeyPair(certificate of {len(self.certificate)} bytes, key not shown)"


class ServerCertificate:
    """What is shown from the next handshake on. It may be exchanged in one thread while another serves."""

    def __init__(self) -> None:
        self.context: ssl.SSLContext | None = None
        """Another one for each pair: none is changed once it is in use. None before the first `use`."""
        self.pair: KeyPair | None = None
        """What is shown now."""

    def use(self, pair: KeyPair) -> bool:
        """Show this one from the next handshake on; whether it differs from the last. Raises ssl.SSLError or OSError
        when it cannot be used: then the last one stays."""
        if pair == self.pair:
            return False
        context = _context()
        with _in_memory(pair) as path:
            context.load_cert_chain(path, password=_no_password)
        self.context, self.pair = context, pair
        return True


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _no_password() -> str:
    """Instead of a question at the terminal."""
    return ""


@contextmanager
def _in_memory(pair: KeyPair) -> Iterator[str]:
    """The pair under a file name, which is all that the ssl module reads, and never on a disk. Linux only."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor has no path
        file.write(pair.key.rstrip() + b"\n" + pair.certificate)
        yield f"/proc/self/fd/{descriptor}"
