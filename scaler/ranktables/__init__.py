"""The content of the rank table of an instance, and the reconciler that keeps the tables right."""
