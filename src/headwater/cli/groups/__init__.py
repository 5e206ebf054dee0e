"""`headwater groups` and `transactions`."""
