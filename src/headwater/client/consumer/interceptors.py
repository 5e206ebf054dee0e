"""Consumer interceptors: user code that sees polled records and committed offsets.

An interceptor has `on_consume`, which receives the records of a poll and returns those to deliver,
or `on_commit`, which receives the offsets of a successful commit, or both. They run in the given
order, in the polling thread.

Note: exceptions of an interceptor are logged and ignored, as in Kafka. Tables (`poll_table`) do
not pass through interceptors.
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
    __slots__ = ("_committed", "_consuming")

    def __init__(self, given: object) -> None:
        interceptors = interceptors_of(given)
        self._consuming = methods_of(interceptors, "on_consume")
        self._committed = methods_of(interceptors, "on_commit")

    @property
    def watches_commits(self) -> bool:
        return bool(self._committed)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Pass polled records through the interceptors."""
        if not records:
            return records
        for intercept in self._consuming:
            try:
                changed = intercept(records)
            except Exception:  # noqa: BLE001 - an interceptor may raise anything
                _LOG.warning("Interceptor failed: method=on_consume", exc_info=True)
                continue
            if isinstance(changed, list):
                records = changed
            else:
                _LOG.warning("Interceptor did not return a list: method=on_consume got=%r", changed)
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
                _LOG.warning("Interceptor failed: method=on_commit", exc_info=True)
