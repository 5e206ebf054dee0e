"""`headwater topics`, `partitions` and `configs`."""
