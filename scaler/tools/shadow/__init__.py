"""`scaler shadow`: a controller that decides and does nothing, its notes and their storage."""
