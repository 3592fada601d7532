"""The seam to the cluster: the protocol KubeApi on plain dicts, its errors, and its HTTP
implementation."""
