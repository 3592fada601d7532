"""Short files for `scaler deploy`: what they mean, and what is refused."""
