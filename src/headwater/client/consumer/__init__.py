"""The consumer: pure rules of groups, positions and fetches, and the shells that act on them."""
