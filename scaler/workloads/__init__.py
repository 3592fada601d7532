"""From the objects of each workload kind to what the decision needs, and back. No I/O."""
