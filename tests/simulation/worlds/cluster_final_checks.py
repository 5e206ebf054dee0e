"""Final checks of a simulated cluster from the view of its clients."""

from typing import Final

from headwater.common.ids import TopicPartition
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.simulation.labs.lab_node import ClusterLab, LabNode
from tests.simulation.worlds.cluster_acknowledgements import (
    ClientGuarantees,
    check,
    possible_commits,
    possible_offsets,
)
from tests.simulation.worlds.cluster_checks import partitions_of
from tests.simulation.worlds.cluster_clients import TOPIC
from tests.simulation.worlds.cluster_records import committed_only, records_of

_TIMEOUT_MS: Final = 300


def commits_are_kept(lab: ClusterLab, told: ClientGuarantees) -> None:
    """No acknowledged commit is lost, nor an offset of a transaction without the rest of it."""
    wanted = {(group_id, 0): [offset] for group_id, offset in told.committed.items()}
    for group_id, attempts in told.attempts_of.items():
        wanted[group_id, 0] = possible_offsets(attempts)
    for key, commits in told.commits.items():
        wanted[key] = possible_commits(commits)
    found = committed_offsets(lab, [*wanted])
    for (group_id, number), possible in wanted.items():
        offset = found.get((group_id, number))
        check(
            offset in possible,
            f"of {group_id} and {number} the commit is {offset}, and may be {possible}",
        )


def committed_offsets(lab: ClusterLab, wanted: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """According to its coordinator, one of the brokers."""
    topic_id = lab.store.image.topics[TOPIC].topic_id
    numbers: dict[str, list[int]] = {}
    for group_id, number in wanted:
        numbers.setdefault(group_id, []).append(number)
    groups = tuple(
        OffsetFetchRequestGroup(
            group_id=group_id,
            topics=(
                OffsetFetchRequestTopics(
                    name=TOPIC, topic_id=topic_id, partition_indexes=tuple(asked)
                ),
            ),
        )
        for group_id, asked in numbers.items()
    )
    request = OffsetFetchRequest(groups=groups, require_stable=True)
    found: dict[tuple[str, int], int] = {}
    for node in lab.nodes:
        for group in node.ask(request, OffsetFetchResponse, _TIMEOUT_MS).groups:
            if group.error_code:
                continue
            for each in group.topics[0].partitions:
                check(
                    not each.error_code,
                    f"of {group.group_id} no commit is told: {each.error_code.name}",
                )
                found[group.group_id, each.partition_index] = each.committed_offset
    return found


def transactions_are_whole(lab: ClusterLab, told: ClientGuarantees) -> None:
    """As a read_committed consumer sees them, from the start."""
    visible = {}
    for place, state in partitions_of(lab):
        if place.topic == TOPIC:
            found = seen_committed(lab, place, lab.nodes[state.leader])
            visible[place] = list(found.values())
            told.views_are_right(place, found)
    told.transactions_are_whole(visible)


def seen_committed(lab: ClusterLab, place: TopicPartition, leader: LabNode) -> dict[int, bytes]:
    """One response after the other: each is from one segment."""
    found: dict[int, bytes] = {}
    offset = 0
    while True:
        data = _read_committed(lab, place, leader, offset)
        check(not data.error_code, f"a reader of {place} is told {data.error_code.name}")
        check(
            data.last_stable_offset == data.high_watermark,
            f"in {place} a transaction is open at rest, from {data.last_stable_offset} on",
        )
        assert data.records is None or isinstance(data.records, memoryview)
        batches = records_of(bytes(data.records or b""))
        if not batches:
            return found
        aborted = [
            (each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
        ]
        found.update(committed_only(batches, aborted, offset))
        offset = batches[-1].last_offset + 1


def _read_committed(
    lab: ClusterLab, place: TopicPartition, leader: LabNode, offset: int
) -> PartitionData:
    asked = FetchPartition(
        partition=place.partition, fetch_offset=offset, partition_max_bytes=1 << 30
    )
    topic_id = lab.store.image.topics[place.topic].topic_id
    request = FetchRequest(
        isolation_level=1, topics=(FetchTopic(topic_id=topic_id, partitions=(asked,)),)
    )
    ((data,),) = (
        each.partitions for each in leader.ask(request, FetchResponse, _TIMEOUT_MS).responses
    )
    return data
