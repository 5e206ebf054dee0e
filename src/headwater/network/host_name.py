"""The name under which other machines reach this one."""

import socket


def own_host_name() -> str:
    """As the system knows it; where that name leads nowhere, the loopback address."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "127.0.0.1"
    return name
