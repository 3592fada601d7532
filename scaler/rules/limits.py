"""The limits of a rule and of an instance, in one place for linter, JSON schema, webhook and
controller.

One controller reads the rules of all tenants. Each limit is far above the needs of a service, and
small enough that a rule at every limit is read in less than 100 ms. docs/reference/rule.md gives
the reason for each number."""

from __future__ import annotations

MAX_BYTES = 512 * 1024
"""Bytes of the document."""
MAX_PARTS = 16_384
"""Objects and commas of the document, which take the time to read: two groups in each of 1,024
ratios are 11,000."""
MAX_RATIOS = 1_024
"""MindIE's deployer writes one ratio per number of prefill instances, and accepts at most 1,024 of
these."""
MAX_GROUPS = 8
"""Groups of one ratio."""
MAX_INSTANCES = 10_000
"""Instances of one group."""
MAX_PODS = 1_000
"""Pods of one instance, from any source of this number."""
MAX_NAME = 63
"""Characters of a group's name, which is the value of a label."""
