"""Sockets: listeners, connections, outgoing peers. The only room with a socket in it.

Empty until the broker is built; the room exists so that its place in the stack is checked.
"""
