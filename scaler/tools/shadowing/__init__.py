"""The notes of `scaler shadow`, a controller that decides and does nothing, and their storage."""
