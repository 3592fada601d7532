"""The page of `scaler ui`: what its server sends, and what a browser makes of it."""
