"""The keeper on kazoo, against a real ZooKeeper: the store's whole life over a real connection."""

import asyncio
import os
import signal
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from headwater.cluster.facts import (
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    Fact,
    PartitionChanged,
    TopicCreated,
    apply,
)
from headwater.cluster.image import (
    ClusterImage,
    ConfigResource,
    Endpoint,
    Partition,
    Topic,
    Version,
)
from headwater.cluster.leadership import led_by
from headwater.cluster.store import Registration
from headwater.cluster.zookeeper.kazoo_keeper import KazooKeeper
from headwater.cluster.zookeeper.keeper import Check, Create, Problem, Refused, Set
from headwater.cluster.zookeeper.store import ZooKeeperStore
from headwater.model.config_terms import ResourceType
from headwater.model.failures import HeadwaterError
from headwater.model.ids import NodeId, TopicId
from headwater.net.loop import posting_to
from headwater.net.system import SystemClock
from headwater.testing.embedded_zookeeper import EmbeddedZooKeeper
from tests.sim.cluster_lab import CLUSTER_ID
from tests.zookeeper_server import real_zookeeper

T = TypeVar("T")

PATIENCE_S = 60
SESSION_MS = 30_000


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedZooKeeper]:
    with real_zookeeper() as running:
        yield running


class RealStore:
    """A store over a real connection, and what it has told."""

    def __init__(
        self,
        server: EmbeddedZooKeeper,
        root: str,
        node_id: int = 0,
        session_ms: int = SESSION_MS,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.node_id = NodeId(node_id)
        self.facts: asyncio.Queue[Fact | str] = asyncio.Queue()
        self.keeper = KazooKeeper(
            f"{server.connect}/{root}", session_timeout_ms=session_ms, post=posting_to(loop)
        )
        self.store = ZooKeeperStore(
            self.keeper,
            clock=SystemClock(),
            later=lambda ms, work: loop.call_later(ms / 1_000, work),
            session_timeout_ms=session_ms,
        )
        self.store.listen(self)
        self.keeper.start()

    def changed(self, facts: Sequence[Fact], version: Version) -> None:  # noqa: ARG002
        for fact in facts:
            self.facts.put_nowait(fact)

    def session_lost(self) -> None:
        self.facts.put_nowait("session lost")

    def registration_lost(self) -> None:
        self.facts.put_nowait("registration lost")

    async def hear(self, *expected: Fact | str) -> None:
        """Wait until all of these were told, in this order, among others."""
        for each in expected:
            while await self.facts.get() != each:
                pass

    async def done(self, call: Callable[..., None], *arguments: Any, **named: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def then(result: object = None) -> None:
            future.set_result(result)

        call(*arguments, **named, then=then, otherwise=future.set_exception)
        return await future

    async def lead(self) -> ClusterImage:
        await self.done(self.store.found, CLUSTER_ID)
        await self.register()
        await self.done(self.store.become_controller, self.node_id)
        image = await self.done(self.store.read)
        assert isinstance(image, ClusterImage)
        return image

    async def register(self) -> int:
        registration = Registration(
            node_id=self.node_id,
            directory_id=f"d{self.node_id}",
            endpoints=(Endpoint(listener="PLAINTEXT", host="::1", port=9092),),
        )
        epoch = await self.done(self.store.register, registration)
        assert isinstance(epoch, int)
        return epoch

    async def write(self, image: ClusterImage, *facts: Fact) -> ClusterImage:
        version = await self.done(self.store.write, facts, fence=image.version)
        return apply(image, facts, version)

    async def end(self) -> None:
        self.store.close()
        await asyncio.to_thread(self.keeper.end)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE_S))


def fresh_root() -> str:
    """Two levels, of which neither is there."""
    return f"test-{uuid.uuid4().hex[:8]}/kafka"


def test_a_controllers_life_from_its_election_to_its_successor(server: EmbeddedZooKeeper) -> None:
    async def test() -> None:
        root = fresh_root()
        first = RealStore(server, root)
        image = await first.lead()
        assert image.version == Version(1, 0)
        assert image.brokers[NodeId(0)].endpoints[0].host == "::1"
        second = RealStore(server, root, 1)
        await second.done(second.store.found, CLUSTER_ID)
        await second.hear(ControllerElected(NodeId(0)))
        partition = Partition(replicas=(NodeId(0),), isr=(NodeId(0),), leader=NodeId(0))
        topic = Topic(name="t", topic_id=TopicId(bytes(range(16))), partitions=(partition,) * 100)
        configs = ConfigsReplaced(ConfigResource(ResourceType.TOPIC, "t"), {"a": "b"})
        image = await first.write(image, TopicCreated(topic), configs)
        await second.hear(configs)
        image = await first.write(
            image, PartitionChanged("t", 7, led_by(partition, NodeId(0), (NodeId(0),)))
        )
        await first.end()
        await second.hear(ControllerGone())
        found = await second.lead()
        assert found.version == Version(2, 0)
        assert found.topics["t"] == image.topics["t"]
        assert [*found.brokers] == [NodeId(1)]
        await second.end()

    run(test())


def test_a_session_that_expires_is_told_and_replaced(server: EmbeddedZooKeeper) -> None:
    async def test() -> None:
        root = fresh_root()
        # It is noticed when it is next used, and so within a part of this.
        store = RealStore(server, root, session_ms=4_000)
        await store.lead()
        before = await store.register()
        other = RealStore(server, root, 1)
        await other.done(other.store.found, CLUSTER_ID)
        # Another client that claims our session makes the server close it.
        session_id, password = store.keeper._client.client_id
        thief = KazooKeeper(
            server.connect,
            session_timeout_ms=SESSION_MS,
            post=posting_to(asyncio.get_running_loop()),
        )
        thief._client._session_id = session_id
        thief._client._session_passwd = password
        thief.start()
        while not thief._client.connected:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(thief.end)
        await store.hear("session lost")
        assert await store.register() > before
        await other.hear(ControllerGone())
        await other.end()
        await store.end()

    run(test())


def test_requests_wait_while_the_server_is_away(server: EmbeddedZooKeeper) -> None:
    async def test() -> None:
        store = RealStore(server, fresh_root())
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
        keeper = KazooKeeper(server.connect, session_timeout_ms=SESSION_MS, post=posting_to(loop))
        keeper.start()
        path = f"/t-{uuid.uuid4().hex[:8]}"
        ended: asyncio.Queue[object] = asyncio.Queue()

        def told(refused: Refused | None = None) -> None:
            ended.put_nowait(refused)

        keeper.multi([Create(path=path)], then=told, otherwise=told)
        assert await ended.get() is None
        keeper.multi(
            [
                Create(path=f"{path}/a"),
                Check(path=path, version=0),
                Set(path=path, data=b"", version=7),
            ],
            then=told,
            otherwise=told,
        )
        assert await ended.get() == Refused(2, Problem.BAD_VERSION)
        keeper.exists(f"{path}/a", then=ended.put_nowait, otherwise=ended.put_nowait)
        assert await ended.get() is None
        keeper.get("/nowhere", then=lambda *_: None, otherwise=ended.put_nowait)
        assert await ended.get() is Problem.NO_NODE
        keeper.close()
        keeper.children(path, then=ended.put_nowait, otherwise=ended.put_nowait)
        assert await ended.get() is Problem.EXPIRED
        await asyncio.to_thread(keeper.end)

    run(test())


def test_a_cluster_without_kazoo_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(HeadwaterError, match=r"headwater\[cluster\]"):
        KazooKeeper("h:1", session_timeout_ms=1_000, post=lambda work: work())


class StuckClient:
    """kazoo's client when ZooKeeper does not confirm the end of a session."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def add_listener(self, _: object) -> None:
        """It has nothing to tell."""

    def stop(self) -> None:
        self.released.wait(PATIENCE_S)

    def close(self) -> None:
        """Nothing is open."""


def test_the_end_of_a_session_that_is_not_confirmed_is_not_waited_for() -> None:
    client = StuckClient()
    keeper = KazooKeeper("h:1", session_timeout_ms=SESSION_MS, post=lambda _: None, client=client)
    keeper.end(timeout_ms=1)
    assert not client.released.is_set()
    client.released.set()
