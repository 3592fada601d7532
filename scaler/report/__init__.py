"""Publishes decisions: events, conditions, ElasticServices, metrics and logs."""
