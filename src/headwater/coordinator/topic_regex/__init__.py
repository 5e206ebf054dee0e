"""Regular expressions over topic names in RE2 syntax (KIP-848).

Start with `topic_pattern`. It uses an automaton instead of Python's `re`, which backtracks: a
client could block a broker with a short expression. `parser` reads RE2's syntax.
"""
