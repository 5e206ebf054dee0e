"""Log why connections were closed, with a bounded number of lines.

A client whose requests are rejected may reconnect at once, thousands of times per second. The first
errors of a host are logged in full; `sweep` logs one line with the count of the rest.
"""

import logging
from collections import Counter
from typing import Final

from headwater.network.request_service import ClientAddress

LINES_MAX: Final = 10
"""Lines logged in full between two sweeps, per host."""

_log = logging.getLogger("headwater.network.connection")


class ClosedConnectionLog:
    """Counts the connections of each host that were closed since the last sweep."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def record(self, address: ClientAddress, error: Exception) -> None:
        """Log a connection that is closed because of what the client sent."""
        host = address.peer_host
        count = self._counts[host] = self._counts[host] + 1
        if count <= LINES_MAX:
            _log.warning(
                "Closed connection after a protocol error: client=%s error=%s", address, error
            )

    def sweep(self) -> None:
        """Log how many lines were omitted; called about once a second."""
        if self._counts:
            counts, self._counts = self._counts, Counter()
            for host, count in counts.items():
                if count > LINES_MAX:
                    _log.warning(
                        "Closed more connections after protocol errors: count=%d host=%s",
                        count - LINES_MAX,
                        host,
                    )
