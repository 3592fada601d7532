"""`scaler doctor`: the old name of `scaler why`."""
