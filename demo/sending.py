"""Send the shop's day to two topics from a thread, at its pace."""

import threading
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from demo.queries import ORDERS, PAYMENTS
from demo.shop import Sending
from headwater.client import Producer
from headwater.client.errors import KafkaError

_TIMEOUT_S: Final = 120.0


class Publisher:
    """Sends one part after the other, and waits until each is acknowledged.

    A part is never sent before the previous one is acknowledged, so a slow broker slows the pace.
    """

    def __init__(self, brokers: str, parts: Iterable[Sending], pause_s: float) -> None:
        self._brokers = brokers
        self._parts = parts
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shop", daemon=True)
        self.orders = 0
        self.payments = 0
        self.is_done = False
        self.failure: KafkaError | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(_TIMEOUT_S)

    def _run(self) -> None:
        try:
            with Producer(bootstrap_servers=self._brokers) as producer:
                for part in self._parts:
                    self._send(producer, part)
                    if self._stopping.wait(self._pause_s):
                        return
            self.is_done = True
        except KafkaError as error:
            self.failure = error

    def _send(self, producer: Producer, part: Sending) -> None:
        coming = [
            producer.send_table(topic, _table(records))
            for topic, records in ((ORDERS, part.orders), (PAYMENTS, part.payments))
            if records
        ]
        for each in coming:
            each.result(_TIMEOUT_S)
        if not part.is_closing:
            self.orders += len(part.orders)
            self.payments += len(part.payments)


def _table(records: list[tuple[bytes, bytes]]) -> pa.Table:
    # Alternate between both partitions, so that none lags behind in event time.
    return pa.table(
        {
            "key": [key for key, _ in records],
            "value": [value for _, value in records],
            "partition": pa.array([number % 2 for number in range(len(records))], pa.int32()),
        }
    )
