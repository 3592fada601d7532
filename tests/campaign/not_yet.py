"""Attacks that succeed today, by the names of their families (tests.campaign.attacks). A list to be emptied.

They are not drawn by random schedules, and the suite fails when one of them does no harm any more.
"""

NOT_YET: dict[str, str] = {
    "hostile rules": "four rules of 800 KB are read in one turn of the loop",
    "hostile numbers": "a number of 5,000 digits fails the decision for everybody",
    "blind leader": "a leader that is out of touch keeps the Lease",
    "etcd restored": "a standby whose caches are from the future takes in nothing and cannot take over",
    "clock stepped": "deadlines of jobs are compared with the clock of the machine",
    "Retry-After": "a creation that is to come again in a minute comes again within it",
}
