"""One handler per API, the dispatch table, and the composition root that builds a node.

Empty until the broker is built; the room exists so that its place in the stack is checked.
"""
