"""`scaler ui`: a cluster on a page in a browser, with the caller's rights. Changes nothing."""
