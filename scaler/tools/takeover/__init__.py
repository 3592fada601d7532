"""`scaler takeover`: whether the scaler can take over the services of a cluster."""
