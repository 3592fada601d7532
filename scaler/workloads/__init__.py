"""One module per workload kind: raw object <-> what the planner needs. No I/O."""
