"""One handler per API, the dispatch table, and the composition root that builds a node."""
