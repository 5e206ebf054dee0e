"""One record at a time for each identity, and none that was done with before.

Records of one identity may have different keys, or none, and so be with different workers. What a
reader would get wrong: a worker that waits here never has an identity of its own, so no two of them
wait for each other.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.client.parallel.deduplicator import Deduplicator
from headwater.records.consumed import ConsumedRecord


class Once:
    """A deduplicator for many threads."""

    def __init__(self, deduplicator: Deduplicator) -> None:
        self._seen = deduplicator
        self._in_work: set[bytes] = set()
        self._changed = threading.Condition()

    @contextmanager
    def alone(self, record: ConsumedRecord) -> Iterator[bool]:
        """Wait until no other record of this identity is worked on; whether it is new then."""
        identity = self._seen.identity_of(record)
        if identity is None:
            yield True
            return
        with self._changed:
            self._changed.wait_for(lambda: identity not in self._in_work)
            self._in_work.add(identity)
        try:
            yield self._seen.is_new(record)
        finally:
            with self._changed:
                self._in_work.discard(identity)
                self._changed.notify_all()

    def done(self, record: ConsumedRecord) -> None:
        self._seen.handled(record)

    def flush(self) -> None:
        self._seen.flush()
