"""The checks behind `scaler preflight`: reading makes a Picture, everything else judges it and is pure."""
