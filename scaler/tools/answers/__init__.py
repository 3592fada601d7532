"""Why something is as it is: one answer, in sections of checks, from what is seen of a cluster. Reads only."""
