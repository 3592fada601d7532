"""A cluster as whoever calls a command may see it. Reads only."""
