"""Producer interceptors: user code that sees records and their results.

An interceptor has `on_send`, which receives a `ProducerRecord` and returns the one to send, or
`on_acknowledgement`, which receives the completed future, or both. They run in the given order.

Note: exceptions of an interceptor are logged and ignored, as in Kafka.
"""

import logging
from dataclasses import dataclass
from typing import Any, Final

from headwater.client.interceptor_methods import interceptors_of, methods_of
from headwater.client.producer.record_future import RecordFuture

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRecord:
    """A record before serialization."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Any = None


class Interceptors:
    """The interceptors of a producer; `are_any` is checked for every record."""

    __slots__ = ("_acknowledged", "_sending", "are_any")

    def __init__(self, given: object) -> None:
        interceptors = interceptors_of(given)
        self._sending = methods_of(interceptors, "on_send")
        self._acknowledged = methods_of(interceptors, "on_acknowledgement")
        self.are_any = bool(interceptors)

    def on_send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | None,
        headers: Any,
    ) -> tuple[str, Any, Any, int | None, int | None, Any]:
        record = ProducerRecord(
            topic=topic,
            value=value,
            key=key,
            partition=partition,
            timestamp=timestamp,
            headers=headers,
        )
        for intercept in self._sending:
            try:
                changed = intercept(record)
            except Exception:  # noqa: BLE001 - an interceptor may raise anything
                _LOG.warning("Interceptor failed: method=on_send", exc_info=True)
                continue
            if isinstance(changed, ProducerRecord):
                record = changed
            else:
                _LOG.warning("Interceptor did not return a record: method=on_send got=%r", changed)
        return (
            record.topic,
            record.value,
            record.key,
            record.partition,
            record.timestamp,
            record.headers,
        )

    def on_acknowledgement(self, future: RecordFuture) -> None:
        for intercept in self._acknowledged:
            try:
                intercept(future)
            except Exception:  # noqa: BLE001 - as above
                _LOG.warning("Interceptor failed: method=on_acknowledgement", exc_info=True)
