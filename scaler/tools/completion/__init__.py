"""`scaler completion`: the completion script of a shell, and its answers."""
