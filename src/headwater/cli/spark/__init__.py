"""`headwater pipeline`, `connect` and `mirror`."""
