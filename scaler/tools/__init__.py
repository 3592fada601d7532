"""Commands for people: one folder per command, and `common` for what several use.

Only `shadow run` has rights of its own in a cluster."""
