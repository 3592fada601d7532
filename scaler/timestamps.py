"""Times as Kubernetes writes them into objects."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes writes a Time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes writes a MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def in_minutes(seconds: float) -> str:
    """Seconds since the epoch for people: `2026-01-01 20:13 UTC`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def clock_of(seconds: float) -> str:
    """Seconds since the epoch for people, of today: `20:13:05 UTC`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")


def minute_of(timestamp: str) -> str:
    """A Kubernetes Time for people: `2026-01-01 20:13 UTC`; as it is where it is none."""
    seconds = seconds_of(timestamp)
    return in_minutes(seconds) if seconds else timestamp


def seconds_of(timestamp: str | None) -> float:
    """A Kubernetes Time as seconds since the epoch; 0.0 when absent or malformed (never raises)."""
    if not timestamp:
        return 0.0
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return 0.0
