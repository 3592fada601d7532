"""The simulated API server: objects, versions, rules of the API, and its faults. No scheduler, no
kubelet."""
