"""Where a listener listens: `NAME://host:port`, as Kafka's `listeners` has it.

An empty host means all interfaces. IPv6 addresses stand in brackets.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.common.exceptions import InvalidSetting

_ENDPOINT = re.compile(r"([A-Za-z0-9._-]+)://(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\[\]:/]*)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A listener's name and address; port 0 asks for a free one."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """Host and port as people write them; `*` stands for all interfaces."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host or '*'}:{self.port}"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    match = _ENDPOINT.fullmatch(text.strip())
    if match is None:
        raise InvalidSetting(f"a listener is NAME://host:port, and not {text!r}")
    name, in_brackets, plain, port = match.groups()
    if int(port) > 65_535:
        raise InvalidSetting(f"the port of {text!r} is above 65535")
    # Kafka compares listener names in upper case.
    return Endpoint(name=name.upper(), host=in_brackets or plain or "", port=int(port))


def parse_address(text: str, *, name: str) -> Endpoint:
    """An endpoint from `host:port` alone, where the name goes without saying."""
    try:
        return parse_endpoint(f"{name}://{text.strip()}")
    except InvalidSetting:
        raise InvalidSetting(f"an address is host:port, and not {text!r}") from None


def parse_endpoints(text: str) -> list[Endpoint]:
    """A comma-separated list, in which each name and each port occurs once.

    Kafka does this: one IPv4 and one IPv6 address may share a port.
    """
    endpoints = [parse_endpoint(entry) for entry in text.split(",") if entry.strip()]
    if not endpoints:
        raise InvalidSetting("there must be at least one listener")
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise InvalidSetting(f"two listeners have one name: {text}")
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
            raise InvalidSetting(f"several listeners have port {port}: {text}")
