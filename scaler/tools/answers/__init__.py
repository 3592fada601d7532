"""Why an object is in its present state: one answer, in sections of checks, from a view of a
cluster. Reads only."""
