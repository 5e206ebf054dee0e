"""Group markers by leader, and interpret WriteTxnMarkers responses (TX-6).

`address` builds one WriteTxnMarkers request per leader; `outcomes_of` converts a response to events
for the shards. For the leader's side, `MarkerResponses` collects the results of its markers.

Note: a response names producers, not transactions. That is sufficient, because a producer belongs
to one transactional id, which has at most one prepared transaction.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicPartition
from headwater.coordinator.runtime.coordinator_effects import (
    MarkerOutcome,
    MarkersAnswered,
    SendMarkers,
)
from headwater.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class NoLeader(Enum):
    """Why a marker cannot be sent."""

    DELETED = "deleted"
    UNKNOWN_FOR_NOW = "unknown for now"


LeaderOf = Callable[[TopicPartition], NodeId | NoLeader]

_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_NEVER_WRITTEN: Final = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)


@dataclass(slots=True)
class Addressed:
    """Markers by leader, and outcomes that are known without a request."""

    by_leader: dict[NodeId, list[SendMarkers]] = field(default_factory=dict)
    answered: list[MarkersAnswered] = field(default_factory=list)


def address(sendings: Iterable[SendMarkers], leader_of: LeaderOf, *, now_ms: int) -> Addressed:
    """Split each sending by the leaders of its partitions."""
    addressed = Addressed()
    for sending in sendings:
        by_leader: dict[NodeId, list[TopicPartition]] = {}
        known: list[tuple[TopicPartition, MarkerOutcome]] = []
        for partition in sending.partitions:
            leader = leader_of(partition)
            if leader is NoLeader.DELETED:
                known.append((partition, MarkerOutcome.PARTITION_DELETED))
            elif isinstance(leader, NoLeader):
                known.append((partition, MarkerOutcome.FAILED))
            else:
                by_leader.setdefault(leader, []).append(partition)
        for leader, partitions in by_leader.items():
            part = replace(sending, partitions=tuple(partitions))
            addressed.by_leader.setdefault(leader, []).append(part)
        if known:
            addressed.answered.append(_answered(sending, known, now_ms))
    return addressed


def request_of(sendings: Iterable[SendMarkers]) -> WriteTxnMarkersRequest:
    """Build the request to one leader."""
    return WriteTxnMarkersRequest(
        markers=tuple(
            WritableTxnMarker(
                producer_id=sending.producer_id,
                producer_epoch=sending.producer_epoch,
                transaction_result=sending.is_commit,
                topics=tuple(
                    WritableTxnMarkerTopic(name=topic, partition_indexes=tuple(numbers))
                    for topic, numbers in _by_topic(sending.partitions).items()
                ),
                coordinator_epoch=sending.coordinator_epoch,
                client_version=sending.client_version,
            )
            for sending in sendings
        )
    )


def outcomes_of(
    sendings: Iterable[SendMarkers], response: WriteTxnMarkersResponse, *, now_ms: int
) -> list[MarkersAnswered]:
    """Interpret a leader's response; a partition that is missing in it has failed."""
    codes = {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): (
            partition.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
    return [
        _answered(
            sending,
            [
                (partition, outcome_of(codes.get((sending.producer_id, partition))))
                for partition in sending.partitions
            ],
            now_ms,
        )
        for sending in sendings
    ]


def failed(sendings: Iterable[SendMarkers], *, now_ms: int) -> list[MarkersAnswered]:
    """The leader did not answer: send the markers again, the outcome is unknown."""
    return outcomes_of(sendings, WriteTxnMarkersResponse(), now_ms=now_ms)


def outcome_of(code: ErrorCode | None) -> MarkerOutcome:
    """Interpret a partition's error code. What is not final is retried."""
    if code is ErrorCode.NONE:
        return MarkerOutcome.WRITTEN
    if code in _FENCED:
        return MarkerOutcome.FENCED
    if code in _NEVER_WRITTEN:
        # The producer cannot have written there either.
        return MarkerOutcome.PARTITION_DELETED
    return MarkerOutcome.FAILED


@dataclass(slots=True)
class MarkerResponses:
    """Results of one WriteTxnMarkers request, on the leader's side.

    Markers are identified by their index in the request, since a producer may have several.
    """

    request: WriteTxnMarkersRequest
    _codes: dict[tuple[int, TopicPartition], ErrorCode] = field(default_factory=dict)

    def missing(self) -> list[tuple[int, TopicPartition]]:
        """Return the markers and partitions without a result, in request order."""
        return [
            (index, partition)
            for index, marker in enumerate(self.request.markers)
            for partition in _partitions_of(marker)
            if (index, partition) not in self._codes
        ]

    def add(self, index: int, partition: TopicPartition, code: ErrorCode) -> None:
        self._codes[index, partition] = code

    def response(self) -> WriteTxnMarkersResponse:
        """Build one result per producer, as Kafka does; of two markers the later one's."""
        by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
        for index, marker in enumerate(self.request.markers):
            codes = by_producer.setdefault(marker.producer_id, {})
            for partition in _partitions_of(marker):
                codes[partition] = self._codes[index, partition]
        return WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(producer_id=producer_id, topics=_topic_results(codes))
                for producer_id, codes in by_producer.items()
            )
        )


def _topic_results(
    codes: Mapping[TopicPartition, ErrorCode],
) -> tuple[WritableTxnMarkerTopicResult, ...]:
    return tuple(
        WritableTxnMarkerTopicResult(
            name=topic,
            partitions=tuple(
                WritableTxnMarkerPartitionResult(
                    partition_index=number, error_code=codes[TopicPartition(topic, number)]
                )
                for number in numbers
            ),
        )
        for topic, numbers in _by_topic(codes).items()
    )


def _partitions_of(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, number)
        for topic in marker.topics
        for number in topic.partition_indexes
    ]


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return by_topic


def _answered(
    sending: SendMarkers, outcomes: list[tuple[TopicPartition, MarkerOutcome]], now_ms: int
) -> MarkersAnswered:
    return MarkersAnswered(
        transactional_id=sending.transactional_id,
        send_id=sending.send_id,
        outcomes=tuple(outcomes),
        now_ms=now_ms,
    )
