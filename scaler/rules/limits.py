"""How large a rule may be, and what an instance may consist of. One place: linter, JSON schema, webhook and controller.

One controller reads the rules of all tenants, so each number is far above what a service needs and small enough that a
rule at every limit is read in less than 100 ms. docs/reference/rule.md says why each is what it is.
"""

from __future__ import annotations

MAX_BYTES = 512 * 1024
"""Of the document."""
MAX_PARTS = 16_384
"""Objects and commas of the document: two groups in each of 1,024 ratios are 11,000. What costs time to read."""
MAX_RATIOS = 1_024
"""MindIE's deployer writes one for each number of prefill instances, and takes at most 1,024 of those."""
MAX_GROUPS = 8
"""Of one ratio."""
MAX_INSTANCES = 10_000
"""Of one group."""
MAX_PODS = 1_000
"""Of one instance, whatever says how many it has."""
MAX_NAME = 63
"""Characters of a group's name, which is the value of a label."""
