"""Log authorization denials, with a bound on the number of lines.

Kafka logs one line per denied resource, so a client without any ACLs causes one per topic name of a
request. Here the first denials of a principal, host, operation and resource type are logged in
full, and `log_omitted` logs the number of the others in one line. The broker calls it about once a
second.
"""

import logging
from collections import Counter
from typing import Final

from headwater.common.principal import Requester
from headwater.security.authorization.acl_bindings import kafka_name
from headwater.security.authorization.authorizer import Operation, ResourceKind

LINES_MAX: Final = 10
"""Lines between two calls of `log_omitted`, per principal, host, operation and resource type."""

_log: Final = logging.getLogger("headwater.authorizer")


class DenialLog:
    """Count denials since the last call of `log_omitted`."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Requester, Operation, ResourceKind]] = Counter()

    def has_room(self, requester: Requester, operation: Operation, kind: ResourceKind) -> bool:
        """Count a denial, and return whether to log it in full."""
        key = (requester, operation, kind)
        count = self._counts[key] = self._counts[key] + 1
        return count <= LINES_MAX

    def log_omitted(self) -> None:
        """Log how many denials were left out, and reset the counts."""
        if not self._counts:
            return
        counts, self._counts = self._counts, Counter()
        for (requester, operation, kind), count in counts.items():
            if count > LINES_MAX:
                _log.info(
                    "Authorization denied: principal=%s host=%s operation=%s resource=%s"
                    " more_resources=%d",
                    requester.principal,
                    requester.host,
                    operation.name,
                    kafka_name(kind),
                    count - LINES_MAX,
                )
