"""From the cluster to one value: watch events in, a frozen World out. Decides nothing."""
