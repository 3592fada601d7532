"""`scaler new`: a short file and a scenario to begin with."""
