"""Where a scenario runs: one broker, whichever it is, and a transcript of what it said.

A scenario is a function of a `Lab`. It must not depend on what other scenarios left behind: topics
that it makes carry its own name, and of an answer about everything it keeps its own part only.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headwater.protocol.older_versions import Message
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.peers.raw_client import ConnectionClosed, RawClient, newest_version
from tests.peers.transcript import Plain, in_order, plain

R = TypeVar("R", bound=Message)

LATEST: Final = -1
EARLIEST: Final = -2
_TIMEOUT_S: Final = 30
_HOUR_MS: Final = 3_600_000
_SCENARIO_MS: Final = 100_000
_CLOSED: Final = "(the connection was closed)"
_TEXTS: Final = frozenset({"error_message", "batch_index_error_message"})
_TIMES: Final = frozenset(
    {
        "timestamp",
        "base_timestamp",
        "max_timestamp",
        "last_timestamp",
        "log_append_time_ms",
        "transaction_start_time_ms",
    }
)


@dataclass(slots=True)
class Lab:
    """One scenario on one broker. `start_ms` is an hour ago, so that retention does not apply."""

    name: str
    bootstrap_servers: str
    start_ms: int = field(default_factory=lambda: _now_ms() - _HOUR_MS)
    transcript: dict[str, Plain] = field(default_factory=dict)
    client: RawClient = field(init=False)
    _topics: dict[str, str] = field(default_factory=dict)
    _producers: dict[int, str] = field(default_factory=dict)
    _cluster_id: str = ""

    def __post_init__(self) -> None:
        self.client = RawClient(self.bootstrap_servers)
        answer = self.get(MetadataRequest(topics=()), MetadataResponse)
        self._cluster_id = answer.cluster_id or ""

    # Requests

    def show(
        self, label: str, request: Message, version: int | None = None, *, unordered: bool = False
    ) -> None:
        """Send a request and record the response, or that there was none.

        Sort it with `unordered`: some responses of Kafka have the order of a hash map.
        """
        version = newest_version(request) if version is None else version
        try:
            answer = self.client.ask(request, version)
        except ConnectionClosed:
            self.note(label, _CLOSED)
        else:
            shown = self.plain(answer, version)
            self.note(label, in_order(shown) if unordered else shown)

    def ask(self, label: str, request: Message, response: type[R], version: int | None = None) -> R:
        """Send a request, record the response, and return it."""
        version = newest_version(request) if version is None else version
        answer = self.get(request, response, version)
        self.note(label, self.plain(answer, version))
        return answer

    def get(self, request: Message, response: type[R], version: int | None = None) -> R:
        """Send a request without recording the response."""
        version = newest_version(request) if version is None else version
        answer = self.client.ask(request, version)
        assert isinstance(answer, response)
        return answer

    def until(
        self,
        request: Message,
        response: type[R],
        is_good: Callable[[R], bool],
        version: int | None = None,
    ) -> R:
        """Repeat a request: changes reach a broker some time after the controller's response."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            answer = self.get(request, response, version)
            if is_good(answer):
                return answer
            assert time.monotonic() < deadline, f"still {answer}"

    def note(self, label: str, value: Plain) -> None:
        assert label not in self.transcript, f"{label} is told twice"
        self.transcript[label] = value

    def plain(self, value: object, version: int) -> Plain:
        return plain(value, version, self._rewrite)

    # Setup

    def named(self, suffix: str = "") -> str:
        """A topic name that only this scenario uses."""
        return f"{self.name}.{suffix}" if suffix else self.name

    def topic(self, suffix: str = "", *, partitions: int = 1, **configs: str) -> str:
        """A new topic, ready for records. Config names are written with underscores."""
        name = self.named(suffix)
        settings = tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        )
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, configs=settings
        )
        answer = self.get(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
        assert answer.topics[0].error_code is ErrorCode.NONE, answer
        self._topics[str(answer.topics[0].topic_id)] = name
        self.await_leaders(name, partitions)
        return name

    def await_leaders(self, topic: str, partitions: int) -> None:
        asked = tuple(
            ListOffsetsPartition(partition_index=number, timestamp=LATEST)
            for number in range(partitions)
        )
        request = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=asked),)
        )
        self.until(
            request,
            ListOffsetsResponse,
            lambda answer: all(
                each.error_code is ErrorCode.NONE for each in answer.topics[0].partitions
            ),
        )

    def topic_id(self, topic: str) -> TopicId:
        request = MetadataRequest(
            topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False
        )
        found = self.get(request, MetadataResponse).topics[0].topic_id
        assert found != NO_TOPIC_ID
        self._topics[str(found)] = topic
        return found

    def producer_id(self) -> int:
        """A new producer id, recorded by its ordinal number."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        # The first ids of a broker's life are not there at once.
        producer_id = self.until(
            request, InitProducerIdResponse, lambda answer: answer.error_code is ErrorCode.NONE
        ).producer_id
        self._rewrite("producer_id", producer_id)
        return producer_id

    def records(self, *values: str, key: str | None = "k", at_ms: int = 0) -> list[Record]:
        """Records one millisecond apart."""
        return [
            Record(
                key=None if key is None else key.encode(),
                value=value.encode(),
                timestamp=self.start_ms + at_ms + number,
            )
            for number, value in enumerate(values)
        ]

    def batch(self, *values: str, key: str | None = "k", at_ms: int = 0) -> memoryview:
        return memoryview(build_batch(self.records(*values, key=key, at_ms=at_ms)))

    # Replacements of values that must differ

    def _rewrite(self, name: str, value: Plain) -> Plain:
        match value:
            case bool() | None:
                return value
            case str():
                return self._rewrite_text(name, value)
            case int():
                return self._rewrite_number(name, value)
            case _:
                return value

    def _rewrite_text(self, name: str, value: str) -> Plain:
        if name in _TEXTS and value:
            return "(text)"
        if name == "host" and value == self.client.host:
            return "(host)"
        if name == "cluster_id" and value == self._cluster_id:
            return "(cluster)"
        if name == "client_instance_id" and value:
            return "(client)"
        if name == "topic_id" and value:
            known = self._topics.get(value)
            return f"(id of {known})" if known else "(some id)"
        return value

    def _rewrite_number(self, name: str, value: int) -> Plain:
        if name == "port" and value == self.client.port:
            return "(port)"
        if name == "producer_id" and value >= 0:
            return self._producers.setdefault(value, f"(producer {len(self._producers) + 1})")
        if name == "session_id" and value:
            return "(session)"
        if name in _TIMES and value >= self.start_ms - _SCENARIO_MS:
            since_ms = value - self.start_ms
            return f"(start+{since_ms})" if since_ms <= _SCENARIO_MS else "(now)"
        return value

    def learn_topic_id(self, topic: str, topic_id: TopicId) -> None:
        self._topics[str(topic_id)] = topic


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
