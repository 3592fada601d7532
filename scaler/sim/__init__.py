"""The in-process cluster of demo, simulate and tests. What runs in the cluster never imports it."""
