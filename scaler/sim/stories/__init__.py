"""Scenario files: their events, their expectations, and the recorded timeline."""
