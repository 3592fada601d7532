"""A cluster as the caller of a command may read it. Reads only."""
