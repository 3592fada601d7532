"""Several services on the same nodes: section 3b of the contract."""
