"""Sockets: acceptors, connections, the event loop, and a small HTTP client.

Start with `socket_server`; `connection` reads requests and sends responses in order.
`request_service` is the interface to the code that answers requests. Only this package has sockets.
"""
