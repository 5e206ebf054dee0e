"""OffsetFetch and OffsetDelete."""

from collections.abc import Mapping

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, ProducerId, TopicId, TopicPartition
from headwater.coordinator.group.committed_offsets import CommittedOffsets, tombstone
from headwater.coordinator.group.group import Group
from headwater.coordinator.group.offset_fetch import delete, fetch_group
from headwater.coordinator.records.offset_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Caller,
    Effect,
    Reply,
    RequestEvent,
)
from headwater.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.simulation.fakes.scripted_group import PuppetGroup

OLD_ID = TopicId(bytes(range(16)))
NEW_ID = TopicId(bytes(range(16, 32)))
CALLER = Caller(4)


def commit(
    offsets: CommittedOffsets,
    topic: str,
    partition: int,
    *,
    producer_id: ProducerId | None = None,
    topic_id: TopicId = NO_TOPIC_ID,
) -> None:
    key = OffsetCommitKey(group="g", topic=topic, partition=partition)
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", topic_id=topic_id)
    offsets.replay(OffsetCommitRecord(key, value), offset=0, producer_id=producer_id)


@pytest.fixture
def offsets() -> CommittedOffsets:
    """One commit of each kind."""
    made = CommittedOffsets()
    commit(made, "orders", 1)
    commit(made, "bills", 0)
    commit(made, "bills", 0, producer_id=ProducerId(7))
    commit(made, "fresh", 0, producer_id=ProducerId(7))
    return made


def found(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=5, committed_leader_epoch=2, metadata="m"
    )


def missing(index: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=-1,
        committed_leader_epoch=-1,
        metadata="",
        error_code=error,
    )


def fetch(
    offsets: CommittedOffsets,
    topics: Mapping[str, tuple[int, ...]] | None,
    *,
    group: Group | None = None,
    require_stable: bool = False,
    version: int = 9,
) -> OffsetFetchResponseGroup:
    asked = OffsetFetchRequestGroup(
        group_id="g",
        topics=None
        if topics is None
        else tuple(
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ),
    )
    return fetch_group(asked, group, offsets, require_stable=require_stable, version=version)


def answer(**topics: tuple[OffsetFetchResponsePartitions, ...]) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id="g",
        topics=tuple(
            OffsetFetchResponseTopics(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ),
    )


def test_committed_offsets_are_returned_and_others_are_minus_one(offsets: CommittedOffsets) -> None:
    """GR-12."""
    assert fetch(offsets, {"orders": (0, 1)}) == answer(orders=(missing(0), found(1)))


def test_an_unknown_group_has_no_offsets_and_no_error() -> None:
    """GR-12."""
    assert fetch(CommittedOffsets(), {"orders": (0,)}) == answer(orders=(missing(0),))
    assert fetch(CommittedOffsets(), None) == answer()


def test_all_topics_are_returned_in_order(offsets: CommittedOffsets) -> None:
    """GR-12."""
    assert fetch(offsets, None) == answer(bills=(found(0),), orders=(found(1),))


def test_pending_offsets_are_unstable_if_stable_ones_are_required(
    offsets: CommittedOffsets,
) -> None:
    """TX-11."""
    unstable = missing(0, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    asked = {"bills": (0,), "fresh": (0,), "orders": (1,)}
    assert fetch(offsets, asked, require_stable=True) == answer(
        bills=(unstable,), fresh=(unstable,), orders=(found(1),)
    )
    assert fetch(offsets, asked) == answer(
        bills=(found(0),), fresh=(missing(0),), orders=(found(1),)
    )
    assert fetch(offsets, None, require_stable=True) == answer(
        bills=(unstable,), orders=(found(1),)
    )


def test_a_rejected_member_gets_no_offsets(offsets: CommittedOffsets) -> None:
    """NG-8, GR-12: the error is at the group, before version 2 at each partition."""
    group = PuppetGroup(refusal=ErrorCode.STALE_MEMBER_EPOCH)
    refused = OffsetFetchResponseGroup(group_id="g", error_code=ErrorCode.STALE_MEMBER_EPOCH)
    assert fetch(offsets, {"orders": (1,)}, group=group) == refused
    told = fetch(offsets, {"orders": (1,)}, group=group, version=1)
    assert told.topics == answer(orders=(missing(1, ErrorCode.STALE_MEMBER_EPOCH),)).topics


@pytest.mark.parametrize(
    ("committed", "asked", "is_found"),
    [
        (OLD_ID, OLD_ID, True),
        (OLD_ID, NEW_ID, False),
        (NO_TOPIC_ID, NEW_ID, True),
        (OLD_ID, NO_TOPIC_ID, True),
    ],
)
def test_a_commit_to_a_deleted_topic_of_the_same_name_is_not_returned(
    committed: TopicId, asked: TopicId, is_found: bool
) -> None:
    """TI-1."""
    offsets = CommittedOffsets()
    commit(offsets, "orders", 0, topic_id=committed)
    topic = OffsetFetchRequestTopics(name="orders", topic_id=asked, partition_indexes=(0,))
    request = OffsetFetchRequestGroup(group_id="g", topics=(topic,))
    told = fetch_group(request, None, offsets, require_stable=False, version=10)
    (answered,) = told.topics
    assert answered.topic_id == asked
    assert answered.partitions == ((found(0) if is_found else missing(0)),)


def delete_offsets(offsets: CommittedOffsets, group: Group | None) -> list[Effect]:
    request = OffsetDeleteRequest(
        group_id="g",
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=name,
                partitions=(
                    OffsetDeleteRequestPartition(partition_index=0),
                    OffsetDeleteRequestPartition(partition_index=1),
                ),
            )
            for name in ("orders", "bills", "fresh")
        ),
    )
    asked = RequestEvent(
        request=request, version=0, caller=CALLER, client_id="c", client_host="h", now_ms=0
    )
    return delete(asked, request, group, offsets)


def deleted(**topics: ErrorCode) -> Reply:
    response = OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(partition_index=index, error_code=error)
                    for index in (0, 1)
                ),
            )
            for name, error in topics.items()
        )
    )
    return Reply(CALLER, response)


def test_tombstones_are_written_for_existing_offsets_only(offsets: CommittedOffsets) -> None:
    assert delete_offsets(offsets, PuppetGroup()) == [
        Append(
            (
                tombstone("g", TopicPartition("orders", 1)),
                tombstone("g", TopicPartition("bills", 0)),
                tombstone("g", TopicPartition("fresh", 0)),
            )
        ),
        deleted(orders=ErrorCode.NONE, bills=ErrorCode.NONE, fresh=ErrorCode.NONE),
    ]


def test_offsets_of_a_subscribed_topic_are_not_deleted(
    offsets: CommittedOffsets,
) -> None:
    group = PuppetGroup(subscriptions=("bills", "fresh"))
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offsets(offsets, group) == [
        Append((tombstone("g", TopicPartition("orders", 1)),)),
        deleted(orders=ErrorCode.NONE, bills=subscribed, fresh=subscribed),
    ]


@pytest.mark.parametrize(
    ("group", "error"),
    [
        (None, ErrorCode.GROUP_ID_NOT_FOUND),
        (PuppetGroup(refusal=ErrorCode.NON_EMPTY_GROUP), ErrorCode.NON_EMPTY_GROUP),
    ],
)
def test_a_group_may_reject_the_deletion_of_offsets(
    offsets: CommittedOffsets, group: Group | None, error: ErrorCode
) -> None:
    assert delete_offsets(offsets, group) == [Reply(CALLER, OffsetDeleteResponse(error_code=error))]
