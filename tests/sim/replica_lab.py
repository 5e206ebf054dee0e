"""Several brokers that hold one topic together, on a fake network and on disks that forget.

Each broker is the shipped code from the dispatch down to the log. Only the controller is a script:
it knows who leads, answers AlterPartition, and tells brokers so, some time later. What a reader
would get wrong: a broker's disk outlives it. `crash` ends the process, and `start` begins another
one on what the disk has kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Final, TypeVar

from headwater.broker.alone import Alone
from headwater.broker.broker import Broker
from headwater.broker.coordinators import new_coordinators
from headwater.broker.dispatch import Dispatch
from headwater.broker.metadata_answers import MetadataAnswers
from headwater.broker.producer_id_block import ProducerIdBlock
from headwater.cluster.controller import Controller
from headwater.cluster.effective import StaticConfig
from headwater.cluster.facts import Fact, apply
from headwater.cluster.image import ClusterImage
from headwater.cluster.local import LocalStore
from headwater.model.ids import NodeId
from headwater.net.service import ReplySlot
from headwater.replication.deadlines import Deadlines
from headwater.replication.fetch_sessions import FetchSessions
from headwater.replication.hosted_partition import HostedPartition
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.replication.replicas import Replicas, ReplicaTools
from headwater.security.authorization import AllowAll
from headwater.storage.cold_read import read_plainly
from headwater.storage.disk import File
from headwater.storage.executor import InlineExecutor
from headwater.storage.log_directories import LogDirectories
from headwater.storage.log_directory import DirectoryTools
from headwater.storage.open_files import OpenFiles
from headwater.storage.range_reader import RangeReader
from headwater.wire.api_table import APIS
from headwater.wire.headers import request_frame
from headwater.wire.lifting import Message
from headwater.wire.translation import write
from tests.sim.broker_lab import Peer, Sent
from tests.sim.cruel_disk import CruelDisk
from tests.sim.fake_network import FakeNetwork, served_by
from tests.sim.loaded_dice import LoadedDice
from tests.sim.virtual_time import VirtualTime

R = TypeVar("R", bound=Message)

CLUSTER_ID: Final = "TestClusterAAAAAAAAAAA"
DATA: Final = PurePath("/data")
TOPIC: Final = "t"
_SIZE_BYTES: Final = 4
_TICK_MS: Final = 100


class NodeClock:
    """`headwater.model.ports.Clock` of one broker, which may run before or behind the others'."""

    def __init__(self, time: VirtualTime, skew_ms: int = 0) -> None:
        self._time = time
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return self._time.now_ms + self.skew_ms

    def steady_ms(self) -> int:
        return self._time.now_ms


class ReplicaNode:
    """One broker of the lab: a disk, and now and then a process on it."""

    def __init__(
        self,
        node_id: NodeId,
        time: VirtualTime,
        network: FakeNetwork,
        texts: Mapping[str, str],
        *,
        skew_ms: int = 0,
    ) -> None:
        self.node_id = node_id
        self.time = time
        self.clock = NodeClock(time, skew_ms)
        self.disk = CruelDisk(random.Random(time.rng.random()), now_ms=self.clock.now_ms)
        self.disk.make_directory(DATA)
        self.static = StaticConfig.parse({**texts, "node.id": str(node_id)})
        self.broker_epoch = -1
        self.image = ClusterImage(cluster_id=CLUSTER_ID)
        self._network = network
        self._life = 0
        self._is_up = False

    @property
    def is_up(self) -> bool:
        return self._is_up

    @property
    def life(self) -> int:
        """Another one after every crash."""
        return self._life

    @property
    def has_hosted(self) -> bool:
        return self.find(0) is not None

    @property
    def hosted(self) -> HostedPartition:
        """The first partition, which most tests are about."""
        return self.hosted_at(0)

    def hosted_at(self, number: int) -> HostedPartition:
        found = self.find(number)
        assert found is not None
        return found

    def find(self, number: int) -> HostedPartition | None:
        return self.broker.partitions.find(TOPIC, number)

    def start(self, broker_epoch: int, image: ClusterImage) -> None:
        """A process begins, with what it is told of the cluster."""
        self._is_up = True
        self._life += 1
        self.broker_epoch = broker_epoch
        self.image = image
        colleagues = self._network.join(self.node_id, self._serve)
        self.deadlines = Deadlines()
        self.deadlines.wake_with(self._wake_at)
        self.replicas = Replicas(
            ReplicaTools(
                node_id=self.node_id,
                broker_epoch=lambda: self.broker_epoch,
                colleagues=colleagues,
                clock=self.clock,
                deadlines=self.deadlines,
                settings=self.static.settings,
            )
        )
        self.broker = self._broker()
        self.dispatch = Dispatch(self.broker)
        self._serve_dispatch = served_by(self.dispatch)
        self.broker.partitions.changed(image, ())
        self._later(_TICK_MS, self._tick)

    def crash(self, *, loses_power: bool) -> None:
        """The process is gone, and with the power also what was not synced."""
        self._is_up = False
        self._life += 1
        self._network.leave(self.node_id)
        if loses_power:
            self.disk.power_cut()
        else:
            self.disk.process_crash()

    def stop(self) -> None:
        """A clean end."""
        self.replicas.close()
        self.broker.deadlines.expire_all()
        self._is_up = False
        self._life += 1
        self._network.leave(self.node_id)
        self.broker.directories.close(broker_epoch=self.broker_epoch)

    def told(self, facts: Sequence[Fact]) -> None:
        """The controller says something."""
        version = self.image.version
        self.image = apply(self.image, facts, version._replace(sequence=version.sequence + 1))
        self.broker.controller.take_over(self.image)
        self.broker.partitions.changed(self.image, facts)

    def send(self, request: Message, version: int | None = None, peer: Peer | None = None) -> Sent:
        """A client's request, as its frame."""
        api = APIS[request.api]
        version = api.newest_served(unstable=False) if version is None else version
        peer = peer or Peer()
        slot = ReplySlot(peer)
        parts = request_frame(api, version, 1, "lab", write(request, version))
        frame = bytearray(b"".join(_content(part) for part in parts))[_SIZE_BYTES:]
        self.dispatch.serve(slot, memoryview(frame))
        frame[:] = bytes(len(frame))
        return Sent(request, version, slot, peer)

    def _serve(self, source: NodeId, request: Message, reply: Callable[[Message], None]) -> None:
        self._serve_dispatch(source, request, reply)

    def _tick(self) -> None:
        self.broker.partitions.open_some(10)
        self.broker.directories.tick(self.clock.now_ms())
        self._later(_TICK_MS, self._tick)

    def _wake_at(self, deadline_ms: int) -> None:
        self._later(max(0, deadline_ms - self.time.now_ms), self._ring)

    def _ring(self) -> None:
        self.deadlines.expire(self.clock.steady_ms())
        if self.deadlines.next_ms is not None:
            self._wake_at(self.deadlines.next_ms)

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Unless this process is gone by then."""
        life = self._life

        def act() -> None:
            if life == self._life:
                action()

        self.time.after(delay_ms, act)

    def _broker(self) -> Broker:
        static, dice = self.static, LoadedDice(random.Random(self.time.rng.random()))
        executor = InlineExecutor()
        tools = DirectoryTools(
            node_id=self.node_id,
            cluster_id=CLUSTER_ID,
            disk=self.disk,
            files=OpenFiles(self.disk, 64),
            executor=executor,
            dice=dice,
            settings_for=lambda name: partitions.settings_of(name),
        )
        directories = LogDirectories([DATA], tools, static.settings.storage())
        partitions = HostedPartitions(self.image, static, directories, self.clock, self.replicas)
        directories.open(self.clock.now_ms())
        store = LocalStore.open(
            CruelDisk(random.Random(1)), executor, PurePath("/"), cluster_id=CLUSTER_ID, first=()
        )
        controller = Controller(store, self.image, lambda _, __: None)
        standing = Alone(static, controller, dice)
        producer_ids = ProducerIdBlock(standing.allocate_producer_ids)
        coordinators = new_coordinators(
            static,
            clock=self.clock,
            dice=dice,
            executor=executor,
            deadlines=self.deadlines,
            partitions=partitions,
            producer_ids=producer_ids,
            image=lambda: self.image,
        )
        return Broker(
            static=static,
            clock=self.clock,
            dice=dice,
            executor=executor,
            validation_executor=executor,
            standing=standing,
            directories=directories,
            partitions=partitions,
            ranges=RangeReader(_AllCold(), executor, read_plainly, cold_limit_bytes=1 << 20),
            sessions=FetchSessions(100, dice),
            deadlines=self.deadlines,
            authorizer=AllowAll(),
            metadata=MetadataAnswers(),
            producer_ids=producer_ids,
            groups=coordinators.groups,
            transactions=coordinators.transactions,
            questions=coordinators.questions,
            markers=coordinators.markers,
            soon=lambda action: self._later(0, action),
        )


class _AllCold:
    """Sends every read through the executor, since a fake disk has nothing to send from."""

    def resident_pages(self, file: File, position: int, length: int) -> int:  # noqa: ARG002
        return 0


def _content(part: object) -> bytes:
    assert isinstance(part, bytes | bytearray | memoryview), "a fake disk has no ranges to send"
    return bytes(part)
