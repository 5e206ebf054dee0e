"""What exists and who leads: the cluster image, the controller, the metadata stores.

Empty until the broker is built; the room exists so that its place in the stack is checked.
"""
