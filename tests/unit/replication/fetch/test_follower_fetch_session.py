"""Which partitions a follower's fetch reads: FT-2, FT-6."""

import random
from functools import partial

from headwater.common.ids import NodeId, TopicId
from headwater.metadata.changes import TopicCreated
from headwater.metadata.cluster_image import PartitionRegistration, TopicImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.replication.fetch.fetch_session import FetchSessionCache
from headwater.replication.fetch.follower_fetch_session import FollowerSession, read_due
from headwater.replication.replica_fetcher_manager import (
    ReplicaFetcherManager,
    ReplicaFetcherManagerServices,
)
from headwater.replication.replica_manager import ReplicaManager
from tests.simulation.fakes.scripted_inter_broker_client import ScriptedInterBrokerClient
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.broker_lab import BrokerLab
from tests.simulation.labs.cluster_lab import after, broker, cluster_of

ME, FOLLOWER = NodeId(0), NodeId(1)
ID = TopicId(bytes(range(16)))


class Lab:
    """Led partitions of one topic, and one follower of all of them."""

    def __init__(self, count: int, *, max_bytes: int = 1 << 20) -> None:
        under = BrokerLab()
        self.clock = under.clock
        state = PartitionRegistration(replicas=(ME, FOLLOWER), isr=(ME, FOLLOWER), leader=ME)
        topic = TopicImage(name="t", topic_id=ID, partitions=(state,) * count)
        image = after(cluster_of(broker(0), broker(1)), TopicCreated(topic))
        static = StaticConfig.parse({})
        replicas = ReplicaFetcherManager(
            ReplicaFetcherManagerServices(
                node_id=ME,
                broker_epoch=lambda: 100,
                inter_broker_client=ScriptedInterBrokerClient(),
                clock=under.clock,
                timer=under.broker.timer,
                settings=static.settings,
            )
        )
        self.partitions = ReplicaManager(
            image, static, under.broker.directories, under.clock, replicas
        )
        self.max_bytes = max_bytes
        self.sessions = FetchSessionCache(10, SeededRandom(random.Random(1)))
        self._epoch = 0
        self._session_id = 0

    def append(self, number: int, size_bytes: int = 10) -> None:
        hosted = self.partitions.find("t", number)
        assert hosted is not None
        log = hosted.open_log()
        record = Record(value=bytes(size_bytes), timestamp=self.clock.now_ms())
        content = bytearray(build_batch([record]))
        log.append_as_leader(content, leader_epoch=0, now_ms=self.clock.now_ms())
        hosted.on_append(log, len(content))

    def fetch(self, offsets: dict[int, int], *, response_bytes: int = 1 << 20) -> dict[int, int]:
        """Fetch these partitions; return the bytes of each partition that was read."""
        asked = tuple(
            FetchPartition(
                partition=number,
                fetch_offset=offset,
                log_start_offset=0,
                partition_max_bytes=self.max_bytes,
            )
            for number, offset in offsets.items()
        )
        fetching = self.sessions.resolve(
            FetchRequest(
                session_id=self._session_id,
                session_epoch=self._epoch,
                topics=(FetchTopic(topic_id=ID, partitions=asked),) if asked else (),
            ),
            uses_topic_ids=True,
            now_ms=0,
            new_session=partial(FollowerSession, replica_id=FOLLOWER),
        )
        assert isinstance(fetching.scope, FollowerSession)
        self._session_id = fetching.scope.session_id
        self._epoch += 1
        reads = read_due(fetching.scope, self.partitions, max_bytes=response_bytes)
        for read in reads.partitions:
            read.wanted.sent_high_watermark = read.high_watermark
            read.wanted.sent_log_start_offset = read.log_start_offset
        return {
            read.wanted.number: 0 if read.range is None else read.range.length
            for read in reads.partitions
        }


def test_only_partitions_that_changed_are_read() -> None:
    lab = Lab(4)
    assert lab.fetch(dict.fromkeys(range(4), 0)) == dict.fromkeys(range(4), 0)
    assert lab.fetch({}) == dict.fromkeys(range(4), 0)
    assert lab.fetch({}) == {}
    lab.append(2)
    (found,) = lab.fetch({}).items()
    assert found[0] == 2
    assert found[1] > 0


def test_a_partition_with_data_is_read_again_until_the_follower_has_it() -> None:
    lab = Lab(2)
    lab.append(0)
    first = lab.fetch({0: 0, 1: 0})
    assert lab.fetch({})[0] == first[0]
    assert lab.fetch({0: 1})[0] == 0


def test_a_batch_larger_than_the_remaining_bytes_gets_its_turn() -> None:
    """A busy partition that is named first every time must not starve another one."""
    lab = Lab(2, max_bytes=100)
    lab.append(0)
    lab.append(1, size_bytes=5_000)
    first = lab.fetch({0: 0, 1: 0}, response_bytes=1_000)
    assert (first[0] > 0, first[1]) == (True, 0)
    lab.append(0)
    second = lab.fetch({0: 1}, response_bytes=1_000)
    assert second[1] > 5_000
