"""`scaler preflight`: whether a cluster is ready for the scaler, and whether its scaler works."""
