"""The in-process cluster of demo, simulate and tests. Production code never imports it."""
