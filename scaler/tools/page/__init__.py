"""The page of `scaler ui`: a cluster in a browser, with the caller's rights. Changes nothing."""
