"""Worker that copies records exactly once: `python -m tests.durability.copier SERVERS COUNT`.

It runs in its own process, so that it can be killed, and prints each step as one letter per line,
so that a test can kill it at any step.

Note: no failure ends it except being fenced. What was read since the last commit is read again
after an abort.
"""

import sys
from collections.abc import Callable
from typing import Final

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

SOURCE: Final = "source"
COPY: Final = "copy"
GROUP: Final = "copiers"
BEGUN, SENT, OFFSETS_SENT, COMMITTED, ABORTED = "b", "s", "o", "c", "a"
DONE, FENCED = 0, 3

_CALL_S: Final = 10.0
_FENCING: Final = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.FENCED_INSTANCE_ID,
    # Errors of a fenced consumer; nothing else is fatal here.
    KafkaError._FATAL,
)


class Fenced(Exception):
    """Another worker has taken over."""


def changed(value: bytes) -> bytes:
    return b"copy of " + value


class Copier:
    """One run of the worker."""

    def __init__(self, servers: str, per_transaction: int) -> None:
        common: dict[str, str | int | float | bool] = {
            "bootstrap.servers": servers,
            "reconnect.backoff.max.ms": 200,
            # When its only broker has died, librdkafka (2.16) creates a new handle for it, and
            # waits forever for a group coordinator that it knows under the old one.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        self._per_transaction = per_transaction
        self._producer = Producer(
            {**common, "transactional.id": "copier", "linger.ms": 2, "batch.num.messages": 1_000}
        )
        self._consumer = Consumer(
            {
                **common,
                "group.id": GROUP,
                # With static membership the next worker replaces a killed one without waiting.
                "group.instance.id": "copier",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )

    def run(self) -> None:
        """Run until everything that was there at the start is copied."""
        persist(lambda: self._producer.init_transactions(_CALL_S))
        self._consumer.subscribe([SOURCE])
        while True:
            messages = self._read()
            if messages:
                self._copy(messages)
            elif self._is_done():
                return

    def _read(self) -> list[Message]:
        messages = []
        try:
            consumed = self._consumer.consume(self._per_transaction, 0.5)
        except KafkaException as failure:
            raise_if_fenced(failure.args[0])
            raise
        for message in consumed:
            error = message.error()
            if error is None:
                messages.append(message)
            else:
                raise_if_fenced(error)
        return messages

    def _copy(self, messages: list[Message]) -> None:
        try:
            self._producer.begin_transaction()
            say(BEGUN)
            for message in messages:
                value, partition = message.value(), message.partition()
                assert value is not None
                assert partition is not None
                self._send(changed(value), partition)
            self._producer.flush(_CALL_S)
            say(SENT)
            offsets, metadata = after(messages), self._consumer.consumer_group_metadata()
            persist(lambda: self._producer.send_offsets_to_transaction(offsets, metadata, _CALL_S))
            say(OFFSETS_SENT)
            persist(lambda: self._producer.commit_transaction(_CALL_S))
        except KafkaException as failure:
            raise_if_fenced(failure.args[0])
            if not failure.args[0].txn_requires_abort():
                raise
            persist(lambda: self._producer.abort_transaction(_CALL_S))
            self._rewind()
            say(ABORTED)
        else:
            say(COMMITTED)

    def _send(self, value: bytes, partition: int) -> None:
        while True:
            try:
                self._producer.produce(COPY, value, partition=partition)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _rewind(self) -> None:
        """Read again what was not committed."""
        for place in self._committed():
            self._consumer.seek(place)

    def _committed(self) -> list[TopicPartition]:
        found: list[TopicPartition] = []

        def ask() -> None:
            found[:] = self._consumer.committed(self._consumer.assignment(), _CALL_S)

        persist(ask)
        for place in found:
            if place.offset == OFFSET_INVALID:
                place.offset = 0
        return found

    def _is_done(self) -> bool:
        assigned = self._consumer.assignment()
        if not assigned:
            return False
        ends = {each.partition: self._end(each) for each in assigned}
        return all(each.offset >= ends[each.partition] for each in self._committed())

    def _end(self, place: TopicPartition) -> int:
        ends: list[int] = []

        def ask() -> None:
            found = self._consumer.get_watermark_offsets(place, _CALL_S)
            if found is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True))
            ends.append(found[1])

        persist(ask)
        return ends[-1]


def after(messages: list[Message]) -> list[TopicPartition]:
    """Return the next offset to read."""
    last: dict[int, int] = {}
    for message in messages:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        last[partition] = offset + 1
    return [TopicPartition(SOURCE, partition, offset) for partition, offset in last.items()]


def persist(call: Callable[[], None]) -> None:
    """Retry until it works: the broker may be down for a while."""
    while True:
        try:
            call()
        except KafkaException as failure:
            error = failure.args[0]
            raise_if_fenced(error)
            if error.txn_requires_abort() or not (error.retriable() or is_passing(error)):
                raise
        else:
            return


def is_passing(error: KafkaError) -> bool:
    return error.code() in (
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        # The leader of the partition is currently unknown.
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    )


def raise_if_fenced(error: KafkaError) -> None:
    if error.code() in _FENCING:
        raise Fenced(str(error))


def say(letter: str) -> None:
    print(letter, flush=True)


def main() -> int:
    servers, per_transaction = sys.argv[1:]
    try:
        Copier(servers, int(per_transaction)).run()
    except Fenced as fenced:
        print(fenced, file=sys.stderr)
        return FENCED
    return DONE


if __name__ == "__main__":
    sys.exit(main())
