"""Scenario files: what happens in a world, what is expected of it, and how it is told."""
