"""The load of services: how requests queue, and how many replicas an autoscaler sets."""
