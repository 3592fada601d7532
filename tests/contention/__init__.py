"""Contention: many services on scarce nodes, played with hundreds of seeds, each with other delays.

`make contention` plays them, tests/contention/test_contention.py a few always. A seed decides what
comes when, how long everything takes, how late watches are, what the scheduler chooses, and what
happens to the nodes."""
