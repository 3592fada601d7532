"""The only package that changes the jobs' objects in the cluster. Performs plans, decides nothing."""
