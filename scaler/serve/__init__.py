"""What the scaler answers over HTTP: health, readiness, metrics, recorded snapshots."""
