"""`scaler explain`: the reasons of recorded decisions."""
