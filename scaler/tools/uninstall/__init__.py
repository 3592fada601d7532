"""`scaler uninstall`: removes an install from a cluster so that no pod stays held."""
