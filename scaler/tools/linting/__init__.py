"""`scaler lint`: checks rules and jobs in the files of a user. No I/O."""
