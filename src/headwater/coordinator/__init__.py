"""Groups and transactions as replicated state machines over internal topics.

Empty until the coordinators are built; the room exists so that its place in the stack is checked.
"""
