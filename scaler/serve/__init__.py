"""The HTTP servers of the scaler: the admission webhook with its certificates; health, metrics, the
last world."""
