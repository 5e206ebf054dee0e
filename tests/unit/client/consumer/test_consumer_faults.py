"""The consumer with brokers that fail, stall, send garbage or reject.

Whatever request fails, all records arrive once and in order, or an error is raised.
"""

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.client import Consumer, ConsumerRecord, TopicPartition
from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.client.errors import (
    CommitFailed,
    CorruptMessage,
    GroupAuthorizationFailed,
    InvalidArgument,
    InvalidTopic,
    KafkaError,
    LogTruncated,
    TopicAuthorizationFailed,
)
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import UnknownSetting
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages import (
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    list_offsets,
    offset_commit,
    offset_fetch,
    sync_group,
)
from headwater.protocol.older_versions import Message
from tests.simulation.fakes.mock_broker import Fate, Garbage, HangUp, Instead, Stall
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.mock_fetches import MockReading
from tests.unit.client.consumer.polling import TIMEOUT_S, take_exactly

QUICK = {
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "heartbeat.interval.ms": 50,
    "max.poll.interval.ms": 10_000,
    "auto.offset.reset": "earliest",
    "fetch.max.wait.ms": 10,
}
PLACE = TopicPartition("tea", 0)


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(nodes=2, topics={"tea": 2}) as made:
        yield made


@pytest.fixture
def reading(cluster: MockCluster) -> MockReading:
    made = MockReading(cluster)
    for partition in range(2):
        for _ in range(3):
            made.append("tea", partition, 4)
    return made


def consumer_of(cluster: MockCluster, **settings: object) -> Consumer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Consumer({"bootstrap.servers": cluster.bootstrap_servers, **QUICK, **given})


def enough_for(fate: Fate) -> dict[str, object]:
    """Response timeouts: short where no response will come, else very long."""
    return {"request_timeout_ms": 500} if isinstance(fate, Stall) else {}


def offsets_by_partition(records: list[ConsumerRecord]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for record in records:
        assert record.value == b"%d" % record.offset
        found.setdefault(record.partition, []).append(record.offset)
    return found


EVERYTHING = {0: list(range(12)), 1: list(range(12))}


def refused(make: Callable[[ErrorCode], Message], code: ErrorCode) -> Fate:
    return Instead(lambda _: make(code))


def fetch_refused(code: ErrorCode) -> Fate:
    """Answer every partition of the request with the error."""
    return Instead(
        lambda request: fetch.FetchResponse(
            responses=tuple(
                fetch.FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        fetch.PartitionData(partition_index=each.partition, error_code=code)
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
    )


def listing_refused(code: ErrorCode) -> Fate:
    return Instead(
        lambda request: list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
    )


def committing_refused(code: ErrorCode) -> Fate:
    return Instead(
        lambda request: offset_commit.OffsetCommitResponse(
            topics=tuple(
                offset_commit.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        offset_commit.OffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
    )


def group_offsets_refused(code: ErrorCode) -> Fate:
    group = offset_fetch.OffsetFetchResponseGroup(group_id="g", error_code=code)
    return Instead(lambda _: offset_fetch.OffsetFetchResponse(groups=(group,)))


def coordinator_refused(code: ErrorCode) -> Fate:
    unknown = find_coordinator.Coordinator(key="g", error_code=code, node_id=-1, port=-1)
    return Instead(lambda _: find_coordinator.FindCoordinatorResponse(coordinators=(unknown,)))


def join_refused(code: ErrorCode) -> Fate:
    return refused(lambda error: join_group.JoinGroupResponse(error_code=error), code)


def sync_refused(code: ErrorCode) -> Fate:
    return refused(lambda error: sync_group.SyncGroupResponse(error_code=error), code)


def beat_refused(code: ErrorCode) -> Fate:
    return refused(lambda error: heartbeat.HeartbeatResponse(error_code=error), code)


BROKEN: list[Fate] = [HangUp(), Stall(), Garbage(), HangUp(is_done=True)]
ALONE = [ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.FETCH]
GROUPED = [
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.OFFSET_FETCH,
    ApiKey.HEARTBEAT,
]


@pytest.mark.parametrize("api", ALONE, ids=lambda api: api.name)
@pytest.mark.parametrize("fate", BROKEN, ids=repr)
def test_a_lost_connection_loses_and_duplicates_nothing(
    cluster: MockCluster, reading: MockReading, api: ApiKey, fate: Fate
) -> None:
    del reading
    for node_id in range(2):
        cluster.script(api, fate, node_id=node_id)
    with consumer_of(cluster, **enough_for(fate)) as consumer:
        consumer.assign([PLACE, TopicPartition("tea", 1)])
        assert offsets_by_partition(take_exactly(consumer, 24)) == EVERYTHING


# JoinGroup waits for the slowest member, and so for minutes.
PATIENT = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)


@pytest.mark.parametrize(
    ("api", "fate"),
    [
        pytest.param(
            api,
            fate,
            id=f"{api.name}-{fate}",
            marks=[pytest.mark.slow] if fate == Stall() and api in PATIENT else [],
        )
        for api in GROUPED
        for fate in BROKEN
    ],
)
def test_a_group_survives_a_lost_connection_to_its_coordinator(
    cluster: MockCluster, reading: MockReading, api: ApiKey, fate: Fate
) -> None:
    del reading
    for node_id in range(2):
        cluster.script(api, fate, node_id=node_id)
    with consumer_of(cluster, group_id="g", **enough_for(fate)) as consumer:
        consumer.subscribe(["tea"])
        assert offsets_by_partition(take_exactly(consumer, 24)) == EVERYTHING


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
    ids=lambda code: code.name,
)
def test_a_fetch_with_a_retriable_error_is_repeated(
    cluster: MockCluster, reading: MockReading, code: ErrorCode
) -> None:
    del reading
    for node_id in range(2):
        cluster.script(ApiKey.FETCH, fetch_refused(code), fetch_refused(code), node_id=node_id)
    with consumer_of(cluster) as consumer:
        consumer.assign([PLACE, TopicPartition("tea", 1)])
        assert offsets_by_partition(take_exactly(consumer, 24)) == EVERYTHING


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ],
    ids=lambda code: code.name,
)
def test_an_unknown_fetch_session_is_replaced(
    cluster: MockCluster, reading: MockReading, code: ErrorCode
) -> None:
    del reading
    fate = refused(lambda error: fetch.FetchResponse(error_code=error), code)
    cluster.script(ApiKey.FETCH, fate)
    with consumer_of(cluster) as consumer:
        consumer.assign([PLACE])
        assert offsets_by_partition(take_exactly(consumer, 12)) == {0: EVERYTHING[0]}


GROUP_REFUSALS = [
    (ApiKey.FIND_COORDINATOR, coordinator_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)),
    (ApiKey.JOIN_GROUP, join_refused(ErrorCode.NOT_COORDINATOR)),
    (ApiKey.JOIN_GROUP, join_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)),
    (ApiKey.JOIN_GROUP, join_refused(ErrorCode.UNKNOWN_MEMBER_ID)),
    (ApiKey.JOIN_GROUP, join_refused(ErrorCode.REBALANCE_IN_PROGRESS)),
    (ApiKey.SYNC_GROUP, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)),
    (ApiKey.SYNC_GROUP, sync_refused(ErrorCode.ILLEGAL_GENERATION)),
    (ApiKey.SYNC_GROUP, sync_refused(ErrorCode.NOT_COORDINATOR)),
    (ApiKey.OFFSET_FETCH, group_offsets_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)),
    (ApiKey.OFFSET_FETCH, group_offsets_refused(ErrorCode.UNSTABLE_OFFSET_COMMIT)),
    (ApiKey.OFFSET_FETCH, group_offsets_refused(ErrorCode.STALE_MEMBER_EPOCH)),
    (ApiKey.LIST_OFFSETS, listing_refused(ErrorCode.LEADER_NOT_AVAILABLE)),
    (ApiKey.HEARTBEAT, beat_refused(ErrorCode.NOT_COORDINATOR)),
]


@pytest.mark.parametrize(("api", "fate"), GROUP_REFUSALS)
def test_a_group_survives_retriable_errors(
    cluster: MockCluster, reading: MockReading, api: ApiKey, fate: Fate
) -> None:
    del reading
    for node_id in range(2):
        cluster.script(api, fate, node_id=node_id)
    with consumer_of(cluster, group_id="g") as consumer:
        consumer.subscribe(["tea"])
        assert offsets_by_partition(take_exactly(consumer, 24)) == EVERYTHING


def poll_until_it_raises(consumer: Consumer) -> None:
    limit_s = time.monotonic() + TIMEOUT_S
    while True:
        assert time.monotonic() < limit_s, "nothing is raised"
        consumer.poll(0.1)


@pytest.mark.parametrize(
    ("api", "fate", "error"),
    [
        (
            ApiKey.JOIN_GROUP,
            join_refused(ErrorCode.GROUP_AUTHORIZATION_FAILED),
            GroupAuthorizationFailed,
        ),
        (
            ApiKey.FIND_COORDINATOR,
            coordinator_refused(ErrorCode.GROUP_AUTHORIZATION_FAILED),
            GroupAuthorizationFailed,
        ),
        (
            ApiKey.FETCH,
            fetch_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            TopicAuthorizationFailed,
        ),
        (
            ApiKey.LIST_OFFSETS,
            listing_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            TopicAuthorizationFailed,
        ),
    ],
)
def test_a_fatal_error_is_raised_and_a_later_poll_retries(
    cluster: MockCluster,
    reading: MockReading,
    api: ApiKey,
    fate: Fate,
    error: type[KafkaError],
) -> None:
    del reading
    for node_id in range(2):
        cluster.script(api, fate, node_id=node_id)
    with consumer_of(cluster, group_id="g") as consumer:
        consumer.subscribe(["tea"])
        with pytest.raises(error):
            poll_until_it_raises(consumer)
        records: list[ConsumerRecord] = []
        limit_s = time.monotonic() + TIMEOUT_S
        while len(records) < 24:
            assert time.monotonic() < limit_s
            try:
                records += consumer.poll(0.1)
            except error:
                # The error of the other broker.
                continue
        assert offsets_by_partition(records) == EVERYTHING


def test_fetches_follow_a_leader_that_moves(cluster: MockCluster, reading: MockReading) -> None:
    with consumer_of(cluster) as consumer:
        consumer.assign([PLACE])
        take_exactly(consumer, 12)
        cluster.on_loop(lambda: cluster.move_leader("tea", 0, 1))
        cluster.on_loop(lambda: reading.append("tea", 0, 4, epoch=1))
        assert [record.offset for record in take_exactly(consumer, 4)] == [12, 13, 14, 15]
    assert cluster.requests(ApiKey.OFFSET_FOR_LEADER_EPOCH), "no request to the new leader"


def cut(cluster: MockCluster, reading: MockReading) -> None:
    """The new leader has only the first batch and a different log after it."""
    reading.logs[PLACE] = reading.logs[PLACE][:1]
    reading.ends[PLACE] = 4
    reading.epoch_ends[PLACE] = (0, 4)
    reading.append("tea", 0, 4, epoch=1)
    cluster.move_leader("tea", 0, 1)


def test_a_truncated_log_is_consumed_again_from_the_divergence(
    cluster: MockCluster, reading: MockReading
) -> None:
    """KIP-320: no record is skipped silently."""
    with consumer_of(cluster) as consumer:
        consumer.assign([PLACE])
        take_exactly(consumer, 12)
        cluster.on_loop(lambda: cut(cluster, reading))
        records = take_exactly(consumer, 4)
        assert [(record.offset, record.leader_epoch) for record in records] == [
            (4, 1),
            (5, 1),
            (6, 1),
            (7, 1),
        ]


def test_without_a_reset_strategy_a_truncated_log_raises(
    cluster: MockCluster, reading: MockReading
) -> None:
    with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([PLACE])
        consumer.seek(PLACE, 0)
        take_exactly(consumer, 12)
        cluster.on_loop(lambda: cut(cluster, reading))
        with pytest.raises(LogTruncated):
            poll_until_it_raises(consumer)


def test_a_commit_is_retried_for_retriable_errors_and_raises_others(
    cluster: MockCluster, reading: MockReading
) -> None:
    with consumer_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe(["tea"])
        take_exactly(consumer, 24)
        cluster.script(
            ApiKey.OFFSET_COMMIT,
            HangUp(),
            committing_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        )
        consumer.commit()
        assert reading.committed == {PLACE: 12, TopicPartition("tea", 1): 12}
        cluster.script(ApiKey.OFFSET_COMMIT, committing_refused(ErrorCode.ILLEGAL_GENERATION))
        with pytest.raises(CommitFailed):
            consumer.commit()


def test_a_commit_is_not_retried_after_its_partition_was_reassigned(
    cluster: MockCluster, reading: MockReading
) -> None:
    """The new owner may have committed more, which must not be overwritten."""
    told: list[KafkaError | None] = []
    later = committing_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    with consumer_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
        consumer.subscribe(["tea"])
        take_exactly(consumer, 24)
        cluster.script(ApiKey.OFFSET_COMMIT, *[later] * 10_000)
        consumer.commit_async({PLACE: 5}, lambda _, error: told.append(error))
        cluster.brokers[0].await_requests(ApiKey.OFFSET_COMMIT)
        cluster.script(ApiKey.HEARTBEAT, beat_refused(ErrorCode.REBALANCE_IN_PROGRESS))
        limit_s = time.monotonic() + TIMEOUT_S
        while not told:
            assert time.monotonic() < limit_s, "it is still repeated"
            consumer.poll(0.1)
        (error,) = told
        assert isinstance(error, CommitFailed)
        assert reading.generation == 2
        commits = cluster.requests(ApiKey.OFFSET_COMMIT)
        assert {each.generation_id_or_member_epoch for each in commits} == {1}


def test_a_member_follows_a_coordinator_that_moves(
    cluster: MockCluster, reading: MockReading
) -> None:
    with consumer_of(cluster, group_id="g") as consumer:
        consumer.subscribe(["tea"])
        take_exactly(consumer, 24)
        cluster.on_loop(lambda: setattr(cluster, "coordinator_id", 1))
        cluster.script(ApiKey.HEARTBEAT, beat_refused(ErrorCode.NOT_COORDINATOR))
        cluster.brokers[1].await_requests(ApiKey.HEARTBEAT)
        consumer.commit()
        assert reading.generation == 1


def test_close_ends_at_its_timeout_without_responses(
    cluster: MockCluster, reading: MockReading
) -> None:
    del reading
    consumer = consumer_of(cluster, group_id="g")
    consumer.subscribe(["tea"])
    take_exactly(consumer, 24)
    for api in (ApiKey.OFFSET_COMMIT, ApiKey.LEAVE_GROUP, ApiKey.FIND_COORDINATOR):
        for node_id in range(2):
            cluster.script(api, *[Stall()] * 20, node_id=node_id)
    begin_s = time.monotonic()
    consumer.close(timeout=1)
    assert time.monotonic() - begin_s < TIMEOUT_S


def test_a_misspelt_setting_is_rejected_with_the_nearest_name() -> None:
    with pytest.raises(UnknownSetting, match=r"did you mean auto\.offset\.reset"):
        Consumer(bootstrap_servers="a:1", auto_offest_reset="latest")


def damage(reading: MockReading, index: int) -> None:
    """Flip one bit in a batch of the first partition."""
    batch = bytearray(reading.logs[PLACE][index])
    batch[-1] ^= 1
    reading.logs[PLACE][index] = bytes(batch)


@pytest.mark.parametrize("max_records", [None, 100])
def test_tables_end_before_a_corrupt_batch_which_raises_until_skipped(
    cluster: MockCluster, reading: MockReading, max_records: int | None
) -> None:
    damage(reading, 1)
    with consumer_of(cluster) as consumer:
        consumer.assign([PLACE])
        found: list[int | None] = []
        limit_s = time.monotonic() + TIMEOUT_S
        while len(found) < 4:
            assert time.monotonic() < limit_s
            found += consumer.poll_table(0.2, max_records).column("offset").to_pylist()
        for _ in range(2):
            with pytest.raises(CorruptMessage, match="tea-0 at offset 4"):
                consumer.poll_table(TIMEOUT_S, max_records)
        assert consumer.position(PLACE) == 4
        consumer.seek(PLACE, 8)
        while len(found) < 8:
            assert time.monotonic() < limit_s
            found += consumer.poll_table(0.2, max_records).column("offset").to_pylist()
    assert found == [0, 1, 2, 3, 8, 9, 10, 11]


def test_close_right_after_assign_leaves_no_pending_work(
    cluster: MockCluster, reading: MockReading
) -> None:
    """A coroutine that was scheduled but never started would cause a Python warning."""
    del reading
    for _ in range(5):
        consumer = consumer_of(cluster)
        consumer.assign([PLACE])
        consumer.close()
    gc.collect()


@pytest.mark.parametrize(
    "wrong", [(b"tea", 0), ("", 0), ("tea", -1), ("tea", "0"), ("tea",), "tea", 5, None]
)
def test_assigning_an_invalid_partition_changes_nothing(cluster: MockCluster, wrong: Any) -> None:
    with Consumer({"bootstrap.servers": cluster.bootstrap_servers, **QUICK}) as consumer:
        consumer.assign([PLACE])
        for call in (consumer.assign, consumer.pause, consumer.end_offsets, consumer.committed):
            with pytest.raises((InvalidArgument, InvalidTopic)):
                call([wrong])
        with pytest.raises(InvalidArgument, match="partitions must be a list"):
            consumer.assign(PLACE)  # type: ignore[arg-type]
        assert consumer.assignment() == {PLACE}
        with pytest.raises(InvalidArgument, match="an offset must be an integer"):
            consumer.seek(PLACE, "5")  # type: ignore[arg-type]


def test_ranges_are_read_from_the_leader_despite_a_rack(
    cluster: MockCluster, reading: MockReading
) -> None:
    """With a rack, a leader returns the preferred replica and no records (FT-10)."""
    del reading
    servers = cluster.bootstrap_servers
    with OffsetRangeReader(bootstrap_servers=servers, client_rack="r1") as reader:
        batches = list(reader.read(PLACE, 0, 12, timeout_ms=TIMEOUT_S * 1_000))
    assert batches
    assert {each.rack_id for each in cluster.requests(ApiKey.FETCH)} == {""}
