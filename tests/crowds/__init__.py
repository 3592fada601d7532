"""Crowds: many services on scarce nodes, played with hundreds of seeds, each under another weather.

`make crowds` plays them; tests/crowds/test_crowds.py plays a few always. A seed decides in which order things arrive
and when, how long everything takes, how late watches are, what the scheduler chooses, and what befalls the nodes.
"""
