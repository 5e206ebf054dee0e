"""Markers on their way: to which leaders they go, and what the leaders' answers mean (TX-6).

`address` makes one WriteTxnMarkers per leader of all that is to be sent; `outcomes_of` takes an
answer apart into events for the shards. The other end is here too: `MarkerResponses` collects what
a leader has to say about the markers it was given.

What a reader would get wrong: an answer names producers, not transactions. That is enough,
because a producer belongs to one transactional id, which has one decided transaction at a time.
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
    """Why there is nobody to send a marker to."""

    DELETED = "deleted"
    UNKNOWN_FOR_NOW = "unknown for now"


LeaderOf = Callable[[TopicPartition], NodeId | NoLeader]

_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_NEVER_WRITTEN: Final = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)


@dataclass(slots=True)
class Addressed:
    """What goes to whom, and what is known without asking."""

    by_leader: dict[NodeId, list[SendMarkers]] = field(default_factory=dict)
    answered: list[MarkersAnswered] = field(default_factory=list)


def address(sendings: Iterable[SendMarkers], leader_of: LeaderOf, *, now_ms: int) -> Addressed:
    """Part each sending by the leaders of its partitions."""
    addressed = Addressed()
    for sending in sendings:
        by_leader: dict[NodeId, list[TopicPartition]] = {}
        known: list[tuple[TopicPartition, MarkerOutcome]] = []
        for partition in sending.partitions:
            leader = leader_of(partition)
            if leader is NoLeader.DELETED:
                known.append((partition, MarkerOutcome.PARTITION_GONE))
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
    """All that one leader is told at once."""
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
    """What a leader's answer means; a partition that it does not mention has failed."""
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
    """The leader did not answer, so nobody knows; the markers are sent again."""
    return outcomes_of(sendings, WriteTxnMarkersResponse(), now_ms=now_ms)


def outcome_of(code: ErrorCode | None) -> MarkerOutcome:
    """What a partition's code means for its marker. What is not final is tried again."""
    if code is ErrorCode.NONE:
        return MarkerOutcome.WRITTEN
    if code in _FENCED:
        return MarkerOutcome.FENCED
    if code in _NEVER_WRITTEN:
        # The producer cannot have written there either.
        return MarkerOutcome.PARTITION_GONE
    return MarkerOutcome.FAILED


@dataclass(slots=True)
class MarkerResponses:
    """What became of the markers of one WriteTxnMarkers, on the leader's side.

    Markers are told apart by their place in the request, since a producer may have several.
    """

    request: WriteTxnMarkersRequest
    _codes: dict[tuple[int, TopicPartition], ErrorCode] = field(default_factory=dict)

    def missing(self) -> list[tuple[int, TopicPartition]]:
        """Which marker of which partition is not told yet, in the order of the request."""
        return [
            (place, partition)
            for place, marker in enumerate(self.request.markers)
            for partition in _partitions_of(marker)
            if (place, partition) not in self._codes
        ]

    def note(self, place: int, partition: TopicPartition, code: ErrorCode) -> None:
        self._codes[place, partition] = code

    def response(self) -> WriteTxnMarkersResponse:
        """One result per producer, as Kafka gives it; where two markers meet, the later one's."""
        by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
        for place, marker in enumerate(self.request.markers):
            codes = by_producer.setdefault(marker.producer_id, {})
            for partition in _partitions_of(marker):
                codes[partition] = self._codes[place, partition]
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
