"""Time to replay the metadata log of a large cluster, and to write and load its snapshot.

The log is in memory: these are CPU times of a controller, of its standby and of each KRaft broker.
"""

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from bench.controller_scale import new_image
from bench.harness import Bench
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata_store.raft.metadata_loader import MetadataLoader, batches_of
from headwater.raft.kafka_raft_client import KafkaRaftClient
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.raft_core import RaftIdentity
from headwater.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from tests.simulation.fakes.lossy_raft_log import LossyRaftLog
from tests.simulation.fakes.seeded_random import SeededRandom

T = TypeVar("T")

SIZES: Final = ((50, 20_000), (50, 200_000))

_MB: Final = 1e6
_EPOCH: Final = 1


def measure(bench: Bench) -> None:
    for broker_count, partition_count in SIZES:
        _measure(bench, new_image(broker_count, partition_count), partition_count)


def _measure(bench: Bench, image: ClusterImage, partition_count: int) -> None:
    size = f"{partition_count:,} partitions"
    log = LossyRaftLog()
    loader = _loader(log)
    size_bytes = 0
    for batch in batches_of(loader.writer.image_records(image), timestamp=0):
        log.append_as_leader(bytearray(batch), _EPOCH)
        size_bytes += len(batch)
    bench.record(f"metadata log of {size}", size_bytes / _MB, "MB")
    _, replay_s = _timed(lambda: loader.commit(0, log.end_offset))
    bench.record(f"replay of {size}", replay_s, "s")
    assert len(loader.image.topics) == len(image.topics)
    snapshot_id, write_s = _timed(loader.snapshot)
    bench.record(f"snapshot of {size}", write_s, "s")
    assert snapshot_id is not None
    _, load_s = _timed(lambda: _loader(log).load_snapshot(snapshot_id))
    bench.record(f"loading the snapshot of {size}", load_s, "s")


def _loader(log: LossyRaftLog) -> MetadataLoader:
    voter = VoterNode(key=ReplicaKey(0), endpoints=(Endpoint("CONTROLLER", "localhost", 9093),))
    client = KafkaRaftClient(
        RaftIdentity(
            key=voter.key,
            cluster_id="bench",
            listener_name="CONTROLLER",
            endpoints=voter.endpoints,
            static_voters=VoterSet.of([voter]),
        ),
        config=QuorumConfig(),
        log=log,
        random=SeededRandom(random.Random(1)),
    )
    return MetadataLoader("bench", client, log)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began_s = time.process_time()
    result = work()
    return result, time.process_time() - began_s
