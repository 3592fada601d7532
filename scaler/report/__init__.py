"""Tells people: events, conditions, the status ConfigMap, metrics and logs."""
