"""From the cluster to one value: watch events in, a frozen Snapshot out. Decides nothing."""
