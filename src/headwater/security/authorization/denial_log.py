"""Write denials to the authorizer's log, a bounded number of lines at a time.

Kafka writes one line for each denied resource, so a client without any rights causes one for each
name of a request. Here the first denials of a principal, host, operation and resource type are
written in full, and `tell` writes one line with the count of the rest. The broker calls it about
once a second.
"""

import logging
from collections import Counter
from typing import Final

from headwater.common.principal import Requester
from headwater.security.authorization.acl_bindings import kafka_name
from headwater.security.authorization.authorizer import Operation, ResourceKind

LINES_MAX: Final = 10
"""Lines in full between two calls of `tell`, by principal, host, operation and resource type."""

_log: Final = logging.getLogger("headwater.authorizer")


class DenialLog:
    """Counts denials since the last call of `tell`."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Requester, Operation, ResourceKind]] = Counter()

    def has_room(self, requester: Requester, operation: Operation, kind: ResourceKind) -> bool:
        """Count a denial; whether it is to be written in full."""
        key = (requester, operation, kind)
        count = self._counts[key] = self._counts[key] + 1
        return count <= LINES_MAX

    def tell(self) -> None:
        """Write how many denials were left out, and start counting again."""
        if not self._counts:
            return
        counts, self._counts = self._counts, Counter()
        for (requester, operation, kind), count in counts.items():
            if count > LINES_MAX:
                _log.info(
                    "%s from %s is denied %s on %d more resources of type %s",
                    requester.principal,
                    requester.host,
                    operation.name,
                    count - LINES_MAX,
                    kafka_name(kind),
                )
