"""`scaler plan`: the effect of a rule for given counts or a described cluster."""
