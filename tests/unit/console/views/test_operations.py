"""Rows of the quorum and of reassignments."""

import asyncio

from headwater.client.admin.descriptions import (
    ClusterDescription,
    LogDir,
    Reassignment,
    ReplicaInfo,
    TopicDescription,
)
from headwater.client.admin.quorum_calls import QuorumInfo, QuorumReplica, RaftVoterEndpoint
from headwater.client.aio import Admin
from headwater.client.network.cluster_metadata import PartitionView
from headwater.common.ids import NO_TOPIC_ID, TopicPartition
from headwater.console.views.cluster_view import ClusterView
from headwater.console.views.operations import quorum_rows, reassignment_list

TEA = TopicPartition("tea", 0)


def replica(replica_id: int, end: int, fetched: int = -1) -> QuorumReplica:
    return QuorumReplica(
        replica_id=replica_id,
        directory_id=NO_TOPIC_ID,
        log_end_offset=end,
        last_fetch_timestamp=fetched,
        last_caught_up_timestamp=fetched,
        endpoints=(RaftVoterEndpoint("CONTROLLER", "a", 9093),),
    )


def test_quorum_rows_have_roles_and_the_lag_behind_the_leader() -> None:
    quorum = QuorumInfo(
        leader_id=2,
        leader_epoch=7,
        high_watermark=95,
        voters=(replica(1, 90, 5), replica(2, 100)),
        observers=(replica(3, 40),),
    )
    rows = quorum_rows(quorum)
    assert [(each.id, each.role, each.lag, each.last_fetch_ms) for each in rows] == [
        (1, "voter", 10, 5),
        (2, "leader", 0, None),
        (3, "observer", 60, None),
    ]
    assert rows[0].endpoints == ("CONTROLLER://a:9093",)


class FakeAdmin(Admin):
    """An admin client whose cluster has one reassignment."""

    def __init__(self) -> None:
        pass

    async def list_partition_reassignments(
        self, partitions: object = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        del partitions, timeout
        moving = Reassignment(replicas=(1, 2, 3), adding_replicas=(2, 3), removing_replicas=(1,))
        return {TEA: moving}


def log_dir(size: int) -> list[LogDir]:
    info = ReplicaInfo(size_bytes=size, offset_lag=0, is_future=False)
    return [LogDir(path="/data", replicas={TEA: info})]


def test_progress_of_a_reassignment_is_what_the_added_brokers_have() -> None:
    partition = PartitionView(partition=0, leader_id=1, replicas=(1, 2, 3), isr=(1,))
    cluster = ClusterView(
        description=ClusterDescription(cluster_id="c", controller_id=1, brokers=()),
        topics={"tea": TopicDescription(name="tea", partitions=(partition,))},
        log_dirs={1: log_dir(100), 2: log_dir(130), 3: log_dir(50)},
        log_dir_errors={},
    )
    found = asyncio.run(reassignment_list(FakeAdmin(), cluster, page=1, size=50))
    [row] = found.reassignments.rows
    assert (row.adding, row.copied_bytes, row.wanted_bytes) == ((2, 3), 150, 200)
