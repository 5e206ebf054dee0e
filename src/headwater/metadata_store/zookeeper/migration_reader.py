"""Read the metadata of a cluster on ZooKeeper for its move to KRaft.

Its brokers are stopped, and nothing in ZooKeeper is changed.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import HeadwaterError, InvalidSetting, StoreUnreachable
from headwater.common.ids import NO_TOPIC_ID
from headwater.metadata.changes import (
    BrokerAdmitted,
    ConfigsReplaced,
    FeatureFinalized,
    MetadataChange,
    TopicCreated,
    TopicDeletionBegun,
    apply,
)
from headwater.metadata.cluster_image import (
    FIRST_VERSION,
    NO_LEADER,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
)
from headwater.metadata_store.zookeeper import znode_data, znode_paths
from headwater.metadata_store.zookeeper.cluster_reader import ClusterContents, read_all
from headwater.metadata_store.zookeeper.kazoo_zookeeper import KazooZooKeeper
from headwater.metadata_store.zookeeper.parallel_reads import ParallelReads
from headwater.metadata_store.zookeeper.zookeeper_client import Stat, ZooKeeperClient

T = TypeVar("T")

_SESSION_MS: Final = 18_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperCluster:
    """What ZooKeeper has of a cluster."""

    cluster_id: str
    brokers: tuple[int, ...]
    """Ids of brokers that are registered, so not stopped."""
    contents: ClusterContents


def read_cluster(connect: str, *, timeout_s: float) -> ZooKeeperCluster:
    """Read everything; blocks. `StoreUnreachable` after the timeout."""
    return asyncio.run(_read_cluster(connect, timeout_s))


def migrated_image(cluster: ZooKeeperCluster) -> ClusterImage:
    """Return the image for the metadata log.

    No partition has a leader: one of its ISR is elected when it registers. Topics whose deletion
    had begun are left out. Features are not in it.
    """
    contents = cluster.contents
    deleted = dict.fromkeys(contents.deletions)
    changes: list[MetadataChange] = []
    for change in contents.changes():
        match change:
            case TopicCreated(topic):
                if topic.name not in deleted:
                    changes.append(TopicCreated(_without_leaders(topic)))
            case TopicDeletionBegun() | BrokerAdmitted() | FeatureFinalized():
                continue
            case ConfigsReplaced(ConfigResource(ResourceType.TOPIC, name)) if name in deleted:
                # A new topic of that name would inherit them.
                continue
            case _:
                changes.append(change)
    return apply(ClusterImage(cluster_id=cluster.cluster_id), changes, FIRST_VERSION)


def _without_leaders(topic: TopicImage) -> TopicImage:
    if topic.topic_id == NO_TOPIC_ID:
        raise InvalidSetting(
            f"topic {topic.name} has no id; start its brokers once with a version that gives it one"
        )
    return replace(topic, partitions=tuple(_without_leader(each) for each in topic.partitions))


def _without_leader(partition: PartitionRegistration) -> PartitionRegistration:
    # A partition that never had a leader has negative epochs.
    return replace(
        partition,
        leader=NO_LEADER,
        leader_epoch=max(partition.leader_epoch, -1) + 1,
        partition_epoch=max(partition.partition_epoch, -1) + 1,
    )


async def _read_cluster(connect: str, timeout_s: float) -> ZooKeeperCluster:
    loop = asyncio.get_running_loop()
    with _client(connect, loop) as zk_client:
        try:
            async with asyncio.timeout(timeout_s):
                cluster_id, brokers = await _identity(zk_client, loop)
                if cluster_id is None:
                    raise InvalidSetting(f"there is no cluster in ZooKeeper at {connect}")
                contents = await _contents(zk_client, loop)
        except TimeoutError as error:
            raise StoreUnreachable(
                f"ZooKeeper at {connect} does not answer within {timeout_s:g} s"
            ) from error
    return ZooKeeperCluster(
        cluster_id=cluster_id, brokers=tuple(sorted(map(int, brokers))), contents=contents
    )


@contextmanager
def _client(connect: str, loop: asyncio.AbstractEventLoop) -> Iterator[KazooZooKeeper]:
    zk_client = KazooZooKeeper(
        connect, session_timeout_ms=_SESSION_MS, post=loop.call_soon_threadsafe
    )
    zk_client.start()
    try:
        yield zk_client
    finally:
        zk_client.close()
        zk_client.end()


async def _identity(
    zk_client: ZooKeeperClient, loop: asyncio.AbstractEventLoop
) -> tuple[str | None, list[str]]:
    """The cluster id, and the ids of registered brokers."""
    ids: list[str] = []
    brokers: list[str] = []

    def found(data: bytes, _: Stat) -> None:
        ids.append(znode_data.read_cluster_id(data))

    def ask(then: Callable[[None], None], on_error: Callable[[HeadwaterError], None]) -> None:
        reads = ParallelReads(zk_client, then=lambda: then(None), on_error=on_error)
        reads.data(znode_paths.CLUSTER_ID, found, missing=lambda: None)
        reads.finish()

    def ask_brokers(
        then: Callable[[None], None], on_error: Callable[[HeadwaterError], None]
    ) -> None:
        reads = ParallelReads(zk_client, then=lambda: then(None), on_error=on_error)
        reads.children(znode_paths.BROKER_IDS, brokers.extend)
        reads.finish()

    await _asked(loop, ask)
    if ids:
        await _asked(loop, ask_brokers)
    return (ids[0] if ids else None), brokers


async def _contents(zk_client: ZooKeeperClient, loop: asyncio.AbstractEventLoop) -> ClusterContents:
    def ask(
        then: Callable[[ClusterContents], None], on_error: Callable[[HeadwaterError], None]
    ) -> None:
        read_all(zk_client, then=then, on_error=on_error)

    return await _asked(loop, ask)


async def _asked(
    loop: asyncio.AbstractEventLoop,
    ask: Callable[[Callable[[T], None], Callable[[HeadwaterError], None]], None],
) -> T:
    future: asyncio.Future[T] = loop.create_future()

    def done(result: T) -> None:
        if not future.done():
            future.set_result(result)

    def failed(error: HeadwaterError) -> None:
        if not future.done():
            future.set_exception(error)

    ask(done, failed)
    return await future
