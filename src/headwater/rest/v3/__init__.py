"""API v3: resources of the cluster, and produce streams. Start with `routes`."""
