"""Listener endpoints, `NAME://host:port`, as in Kafka's `listeners`.

An empty host means all interfaces. IPv6 addresses are in brackets.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.common.exceptions import InvalidSetting

_ENDPOINT = re.compile(r"([A-Za-z0-9._-]+)://(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:/]*)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A listener's name and address; port 0 means any free port."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """Host and port for display; `*` for all interfaces."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host or '*'}:{self.port}"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    match = _ENDPOINT.fullmatch(text.strip())
    if match is None:
        raise InvalidSetting(f"a listener must be NAME://host:port, not {text!r}")
    name, in_brackets, plain, port = match.groups()
    if int(port) > 65_535:
        raise InvalidSetting(f"the port of {text!r} is above 65535")
    # Kafka compares listener names in upper case.
    return Endpoint(name=name.upper(), host=in_brackets or plain or "", port=int(port))


def parse_address(text: str, *, name: str) -> Endpoint:
    """Parse `host:port` with a given listener name."""
    try:
        return parse_endpoint(f"{name}://{text.strip()}")
    except InvalidSetting:
        raise InvalidSetting(f"an address must be host:port, not {text!r}") from None


def parse_endpoints(text: str) -> list[Endpoint]:
    """Parse a comma-separated list with unique names and ports.

    As in Kafka, one IPv4 and one IPv6 address may share a port.
    """
    endpoints = [parse_endpoint(entry) for entry in text.split(",") if entry.strip()]
    if not endpoints:
        raise InvalidSetting("at least one listener is required")
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise InvalidSetting(f"duplicate listener names: {text}")
    _check_ports(endpoints, text)
    return endpoints


def _check_ports(endpoints: Sequence[Endpoint], text: str) -> None:
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        is_pair = len(sharing) == 2 and {":" in endpoint.host for endpoint in sharing} == {
            False,
            True,
        }
        if len(sharing) > 1 and not (is_pair and all(endpoint.host for endpoint in sharing)):
            raise InvalidSetting(f"several listeners use port {port}: {text}")
