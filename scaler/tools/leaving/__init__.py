"""Removes an install of the scaler from a cluster so that no pod stays behind its gate."""
