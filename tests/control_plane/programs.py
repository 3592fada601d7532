"""One child process each: started, watched until it answers, ended. What it says goes to a log in
the test's folder.

No child outlives its parent, however that ends (child.py). Must not: know what the programs are
for."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import SIGCONT, SIGKILL, Signals
from typing import Any

from scaler.serve import certificates

_CHILD = Path(__file__).with_name("child.py")
_TAIL = 12  # lines of each log in an error


class ControlPlaneError(Exception):
    """The control plane cannot do its work; `str()` says what happened, with the end of the
    logs."""


class Program:
    """A program and its log. `command[0]` is the path of the executable."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [str(part) for part in command]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ControlPlaneError(f"{self.name} was not started")
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Raises ControlPlaneError when there is no such program."""
        if not os.access(self._command[0], os.X_OK):
            raise ControlPlaneError(
                f"{self.name}: {self._command[0]} is not there or not executable"
            )
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _CHILD, str(os.getpid()), *self._command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
            )

    def signal(self, number: Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, number: Signals = SIGKILL) -> int | None:
        """Ask, wait, insist; its exit code. SIGKILL by default: a test's cluster holds nothing
        worth waiting for."""
        if self._process is None:
            return None
        self.signal(number)
        if number is not SIGKILL:
            self.signal(SIGCONT)
        try:
            return self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def wait_for(self, answers: Callable[[], bool], timeout: float = 60.0) -> None:
        """Until `answers`. Raises ControlPlaneError when it exits or takes too long."""
        deadline = time.monotonic() + timeout
        while not answers():
            if self.exit_code is not None:
                raise ControlPlaneError(f"{self.name} exited with {self.exit_code}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ControlPlaneError(
                    f"{self.name} does not answer after {timeout:g} s\n{self.tail()}"
                )
            time.sleep(0.05)

    def said(self) -> list[str]:
        """The lines of its log."""
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []

    def tail(self) -> str:
        return "\n".join([f"--- end of {self.log}", *self.said()[-_TAIL:]])


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(sock.getsockname()[1]) for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def certify(folder: Path) -> bytes:
    """Key and self-signed certificate of a server on loopback, `tls.key` and `tls.crt`; the
    certificate as PEM."""
    keys = certificates.advance(None, "127.0.0.1", time.time())
    assert keys is not None
    folder.mkdir(mode=0o700)
    (folder / "tls.crt").write_bytes(keys.shown.certificate)
    (folder / "tls.key").write_bytes(keys.shown.key)
    return keys.trusted


def fetch(url: str, body: Any = None, *, authority: Path | None = None, token: str = "") -> bytes:
    """What GET, or POST of a body as JSON, is answered with by a server of this machine.
    `authority` is the CA of an https URL. Raises OSError, also for a refusal."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, data, headers)  # noqa: S310
    tls = ssl.create_default_context(cafile=str(authority)) if authority else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
    )
    with opener.open(request, timeout=10) as response:
        found: bytes = response.read()
    return found


def answers_ok(url: str, *, authority: Path | None = None, token: str = "") -> bool:
    """Whether GET is answered without a refusal now."""
    try:
        fetch(url, authority=authority, token=token)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except (OSError, ValueError):
        return False
    return True
