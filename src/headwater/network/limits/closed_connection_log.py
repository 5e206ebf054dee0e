"""Log why connections were closed, a bounded number of lines at a time.

A client whose requests are refused may connect again at once, thousands of times in a second. The
first refusals of a host are written in full, and `sweep` writes one line with the count of the
rest.
"""

import logging
from collections import Counter
from typing import Final

from headwater.network.request_service import ClientAddress

LINES_MAX: Final = 10
"""Lines in full between two sweeps, for each host."""

_log = logging.getLogger("headwater.network.connection")


class Complaints:
    """Counts the connections of each host that were closed since the last sweep."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def tell(self, address: ClientAddress, error: Exception) -> None:
        """A connection is closed because of what its peer sent."""
        host = address.peer_host
        count = self._counts[host] = self._counts[host] + 1
        if count <= LINES_MAX:
            _log.warning("%s: closed, because of what it sent: %s", address, error)

    def sweep(self) -> None:
        """Write how many were left out; called about once a second."""
        if self._counts:
            counts, self._counts = self._counts, Counter()
            for host, count in counts.items():
                if count > LINES_MAX:
                    _log.warning(
                        "%d more connections of %s were closed because of what they sent",
                        count - LINES_MAX,
                        host,
                    )
