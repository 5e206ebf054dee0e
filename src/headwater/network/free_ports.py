"""Find free ports, for programs that cannot choose their own.

Note: the ports are not reserved. Another process may take one first; the program then fails to
bind, and the next attempt gets other ports.
"""

import socket
from contextlib import ExitStack


def free_ports(host: str, count: int) -> list[int]:
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            bound = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            bound.bind((host, 0))
            ports.append(int(bound.getsockname()[1]))
        return ports
