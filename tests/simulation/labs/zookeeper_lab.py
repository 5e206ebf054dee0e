"""A store on a ZooKeeper in memory, and the changes it reported."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import BrokerEndpoint, ClusterImage, Version
from headwater.metadata.ports.metadata_store import Registration
from headwater.metadata_store.zookeeper.zookeeper_store import ZooKeeperStore
from tests.simulation.fakes.fake_zookeeper import FakeZooKeeper
from tests.simulation.labs.broker_lab import ScriptedClock
from tests.simulation.labs.cluster_lab import CLUSTER_ID

T = TypeVar("T")

SESSION_MS = 6_000


class Outcome:
    """Outcome of a call."""

    def __init__(self) -> None:
        self.results: list[object] = []

    def then(self, result: object = None) -> None:
        self.results.append(result)

    def on_error(self, error: HeadwaterError) -> None:
        self.results.append(error)

    @property
    def result(self) -> object:
        assert len(self.results) == 1, self.results
        return self.results[0]

    def of(self, kind: type[T]) -> T:
        result = self.result
        assert isinstance(result, kind), result
        return result


class StoreLab:
    """One broker's store. Several labs may share a server."""

    def __init__(self, node_id: int = 0, server: FakeZooKeeper | None = None) -> None:
        self.server = server or FakeZooKeeper()
        self.node_id = NodeId(node_id)
        self.zk_client = self.server.zk_client()
        self.clock = ScriptedClock()
        self.changes: list[MetadataChange] = []
        self.sessions_lost = 0
        self.registrations_lost = 0
        self._timers: list[Callable[[], None]] = []
        self.store = ZooKeeperStore(
            self.zk_client,
            clock=self.clock,
            call_later=lambda _, work: self._timers.append(work),
            session_timeout_ms=SESSION_MS,
        )
        self.store.listen(self)

    # `StoreListener`.

    def changed(self, changes: Sequence[MetadataChange], version: Version) -> None:  # noqa: ARG002
        self.changes += changes

    def session_lost(self) -> None:
        self.sessions_lost += 1

    def registration_lost(self) -> None:
        self.registrations_lost += 1

    # Shortcuts.

    def told(self) -> list[MetadataChange]:
        """The changes reported since the last call."""
        self.server.run()
        changes, self.changes = self.changes, []
        return changes

    def ring(self) -> None:
        """Fire all timers."""
        timers, self._timers = self._timers, []
        for work in timers:
            work()
        self.server.run()

    def found(self) -> str:
        outcome = Outcome()
        self.store.create_cluster(CLUSTER_ID, then=outcome.then, on_error=outcome.on_error)
        self.server.run()
        return outcome.of(str)

    def registration(self, *, directory: str | None = None, port: int = 9092) -> Registration:
        return Registration(
            node_id=self.node_id,
            directory_id=directory,
            endpoints=(BrokerEndpoint(listener="PLAINTEXT", host="h", port=port),),
        )

    def register(self, registration: Registration | None = None) -> Outcome:
        outcome = Outcome()
        self.store.register(
            registration or self.registration(), then=outcome.then, on_error=outcome.on_error
        )
        self.server.run()
        return outcome

    def elect(self) -> Outcome:
        outcome = Outcome()
        self.store.become_controller(self.node_id, then=outcome.then, on_error=outcome.on_error)
        self.server.run()
        return outcome

    def read(self) -> ClusterImage:
        outcome = Outcome()
        self.store.read(then=outcome.then, on_error=outcome.on_error)
        self.server.run()
        return outcome.of(ClusterImage)

    def write(self, fence: Version, *changes: MetadataChange) -> Outcome:
        outcome = Outcome()
        self.store.write(changes, fence=fence, then=outcome.then, on_error=outcome.on_error)
        return outcome

    def lead(self) -> ClusterImage:
        """From an empty server to a controller that has read everything."""
        self.found()
        self.register()
        self.elect().of(Version)
        image = self.read()
        self.told()
        return image
