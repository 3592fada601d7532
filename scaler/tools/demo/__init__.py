"""`scaler demo`: a story on a simulated cluster, on a screen, for kubectl or in a browser."""
