"""`headwater registry` and `console`."""
