"""What users' tests import: an embedded broker and a pytest plugin.

Empty until the broker is built; the room exists so that its place in the stack is checked.
"""
