"""What the console's pages look like: facts in, HTML out, and nothing of the world touched."""
