"""librdkafka without a Python object per record, through ctypes.

It is the library inside confluent-kafka. A client written in Python would be slower than any
broker, and a benchmark would measure the client. Here one call passes ten thousand records, and
librdkafka's own threads do the rest.

Note: the callback for consumed records is the C library's `abs`, which ignores its other arguments,
so no record ever reaches Python.
"""

import ctypes
import os
from collections.abc import Mapping
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import confluent_kafka

_PRODUCER: Final = 0
_CONSUMER: Final = 1
_RECORDS_AT_ONCE: Final = 10_000
_COPY: Final = 2
_TIMEOUT_MS: Final = 200
_PAUSE_MS: Final = 2
_ERROR_BYTES: Final = 512
_PARTITION: Final = 0


class _Message(Structure):
    """`rd_kafka_message_t`."""

    _fields_ = (
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


class _Client:
    """Producer or consumer of one topic."""

    def __init__(self, kind: int, port: int, topic: str, settings: Mapping[str, str]) -> None:
        self._library = _library()
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        conf = self._library.rd_kafka_conf_new()
        every = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": "3", **settings}
        for name, value in every.items():
            given = (name.encode(), value.encode())
            if self._library.rd_kafka_conf_set(conf, *given, error, _ERROR_BYTES):
                raise ValueError(error.value.decode())
        self._client = self._library.rd_kafka_new(kind, conf, error, _ERROR_BYTES)
        if not self._client:
            raise ValueError(error.value.decode())
        self._topic = self._library.rd_kafka_topic_new(self._client, topic.encode(), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._library.rd_kafka_topic_destroy(self._topic)
        self._library.rd_kafka_destroy(self._client)


class BulkProducer(_Client):
    """Sends the same value repeatedly."""

    def __init__(self, port: int, topic: str, settings: Mapping[str, str]) -> None:
        super().__init__(_PRODUCER, port, topic, settings)

    def produce(self, value: bytes, count: int) -> None:
        """Send `count` records and wait until all are acknowledged."""
        payload = ctypes.create_string_buffer(value, len(value))
        messages = (_Message * _RECORDS_AT_ONCE)()
        for message in messages:
            message.payload = ctypes.addressof(payload)
            message.len = len(value)
        left = count
        while left:
            asked = min(left, _RECORDS_AT_ONCE)
            taken = self._library.rd_kafka_produce_batch(
                self._topic, _PARTITION, 0, messages, asked
            )
            left -= taken
            if taken < asked:
                # The queue is full. Letting the call itself block would wait forever if the topic
                # is not known yet: it would hold the lock that the metadata update needs.
                self._library.rd_kafka_poll(self._client, _PAUSE_MS)
        self.flush()

    def send(self, value: bytes) -> None:
        """Send one record."""
        if self._library.rd_kafka_produce(
            self._topic, _PARTITION, _COPY, value, len(value), None, 0, None
        ):
            raise RuntimeError("the producer's queue is full")

    def flush(self) -> None:
        if self._library.rd_kafka_flush(self._client, 60_000):
            raise TimeoutError("not all records were acknowledged")


class Consumer(_Client):
    """Consumer of one partition."""

    def __init__(self, port: int, topic: str, settings: Mapping[str, str]) -> None:
        super().__init__(_CONSUMER, port, topic, settings)

    def start(self, offset: int) -> None:
        if self._library.rd_kafka_consume_start(self._topic, _PARTITION, offset):
            raise RuntimeError("the partition cannot be consumed")

    def stop(self) -> None:
        self._library.rd_kafka_consume_stop(self._topic, _PARTITION)

    def skip(self, count: int) -> None:
        """Consume at least `count` records without looking at them."""
        ignore = ctypes.cast(ctypes.CDLL(None).abs, c_void_p)
        seen = 0
        while seen < count:
            got = self._library.rd_kafka_consume_callback(
                self._topic, _PARTITION, _TIMEOUT_MS, ignore, None
            )
            if got < 0:
                raise RuntimeError("consuming failed")
            seen += got

    def next_value(self, length: int) -> bytes | None:
        """Return the first bytes of the next record; None if none arrives for a while."""
        found = self._library.rd_kafka_consume(self._topic, _PARTITION, _TIMEOUT_MS)
        if not found:
            return None
        message = found.contents
        value = None if message.err else ctypes.string_at(message.payload, length)
        self._library.rd_kafka_message_destroy(found)
        return value


@cache
def _library() -> ctypes.CDLL:
    """Return the library that confluent-kafka has loaded."""
    libraries = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    (path,) = libraries.glob("librdkafka-*.so*")
    library = ctypes.CDLL(os.fspath(path))
    text, pointer = c_char_p, c_void_p
    signatures = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (c_int, [pointer, text, text, text, c_size_t]),
        "rd_kafka_new": (pointer, [c_int, pointer, text, c_size_t]),
        "rd_kafka_topic_new": (pointer, [pointer, text, pointer]),
        "rd_kafka_produce_batch": (c_int, [pointer, c_int32, c_int, POINTER(_Message), c_int]),
        "rd_kafka_produce": (
            c_int,
            [pointer, c_int32, c_int, text, c_size_t, pointer, c_size_t, pointer],
        ),
        "rd_kafka_poll": (c_int, [pointer, c_int]),
        "rd_kafka_flush": (c_int, [pointer, c_int]),
        "rd_kafka_consume_start": (c_int, [pointer, c_int32, c_int64]),
        "rd_kafka_consume_stop": (c_int, [pointer, c_int32]),
        "rd_kafka_consume_callback": (c_int, [pointer, c_int32, c_int, pointer, pointer]),
        "rd_kafka_consume": (POINTER(_Message), [pointer, c_int32, c_int]),
        "rd_kafka_message_destroy": (None, [POINTER(_Message)]),
        "rd_kafka_topic_destroy": (None, [pointer]),
        "rd_kafka_destroy": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
