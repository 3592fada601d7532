"""`scaler simulate`: a scenario of a user in virtual time, as text, JSON and a picture."""
