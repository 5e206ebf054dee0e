"""Interceptors: users' code that sees what a poll gives out, and what was committed.

An interceptor has `on_consume`, which gets the list of records of a poll and returns the one to
give out, or `on_commit`, which gets the offsets of a commit that went well, or both. They run in
the order given, in the thread that polls. What a reader would get wrong: an interceptor only
watches, so what it raises is logged and stops neither the poll nor the interceptors behind it.
Kafka does this. Tables are not shown to it: they have no records.
"""

import logging
from typing import Final

from headwater.client.errors import KafkaError
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.client.interceptor_methods import interceptors_of, methods_of
from headwater.common.ids import TopicPartition
from headwater.records.consumer_record import ConsumerRecord

_LOG: Final = logging.getLogger(__name__)


class ConsumerInterceptors:
    """All interceptors of a consumer."""

    __slots__ = ("_committed", "_consuming")

    def __init__(self, given: object) -> None:
        interceptors = interceptors_of(given)
        self._consuming = methods_of(interceptors, "on_consume")
        self._committed = methods_of(interceptors, "on_commit")

    @property
    def hear_of_commits(self) -> bool:
        return bool(self._committed)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """What the application gets of what a poll has found."""
        if not records:
            return records
        for intercept in self._consuming:
            try:
                changed = intercept(records)
            except Exception:  # noqa: BLE001 - an interceptor may raise anything
                _LOG.warning("an interceptor's on_consume failed", exc_info=True)
                continue
            if isinstance(changed, list):
                records = changed
            else:
                _LOG.warning("an interceptor's on_consume returned %r, and no list", changed)
        return records

    def on_commit(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], error: KafkaError | None
    ) -> None:
        if error is not None:
            return
        for intercept in self._committed:
            try:
                intercept(offsets)
            except Exception:  # noqa: BLE001 - as above
                _LOG.warning("an interceptor's on_commit failed", exc_info=True)
