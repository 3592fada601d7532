"""What the scaler answers over HTTP: the admission webhook, with its certificates; health, metrics, the last world."""
