"""Contention: many services on scarce nodes, played with hundreds of seeds, each with other delays.

`make contention` plays them; tests/contention/test_contention.py plays a few always. A seed decides in which order
objects arrive and when, how long everything takes, how late watches are, what the scheduler chooses, and what happens
to the nodes."""
