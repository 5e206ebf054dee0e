"""Interceptors: users' code that sees every record on its way out, and what became of it.

An interceptor has `on_send`, which gets a `ProducerRecord` and returns the one to send, or
`on_acknowledgement`, which gets the future when it is done, or both. They run in the order given.
What a reader would get wrong: an interceptor only watches, so what it raises is logged and stops
neither the record nor the interceptors behind it. Kafka does this.
"""

import logging
from dataclasses import dataclass
from typing import Any, Final

from headwater.client.interceptor_methods import interceptors_of, methods_of
from headwater.client.producer.record_future import RecordFuture

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRecord:
    """A record before it is serialized."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Any = None


class Interceptors:
    """All interceptors of a producer; `are_any` keeps the usual path free of them."""

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
                _LOG.warning("an interceptor's on_send failed", exc_info=True)
                continue
            if isinstance(changed, ProducerRecord):
                record = changed
            else:
                _LOG.warning("an interceptor's on_send returned %r, and no record", changed)
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
                _LOG.warning("an interceptor's on_acknowledgement failed", exc_info=True)
