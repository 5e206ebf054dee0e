"""Ports that nobody listens on, for programs that cannot choose their own.

What a reader would get wrong: nothing keeps them free. Somebody else may take one before the
program does; it then says so and ends, and the next try gets others.
"""

import socket
from contextlib import ExitStack


def free_ports(host: str, count: int) -> list[int]:
    """As many different ones."""
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            bound = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            bound.bind((host, 0))
            ports.append(int(bound.getsockname()[1]))
        return ports
