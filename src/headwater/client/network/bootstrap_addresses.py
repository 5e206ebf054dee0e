"""Parse `bootstrap.servers` into hosts and ports."""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.common.exceptions import InvalidSetting
from headwater.network.endpoint import parse_address


class BootstrapAddress(NamedTuple):
    """A host name or IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_bootstrap(servers: Sequence[str]) -> list[BootstrapAddress]:
    """The addresses in order, without duplicates. A scheme is accepted and ignored."""
    found: dict[BootstrapAddress, None] = {}
    for server in servers:
        endpoint = parse_address(server.rpartition("://")[2], name="BOOTSTRAP")
        if not endpoint.host or not endpoint.port:
            raise InvalidSetting(f"bootstrap.servers: {server!r} is not host:port")
        found[BootstrapAddress(endpoint.host, endpoint.port)] = None
    return list(found)
