"""The load of services: how requests queue, and whom an autoscaler asks for when they do."""
