"""Tells people: events, conditions, ElasticServices, metrics and logs."""
