"""`scaler deploy`: a service of a short file in a cluster, applied, observed, deleted."""
