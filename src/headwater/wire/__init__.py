"""Bytes to messages and back, without I/O: frames, headers, the API table.

Empty until the broker is built; the room exists so that its place in the stack is checked.
"""
