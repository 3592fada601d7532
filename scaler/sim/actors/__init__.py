"""The other components of a cluster as ordinary clients of KubeApi, which also run against a real
API server."""
