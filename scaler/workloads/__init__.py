"""Translates the objects of each workload kind into the values of the decision, and back. No
I/O."""
