"""The rest of a cluster as ordinary clients of KubeApi: they run against a real API server just as well."""
