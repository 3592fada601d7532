"""Scenario files: what happens in a world, what is expected of it, and what is recorded of it."""
