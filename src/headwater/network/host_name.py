"""Host name of this machine."""

import socket


def own_host_name() -> str:
    """Return the system's host name, or the loopback address if it does not resolve."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "127.0.0.1"
    return name
