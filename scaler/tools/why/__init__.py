"""`scaler why`: the reason for the state of a job, a pod or a service."""
