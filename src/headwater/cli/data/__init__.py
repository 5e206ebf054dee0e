"""`headwater produce`, `consume`, `records` and `perf`."""
