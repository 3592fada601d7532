"""The seam to the cluster: the KubeApi protocol on plain dicts, its errors, its real implementation."""
