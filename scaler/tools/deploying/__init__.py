"""`scaler deploy`: a service from a short file."""
