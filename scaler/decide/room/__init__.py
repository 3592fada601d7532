"""Room: node classes, placement, and what can invalidate it."""
