"""Commands for people. Nothing here runs with rights in the cluster."""
