"""A real Kubernetes control plane for tests: built from Go modules (build.py), started on loopback
(plane.py)."""
