"""The producer: pure rules of batches, sequences and transactions, and the shells that send."""
