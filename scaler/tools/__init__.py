"""Commands for people. Nothing here but `shadow run` has rights of its own in a cluster."""
