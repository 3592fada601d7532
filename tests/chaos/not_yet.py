"""Attacks that succeed today, by the names of their families (tests.chaos.attacks). A list to be emptied.

They are not drawn by random schedules, and the suite fails when one of them does no harm any more.
"""

NOT_YET: dict[str, str] = {}
