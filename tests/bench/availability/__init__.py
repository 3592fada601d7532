"""A simulated month of services that share a cluster with training: how long those do not serve
that could. `python -m tests.bench.bench_availability` plays it."""
