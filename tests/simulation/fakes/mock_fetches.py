"""Consumer APIs of a scripted cluster: its own logs, and groups of one member.

    with MockCluster(topics={"tea": 1}) as cluster:
        reading = MockReading(cluster)
        reading.append("tea", 0, 10)
        cluster.script(ApiKey.FETCH, HangUp())

The only member of a group is its leader. Fetch has no sessions and does not wait.
"""

from typing import Any

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages import (
    fetch,
    heartbeat,
    join_group,
    leave_group,
    list_offsets,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
)
from headwater.protocol.older_versions import Message
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.fakes.mock_broker import MockBroker
from tests.simulation.fakes.mock_cluster import MockCluster


class MockReading:
    """Adds the APIs of consumers to a cluster."""

    def __init__(self, cluster: MockCluster) -> None:
        self._cluster = cluster
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.epoch_ends: dict[TopicPartition, tuple[int, int]] = {}
        """End of an epoch to return where a log was truncated: (epoch, end offset)."""
        self.committed: dict[TopicPartition, int] = {}
        self.generation = 0
        cluster.handlers.update(
            {
                ApiKey.FETCH: self._fetch,
                ApiKey.LIST_OFFSETS: self._list_offsets,
                ApiKey.OFFSET_FOR_LEADER_EPOCH: self._epochs,
                ApiKey.OFFSET_FETCH: self._offset_fetch,
                ApiKey.OFFSET_COMMIT: self._offset_commit,
                ApiKey.JOIN_GROUP: self._join,
                ApiKey.SYNC_GROUP: self._sync,
                ApiKey.HEARTBEAT: self._heartbeat,
                ApiKey.LEAVE_GROUP: self._leave,
            }
        )

    def append(
        self, topic: str, partition: int, count: int, *, epoch: int = 0, padding: int = 0
    ) -> None:
        """One batch whose values are the offsets, each followed by that many spaces."""
        place = TopicPartition(topic, partition)
        base = self.ends.get(place, 0)
        records = [
            Record(value=b"%d" % (base + n) + b" " * padding, timestamp=1) for n in range(count)
        ]
        batch = build_batch(records, base_offset=base, leader_epoch=epoch)
        self.logs.setdefault(place, []).append(batch)
        self.ends[place] = base + count

    def _leads(self, broker: MockBroker, place: TopicPartition) -> ErrorCode:
        partitions = self._cluster.topics.get(place.topic, [])
        if place.partition >= len(partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partitions[place.partition].leader_id != broker.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _fetch(self, broker: MockBroker, request: fetch.FetchRequest, version: int) -> Message:
        del version
        topics = []
        for topic in request.topics:
            names = self._cluster.topic_ids.items()
            name = topic.topic or next(name for name, own in names if own == topic.topic_id)
            partitions = tuple(
                self._read(broker, TopicPartition(name, each.partition), each.fetch_offset)
                for each in topic.partitions
            )
            topics.append(
                fetch.FetchableTopicResponse(
                    topic=name, topic_id=topic.topic_id, partitions=partitions
                )
            )
        return fetch.FetchResponse(responses=tuple(topics))

    def _read(self, broker: MockBroker, place: TopicPartition, offset: int) -> fetch.PartitionData:
        error = self._leads(broker, place)
        end = self.ends.get(place, 0)
        if not error and not 0 <= offset <= end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error:
            return fetch.PartitionData(partition_index=place.partition, error_code=error)
        # One batch at a time, so that a log of several takes several fetches.
        base, found = 0, b""
        for batch in self.logs.get(place, []):
            count = int.from_bytes(batch[57:61], "big")
            if base <= offset < base + count:
                found = batch
            base += count
        return fetch.PartitionData(
            partition_index=place.partition,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            records=found,
        )

    def _list_offsets(
        self, broker: MockBroker, request: list_offsets.ListOffsetsRequest, version: int
    ) -> Message:
        del version
        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            error_code=self._leads(
                                broker, TopicPartition(topic.name, each.partition_index)
                            ),
                            offset=0
                            if each.timestamp == -2
                            else self.ends.get(TopicPartition(topic.name, each.partition_index), 0),
                            leader_epoch=0,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def _epochs(
        self,
        broker: MockBroker,
        request: offset_for_leader_epoch.OffsetForLeaderEpochRequest,
        version: int,
    ) -> Message:
        del version
        topics = []
        for topic in request.topics:
            answers = []
            for each in topic.partitions:
                place = TopicPartition(topic.topic, each.partition)
                usual = (each.leader_epoch, self.ends.get(place, 0))
                epoch, end = self.epoch_ends.get(place, usual)
                answers.append(
                    offset_for_leader_epoch.EpochEndOffset(
                        error_code=self._leads(broker, place),
                        partition=each.partition,
                        leader_epoch=epoch,
                        end_offset=end,
                    )
                )
            topics.append(
                offset_for_leader_epoch.OffsetForLeaderTopicResult(
                    topic=topic.topic, partitions=tuple(answers)
                )
            )
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=tuple(topics))

    def _offset_fetch(
        self, _broker: MockBroker, request: offset_fetch.OffsetFetchRequest, _version: int
    ) -> Message:
        (group,) = request.groups
        return offset_fetch.OffsetFetchResponse(
            groups=(
                offset_fetch.OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=tuple(
                        offset_fetch.OffsetFetchResponseTopics(
                            name=topic.name,
                            partitions=tuple(
                                offset_fetch.OffsetFetchResponsePartitions(
                                    partition_index=number,
                                    committed_offset=self.committed.get(
                                        TopicPartition(topic.name, number), -1
                                    ),
                                )
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in group.topics or ()
                    ),
                ),
            )
        )

    def _offset_commit(
        self, _broker: MockBroker, request: offset_commit.OffsetCommitRequest, _version: int
    ) -> Message:
        topics = []
        for topic in request.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                self.committed[place] = each.committed_offset
            topics.append(
                offset_commit.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        offset_commit.OffsetCommitResponsePartition(
                            partition_index=each.partition_index
                        )
                        for each in topic.partitions
                    ),
                )
            )
        return offset_commit.OffsetCommitResponse(topics=tuple(topics))

    def _join(
        self, _broker: MockBroker, request: join_group.JoinGroupRequest, _version: int
    ) -> Message:
        self.generation += 1
        protocol = request.protocols[0]
        me = join_group.JoinGroupResponseMember(member_id="me", metadata=protocol.metadata)
        return join_group.JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=request.protocol_type,
            protocol_name=protocol.name,
            leader="me",
            member_id="me",
            members=(me,),
        )

    def _sync(
        self, _broker: MockBroker, request: sync_group.SyncGroupRequest, _version: int
    ) -> Message:
        (mine,) = request.assignments
        return sync_group.SyncGroupResponse(assignment=mine.assignment)

    def _heartbeat(self, _broker: MockBroker, _request: Any, _version: int) -> Message:
        return heartbeat.HeartbeatResponse()

    def _leave(self, _broker: MockBroker, _request: Any, _version: int) -> Message:
        return leave_group.LeaveGroupResponse()
