"""The checks of `scaler preflight`: read_picture makes a Picture, all other modules check it and
are pure."""
