"""`headwater acls`, `users` and `quotas`."""
