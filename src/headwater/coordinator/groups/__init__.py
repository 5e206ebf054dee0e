"""Groups of consumers, and the offsets they commit."""
