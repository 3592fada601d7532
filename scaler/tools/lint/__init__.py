"""`scaler lint`: errors in rules and jobs in the files of a user. Only its command reads files."""
