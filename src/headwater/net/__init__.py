"""Sockets: listeners, connections, outgoing peers. The only room with a socket in it.

One loop, raw non-blocking sockets, callbacks. `server` puts it together for a broker; `peer` is the
other end, for whoever asks a broker.
"""
