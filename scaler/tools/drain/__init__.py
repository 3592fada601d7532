"""`scaler drain`: the effect of a drain of nodes on services; no node is drained here."""
