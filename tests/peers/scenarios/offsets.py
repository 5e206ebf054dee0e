"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headwater.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headwater.protocol.messages.produce import ProduceResponse
from tests.peers.lab import Lab
from tests.peers.scenarios.produce import BY_NAME, fetch_all, produce


def _fill(lab: Lab, topic: str) -> None:
    """Three batches; the maximum timestamp is in the second, twice."""
    for at_ms, values in ((10, "ab"), (1000, "cd"), (20, "efg")):
        batch = lab.batch(*values, at_ms=at_ms)
        answer = lab.get(produce(topic, batch), ProduceResponse, BY_NAME)
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.NONE


def _list(
    topic: str,
    timestamp: int,
    *,
    partition: int = 0,
    epoch: int = -1,
    replica_id: int = -1,
    isolation_level: int = 0,
) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp
    )
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),),
    )


def special_timestamps(lab: Lab) -> None:
    empty, full = lab.topic("empty"), lab.topic("full")
    _fill(lab, full)
    for name, topic in (("empty", empty), ("full", full)):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100):
            lab.show(f"{name}: {timestamp}", _list(topic, timestamp))
        lab.show(f"{name}: latest committed", _list(topic, -1, isolation_level=1))
        for version in range(1, 11):
            lab.show(f"{name}: latest, version {version}", _list(topic, -1), version)
    for timestamp, version in ((-3, 6), (-4, 7), (-5, 8)):
        lab.show(f"{timestamp} in version {version}", _list(full, timestamp), version)


def by_time(lab: Lab) -> None:
    topic = lab.topic()
    _fill(lab, topic)
    for at_ms in (-5000, 0, 10, 11, 12, 22, 1000, 1001, 1002):
        lab.show(f"start+{at_ms}", _list(topic, lab.start_ms + at_ms))
    lab.show("time 0", _list(topic, 0))
    lab.show("time 0, committed", _list(topic, 0, isolation_level=1))
    lab.show("in version 1", _list(topic, lab.start_ms), 1)


def errors_of_list_offsets(lab: Lab) -> None:
    topic = lab.topic()
    lab.show("unknown topic", _list(lab.named("nowhere"), -1))
    lab.show("unknown partition", _list(topic, -1, partition=3))
    lab.show("negative partition", _list(topic, -1, partition=-1))
    lab.show("known epoch", _list(topic, -1, epoch=0))
    lab.show("newer epoch", _list(topic, -1, epoch=5))
    lab.show("debugging replica", _list(topic, -1, replica_id=-2))
    lab.show("some replica", _list(topic, -1, replica_id=3))
    lab.show("an isolation level that is none", _list(topic, -1, isolation_level=5))
    twice = ListOffsetsTopic(name=topic, partitions=(ListOffsetsPartition(timestamp=-1),) * 2)
    lab.show("twice", ListOffsetsRequest(replica_id=-1, topics=(twice,)))
    lab.show("no topics", ListOffsetsRequest(replica_id=-1))


def leader_epochs(lab: Lab) -> None:
    topic = lab.topic()
    _fill(lab, topic)

    def show(label: str, asked: str = topic, version: int = 4, **fields: int) -> None:
        partition = OffsetForLeaderPartition(
            partition=fields.get("partition", 0),
            current_leader_epoch=fields.get("current", -1),
            leader_epoch=fields.get("epoch", 0),
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=fields.get("replica_id", -1),
            topics=(OffsetForLeaderTopic(topic=asked, partitions=(partition,)),),
        )
        lab.show(label, request, version)

    for version in (2, 3, 4):
        show(f"version {version}", version=version)
    show("a later epoch", epoch=3)
    show("no epoch", epoch=-1)
    show("a negative epoch", epoch=-7)
    show("current", current=0)
    show("newer than the leader's", current=2)
    show("unknown partition", partition=9)
    show("unknown topic", lab.named("nowhere"))
    show("debugging replica", replica_id=-2)
    lab.show("no topics", OffsetForLeaderEpochRequest())


def delete_records(lab: Lab) -> None:
    topic = lab.topic()
    _fill(lab, topic)

    def show(
        label: str, offset: int, asked: str = topic, partition: int = 0, version: int = 2
    ) -> None:
        place = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=asked, partitions=(place,)),), timeout_ms=5000
        )
        lab.show(label, request, version)

    show("inside a batch", 3)
    show("again", 3)
    show("lower", 1)
    show("too far", 100)
    show("negative", -5)
    show("unknown partition", 1, partition=4)
    show("unknown topic", 1, lab.named("nowhere"))
    show("version 0", 4, version=0)
    lab.show("a fetch below", fetch_all(topic, offset=1), BY_NAME)
    lab.show("a fetch at the start", fetch_all(topic, offset=4), BY_NAME)
    lab.show("earliest", _list(topic, -2))
    lab.show("earliest local", _list(topic, -4))
    lab.show("largest timestamp", _list(topic, -3))
    lab.show("by an early time", _list(topic, lab.start_ms))
    show("everything", -1)
    lab.show("earliest of nothing", _list(topic, -2))
    lab.show("largest timestamp of nothing", _list(topic, -3))
    lab.show("a fetch of nothing", fetch_all(topic, offset=7), BY_NAME)
    lab.show("produce after", produce(topic, lab.batch("h")), BY_NAME)
    lab.show("no topics", DeleteRecordsRequest(timeout_ms=1000))
