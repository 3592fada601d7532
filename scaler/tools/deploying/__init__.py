"""Makes the objects of a service out of one short file. No part of it talks to a cluster (scaler.tools.deploy does)."""
