"""What `scaler shadow` notes of a controller that decides and does nothing, and where it is kept."""
