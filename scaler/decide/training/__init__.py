"""Training jobs: instances that may be started at several sizes; section 3d of the contract.

The clauses of 3b ask an instance for what it needs (`needs.py`), what it offers as a victim, and
how it is enlarged (`enlarge.py`). An instance with one size answers as if this folder were not
there."""
