"""Bytes to messages and back, without I/O.

`frames` cuts what arrives, `headers` says what it is, `translation` reads and writes the messages
of `messages` in any version, `produce` and `fetch` do so for the two APIs that carry records.
"""
