"""Connection limits in total, per listener, IP and second (ConnectionQuotas).

Note: `max.connection.creation.rate` rejects nothing. As in Kafka, connections above it wait in the
backlog, so `may_accept` is checked before accepting, and `inc` afterwards, when the address is
known. Limits of all listeners together do not apply to a separate inter-broker listener.
"""

import ipaddress
from collections import Counter

from headwater.common.exceptions import InvalidSetting
from headwater.network.network_settings import UNLIMITED, NetworkSettings


class ConnectionQuotas:
    """The connection counts of one server."""

    def __init__(self, settings: NetworkSettings, *, protected: str | None = None) -> None:
        """`protected` is the inter-broker listener, exempt from broker-wide limits."""
        self.configure(settings)
        self._protected = protected
        self._of_listener: Counter[str] = Counter()
        self._of_address: Counter[str] = Counter()
        self._refilled_ms: int | None = None
        self._left_to_accept = float(settings.max_connection_creation_rate)
        self.count = 0

    def configure(self, settings: NetworkSettings) -> None:
        """Apply new limits to new connections."""
        self._settings = settings
        self._overrides = {
            plain_address(host): limit
            for host, limit in settings.max_connections_per_ip_overrides.items()
        }

    @property
    def address_count(self) -> int:
        """Number of addresses that have a connection."""
        return len(self._of_address)

    def may_accept(self, listener: str) -> bool:
        """Whether the rate allows another connection now."""
        return self._left_to_accept >= 1 or listener == self._protected

    def refill(self, now_ms: int) -> None:
        """Replenish the rate limit, up to one second's worth."""
        if self._refilled_ms is not None:
            rate = self._settings.max_connection_creation_rate
            gained = rate * max(0, now_ms - self._refilled_ms) / 1_000
            self._left_to_accept = min(rate, self._left_to_accept + gained)
        self._refilled_ms = now_ms

    def inc(self, listener: str, host: str) -> str | None:
        """Count a connection, or return the setting that rejects it.

        `host` is a plain address.
        """
        settings = self._settings
        if settings.max_connection_creation_rate != UNLIMITED:
            self._left_to_accept -= 1
        if self.count >= settings.max_connections and listener != self._protected:
            return "max.connections"
        of_listener = settings.max_connections_of_listeners.get(listener)
        if of_listener is not None and self._of_listener[listener] >= of_listener:
            return f"listener.name.{listener.lower()}.max.connections"
        if self._of_address[host] >= self._overrides.get(host, settings.max_connections_per_ip):
            return "max.connections.per.ip"
        self.count += 1
        self._of_listener[listener] += 1
        self._of_address[host] += 1
        return None

    def dec(self, listener: str, host: str) -> None:
        """Remove an admitted connection from the counts."""
        self.count -= 1
        self._of_listener[listener] -= 1
        self._of_address[host] -= 1
        if not self._of_address[host]:
            # Otherwise every address that ever connected would stay in memory.
            del self._of_address[host]


def plain_address(host: str) -> str:
    """Normalise an address: IPv4-mapped IPv6 addresses become IPv4."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def parse_overrides(text: str) -> dict[str, int]:
    """Parse `max.connections.per.ip.overrides`: `10.0.0.1:200,[::1]:50`."""
    overrides: dict[str, int] = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        host, colon, limit = entry.rpartition(":")
        if not (colon and host and limit.isascii() and limit.isdigit()):
            raise InvalidSetting(
                f"max.connections.per.ip.overrides must be host:limit, not {entry!r}"
            )
        overrides[plain_address(host.removeprefix("[").removesuffix("]"))] = int(limit)
    return overrides
