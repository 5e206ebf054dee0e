"""Who you are, what you may do, and how much of it.

Empty until the broker is built; the room exists so that its place in the stack is checked.
"""
