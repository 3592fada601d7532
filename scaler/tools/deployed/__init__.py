"""A service of a short file in a cluster: applied, observed, deleted. scaler.tools.deploying makes
its objects."""
