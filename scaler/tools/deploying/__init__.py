"""Makes the objects of a service from one short file, without a cluster (scaler.tools.deploy
applies them)."""
