"""The page of `scaler ui`: a cluster in a browser, with the rights of whoever calls. Changes nothing."""
