"""From the cluster to records: watches, stores and indexes. The only writers of the cache. Decides
nothing."""
