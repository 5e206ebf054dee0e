"""The web console: a cluster to look at and look after, in a browser and as JSON."""
