"""The admin client: what exists in a cluster, and how to change it."""
