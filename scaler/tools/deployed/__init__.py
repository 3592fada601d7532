"""A service of a short file in a cluster: applied, looked at, deleted. Its meaning is scaler.tools.deploying."""
