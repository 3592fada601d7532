"""Chaos tests: whole histories of trouble in virtual time, each from one seed, judged by a witness
of its own.

    schedule (from the seed) -> stage (cluster, stand-ins, lives of the controller) -> witness and
    judge -> findings

`python -m tests.chaos --help`; docs/explanation/reliability.md says what was found. Must not: look
into the controller's caches, or share code with it in what judges it."""
