"""Taking an install of the scaler out of a cluster so that no pod stays behind its gate."""
