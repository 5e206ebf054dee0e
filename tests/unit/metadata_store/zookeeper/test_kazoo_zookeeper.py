"""The kazoo client against a real ZooKeeper server."""

import asyncio
import os
import signal
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicId
from headwater.controller.elect_leaders import led_by
from headwater.metadata.changes import (
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    MetadataChange,
    PartitionChanged,
    TopicCreated,
    apply,
)
from headwater.metadata.cluster_image import (
    BrokerEndpoint,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
    Version,
)
from headwater.metadata.ports.metadata_store import Registration
from headwater.metadata_store.zookeeper.kazoo_zookeeper import KazooZooKeeper
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Check,
    Create,
    FailedOperation,
    Set,
    ZooKeeperError,
)
from headwater.metadata_store.zookeeper.zookeeper_store import ZooKeeperStore
from headwater.network.event_loop import call_soon_from_threads
from headwater.network.system_clock import SystemClock
from headwater.testing.embedded_cluster import EmbeddedZooKeeper
from tests.simulation.labs.cluster_lab import CLUSTER_ID
from tests.zookeeper_server import real_zookeeper

T = TypeVar("T")

TIMEOUT_S = 60
SESSION_MS = 30_000


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedZooKeeper]:
    with real_zookeeper() as running:
        yield running


class RealStore:
    """A store over a real connection, and the changes it reported."""

    def __init__(
        self,
        server: EmbeddedZooKeeper,
        root: str,
        node_id: int = 0,
        session_ms: int = SESSION_MS,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.node_id = NodeId(node_id)
        self.changes: asyncio.Queue[MetadataChange | str] = asyncio.Queue()
        self.zk_client = KazooZooKeeper(
            f"{server.connect}/{root}",
            session_timeout_ms=session_ms,
            post=call_soon_from_threads(loop),
        )
        self.store = ZooKeeperStore(
            self.zk_client,
            clock=SystemClock(),
            call_later=lambda ms, work: loop.call_later(ms / 1_000, work),
            session_timeout_ms=session_ms,
        )
        self.store.listen(self)
        self.zk_client.start()

    def changed(self, changes: Sequence[MetadataChange], version: Version) -> None:  # noqa: ARG002
        for change in changes:
            self.changes.put_nowait(change)

    def session_lost(self) -> None:
        self.changes.put_nowait("session lost")

    def registration_lost(self) -> None:
        self.changes.put_nowait("registration lost")

    async def await_changes(self, *expected: MetadataChange | str) -> None:
        """Wait until all of these were reported, in this order, among others."""
        for each in expected:
            while await self.changes.get() != each:
                pass

    async def done(self, call: Callable[..., None], *arguments: Any, **named: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def then(result: object = None) -> None:
            future.set_result(result)

        call(*arguments, **named, then=then, on_error=future.set_exception)
        return await future

    async def lead(self) -> ClusterImage:
        await self.done(self.store.create_cluster, CLUSTER_ID)
        await self.register()
        await self.done(self.store.become_controller, self.node_id)
        image = await self.done(self.store.read)
        assert isinstance(image, ClusterImage)
        return image

    async def register(self) -> int:
        registration = Registration(
            node_id=self.node_id,
            directory_id=f"d{self.node_id}",
            endpoints=(BrokerEndpoint(listener="PLAINTEXT", host="::1", port=9092),),
        )
        epoch = await self.done(self.store.register, registration)
        assert isinstance(epoch, int)
        return epoch

    async def write(self, image: ClusterImage, *changes: MetadataChange) -> ClusterImage:
        version = await self.done(self.store.write, changes, fence=image.version)
        return apply(image, changes, version)

    async def end(self) -> None:
        self.store.close()
        await asyncio.to_thread(self.zk_client.end)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, TIMEOUT_S))


def fresh_root() -> str:
    """Two levels, neither of which exists."""
    return f"test-{uuid.uuid4().hex[:8]}/kafka"


def test_a_controllers_term_from_election_to_successor(server: EmbeddedZooKeeper) -> None:
    async def test() -> None:
        root = fresh_root()
        first = RealStore(server, root)
        image = await first.lead()
        assert image.version == Version(1, 0)
        assert image.brokers[NodeId(0)].endpoints[0].host == "::1"
        second = RealStore(server, root, 1)
        await second.done(second.store.create_cluster, CLUSTER_ID)
        await second.await_changes(ControllerElected(NodeId(0)))
        partition = PartitionRegistration(replicas=(NodeId(0),), isr=(NodeId(0),), leader=NodeId(0))
        topic = TopicImage(
            name="t", topic_id=TopicId(bytes(range(16))), partitions=(partition,) * 100
        )
        configs = ConfigsReplaced(ConfigResource(ResourceType.TOPIC, "t"), {"a": "b"})
        image = await first.write(image, TopicCreated(topic), configs)
        await second.await_changes(configs)
        image = await first.write(
            image, PartitionChanged("t", 7, led_by(partition, NodeId(0), (NodeId(0),)))
        )
        await first.end()
        await second.await_changes(ControllerGone())
        found = await second.lead()
        assert found.version == Version(2, 0)
        assert found.topics["t"] == image.topics["t"]
        assert [*found.brokers] == [NodeId(1)]
        await second.end()

    run(test())


def test_an_expired_session_is_reported_and_replaced(server: EmbeddedZooKeeper) -> None:
    async def test() -> None:
        root = fresh_root()
        # It is noticed with the next use, and so within a part of this.
        store = RealStore(server, root, session_ms=4_000)
        await store.lead()
        before = await store.register()
        other = RealStore(server, root, 1)
        await other.done(other.store.create_cluster, CLUSTER_ID)
        # Another client with our session id makes the server close the session.
        session_id, password = store.zk_client._client.client_id
        thief = KazooZooKeeper(
            server.connect,
            session_timeout_ms=SESSION_MS,
            post=call_soon_from_threads(asyncio.get_running_loop()),
        )
        thief._client._session_id = session_id
        thief._client._session_passwd = password
        thief.start()
        while not thief._client.connected:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(thief.end)
        await store.await_changes("session lost")
        assert await store.register() > before
        await other.await_changes(ControllerGone())
        await other.end()
        await store.end()

    run(test())


def test_requests_wait_while_the_server_is_down(server: EmbeddedZooKeeper) -> None:
    async def test() -> None:
        # The session outlasts the restart, however busy the machine is.
        store = RealStore(server, fresh_root(), session_ms=60_000)
        image = await store.lead()
        os.kill(server.server_pid, signal.SIGSTOP)
        resource = ConfigResource(ResourceType.TOPIC, "t")
        writing = asyncio.create_task(store.write(image, ConfigsReplaced(resource, {"a": "b"})))
        await asyncio.sleep(0)
        assert not writing.done()
        os.kill(server.server_pid, signal.SIGCONT)
        image = await writing
        server.kill()
        writing = asyncio.create_task(store.write(image, ConfigsReplaced(resource, {"c": "d"})))
        await asyncio.to_thread(server.start)
        await writing
        await store.end()

    run(test())


def test_a_transaction_names_the_operation_that_failed(server: EmbeddedZooKeeper) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        zk_client = KazooZooKeeper(
            server.connect, session_timeout_ms=SESSION_MS, post=call_soon_from_threads(loop)
        )
        zk_client.start()
        path = f"/t-{uuid.uuid4().hex[:8]}"
        ended: asyncio.Queue[object] = asyncio.Queue()

        def told(refused: FailedOperation | None = None) -> None:
            ended.put_nowait(refused)

        zk_client.multi([Create(path=path)], then=told, on_error=told)
        assert await ended.get() is None
        zk_client.multi(
            [
                Create(path=f"{path}/a"),
                Check(path=path, version=0),
                Set(path=path, data=b"", version=7),
            ],
            then=told,
            on_error=told,
        )
        assert await ended.get() == FailedOperation(2, ZooKeeperError.BAD_VERSION)
        zk_client.exists(f"{path}/a", then=ended.put_nowait, on_error=ended.put_nowait)
        assert await ended.get() is None
        zk_client.get("/nowhere", then=lambda *_: None, on_error=ended.put_nowait)
        assert await ended.get() is ZooKeeperError.NO_NODE
        zk_client.close()
        zk_client.children(path, then=ended.put_nowait, on_error=ended.put_nowait)
        assert await ended.get() is ZooKeeperError.EXPIRED
        await asyncio.to_thread(zk_client.end)

    run(test())


def test_without_kazoo_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(HeadwaterError, match=r"headwater\[cluster\]"):
        KazooZooKeeper("h:1", session_timeout_ms=1_000, post=lambda work: work())


class StuckClient:
    """kazoo's client when ZooKeeper does not confirm the end of a session."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def add_listener(self, _: object) -> None:
        """Nothing to report."""

    def stop(self) -> None:
        self.released.wait(TIMEOUT_S)

    def close(self) -> None:
        """Nothing is open."""


def test_an_unconfirmed_end_of_a_session_is_not_waited_for() -> None:
    client = StuckClient()
    zk_client = KazooZooKeeper(
        "h:1", session_timeout_ms=SESSION_MS, post=lambda _: None, client=client
    )
    zk_client.end(timeout_ms=1)
    assert not client.released.is_set()
    client.released.set()
