"""A short file about a service, and the objects made from it, without a cluster."""
