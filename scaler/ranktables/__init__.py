"""What the rank table of an instance says, and the reconciler that keeps it right."""
