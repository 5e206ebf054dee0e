"""A whole broker without a socket: requests go in as frames, responses come out.

Everything is the shipped code, from the dispatch down to the logs; only the disk, the clock, the
random source and the peer are the test's.

Note: jobs run at once, unless the test brings an executor that holds them back, so nearly every
response is there when `send` returns. What the broker defers until the current callbacks have run
waits for `turn`.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Final, TypeVar

from headwater.broker.coordinators.coordinators import new_coordinators
from headwater.broker.coordinators.producer_id_manager import ProducerIdManager
from headwater.broker.handlers.data.metadata_response import MetadataResponses
from headwater.broker.node.authorization import apply_acl_changes, authorizer_of, load_acls
from headwater.broker.node.broker import Broker
from headwater.broker.node.standalone_node import StandaloneAccess
from headwater.broker.requests.dispatch import Dispatch
from headwater.broker.requests.quota_managers import QuotaManagers
from headwater.common.exceptions import HeadwaterError, StorageError
from headwater.common.principal import ANONYMOUS, Principal, Requester
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.metadata.changes import FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import BrokerEndpoint, ClusterImage
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.features import of_new_cluster
from headwater.metadata.ports.metadata_store import Registration
from headwater.metadata_store.standalone.standalone_store import StandaloneStore
from headwater.network.request_service import ClientAddress, ResponseSlot
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, write
from headwater.protocol.headers import read_correlation_id, request_frame, response_body_position
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.older_versions import Message
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.replication.fetch.fetch_session import FetchSessionCache
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_manager import ReplicaManager
from headwater.security.authorization.authorizer import (
    Authorizer,
    Operation,
    Resource,
    ResourceKind,
)
from headwater.storage.io.cold_read import read_buffered
from headwater.storage.io.disk import File
from headwater.storage.io.executor import Executor, InlineExecutor
from headwater.storage.io.file_range_reader import ColdReadLimits, FileRangeReader
from headwater.storage.io.open_files import OpenFiles
from headwater.storage.log_manager.log_directory import DirectoryTools
from headwater.storage.log_manager.log_manager import LogManager
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.labs.cluster_lab import topic

R = TypeVar("R", bound=Message)
T = TypeVar("T")

START_MS: Final = 1_700_000_000_000
CLUSTER_ID: Final = "TestClusterAAAAAAAAAAA"
LISTENER: Final = "PLAINTEXT"
DATA: Final = PurePath("/data")
_SIZE_BYTES: Final = 4


class ScriptedClock:
    """`headwater.common.ports.Clock` that stands still until it is moved."""

    def __init__(self) -> None:
        self._steady_ms = 0

    def now_ms(self) -> int:
        return START_MS + self._steady_ms

    def steady_ms(self) -> int:
        return self._steady_ms

    def move(self, duration_ms: int) -> None:
        self._steady_ms += duration_ms


class Refusing:
    """An authorizer that denies some operations, on everything or on the named resources."""

    allows_everything = False

    def __init__(self, *operations: Operation, names: Iterable[str] | None = None) -> None:
        self._operations = operations
        self._names = None if names is None else tuple(names)

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        assert str(requester.principal) == "User:ANONYMOUS"
        is_meant = self._names is None or resource.name in self._names
        return operation not in self._operations or not is_meant

    allows = authorize

    def authorize_any(self, requester: Requester, operation: Operation, kind: ResourceKind) -> bool:
        return self.authorize(requester, operation, Resource(kind, "any"))


class Peer:
    """The other end of a connection: `headwater.network.request_service.ServedConnection`."""

    def __init__(self, principal: Principal = ANONYMOUS) -> None:
        self.address = ClientAddress(listener=LISTENER, peer_host="192.0.2.1", peer_port=50_000)
        self.requester = Requester(principal, "192.0.2.1")
        self.is_closed = False
        self.holds: list[ResponseSlot] = []
        self.muted_until_ms: int | None = None
        self.takes_steps = True
        self.steps_taken = 0
        self.steps: Iterator[None] = iter(())
        # Frames that steps may still read, until the request is answered.
        self.kept_frames: dict[ResponseSlot, bytearray] = {}
        self._stepwise: set[ResponseSlot] = set()

    def mute(self, until_ms: int) -> None:
        self.muted_until_ms = max(until_ms, self.muted_until_ms or until_ms)

    def unmute(self, now_ms: int) -> None:
        if self.muted_until_ms is not None and now_ms >= self.muted_until_ms:
            self.muted_until_ms = None

    def close(self) -> None:
        self.is_closed = True

    def on_response(self, slot: ResponseSlot) -> None:
        if slot in self.holds:
            self.holds.remove(slot)
        self._stepwise.discard(slot)
        if slot in self.kept_frames:
            _overwrite(self.kept_frames.pop(slot))

    def release_frame(self, slot: ResponseSlot, frame: bytearray) -> None:
        """Overwrite a request's bytes as soon as they are invalid, so that late readers fail."""
        if slot in self._stepwise:
            self.kept_frames[slot] = frame
        else:
            _overwrite(frame)

    def on_hold(self, slot: ResponseSlot) -> None:
        self.holds.append(slot)

    def on_steps(self, slot: ResponseSlot, steps: Iterator[None], size_bytes: int) -> None:  # noqa: ARG002
        """Executed at once and counted, unless the test executes them itself."""
        self._stepwise.add(slot)
        if self.takes_steps:
            self.steps_taken += sum(1 for _ in steps)
        else:
            self.on_hold(slot)
            self.steps = steps


class Sent:
    """A request in flight."""

    def __init__(self, request: Message, version: int, slot: ResponseSlot, peer: Peer) -> None:
        self._request = request
        self._version = version
        self._slot = slot
        self.peer = peer

    @property
    def is_answered(self) -> bool:
        return self._slot.parts is not None

    @property
    def is_held(self) -> bool:
        """Whether its connection waits for it."""
        return self._slot in self.peer.holds

    @property
    def was_silent(self) -> bool:
        """Whether there was deliberately no response."""
        return self._slot.parts == ()

    def answer(self, shape: type[R]) -> R:
        parts = self._slot.parts
        assert parts, "there is no answer yet"
        frame = memoryview(b"".join(_content(part) for part in parts))[_SIZE_BYTES:]
        assert read_correlation_id(frame) == 1
        position = response_body_position(APIS[self._request.api], self._version, frame)
        return read(shape, self._version, frame[position:])


class BrokerLab:
    """One standalone broker."""

    def __init__(
        self,
        texts: Mapping[str, str] | None = None,
        *,
        authorizer: Authorizer | None = None,
        executor: Executor | None = None,
        disk: LossyDisk | None = None,
        paths: Iterable[PurePath] = (DATA,),
    ) -> None:
        self.static = StaticConfig.parse(texts or {})
        self.clock = ScriptedClock()
        self.disk = disk or LossyDisk(random.Random(1), now_ms=self.clock.now_ms)
        self.rng = SeededRandom(random.Random(2))
        self.executor = executor or InlineExecutor()
        self.disk.make_directory(DATA)
        self._soon: list[Callable[[], None]] = []
        self._store_work = _Switch()
        self.store = StandaloneStore.open(
            self.disk, self._store_work, DATA, cluster_id=CLUSTER_ID, first=of_new_cluster()
        )
        self.broker = self._broker(authorizer or authorizer_of(self.static.settings), paths)
        self.throttling = QuotaManagers(self.static.settings, self.clock, self.broker.timer)
        self._join()
        self.dispatch = Dispatch(self.broker)

    def send(
        self,
        request: Message,
        version: int | None = None,
        peer: Peer | None = None,
        *,
        client_id: str = "lab",
    ) -> Sent:
        """Send a request as a frame; by default in the newest stable version."""
        api = APIS[request.api]
        version = api.newest_served(unstable=False) if version is None else version
        peer = peer or Peer()
        slot = ResponseSlot(peer)
        parts = request_frame(api, version, 1, client_id, write(request, version))
        frame = bytearray(b"".join(_content(part) for part in parts))[_SIZE_BYTES:]
        self.dispatch.serve(slot, memoryview(frame))
        peer.release_frame(slot, frame)
        return Sent(request, version, slot, peer)

    def ask(
        self,
        request: Message,
        shape: type[R],
        version: int | None = None,
        peer: Peer | None = None,
    ) -> R:
        """The response to a request that does not wait."""
        sent = self.send(request, version, peer)
        self.turn()
        return sent.answer(shape)

    def turn(self) -> None:
        """The current callbacks have run: run what was deferred until then."""
        while self._soon:
            due, self._soon = self._soon, []
            for each in due:
                each()

    def pass_time(self, duration_ms: int) -> None:
        self.clock.move(duration_ms)
        self.broker.timer.expire(self.clock.steady_ms())
        self.broker.directories.tick(self.clock.now_ms())
        self.turn()

    def change(self, *changes: MetadataChange) -> None:
        """Apply a change to the cluster that no client request causes."""
        self.broker.controller.submit(
            lambda _: ControllerResult(changes, None), then=_ignore, on_error=_raise
        )

    def hold_store(self) -> HeldExecutor:
        """From now on the store writes when the test says so."""
        held = HeldExecutor(random.Random(3))
        self._store_work.behind = held
        return held

    # Common setup.

    def create(
        self, name: str, partitions: int = 1, configs: dict[str, str | None] | None = None
    ) -> None:
        request = CreateTopicsRequest(
            topics=(topic(name, partitions, 1, configs=configs),), timeout_ms=60_000
        )
        (result,) = self.ask(request, CreateTopicsResponse).topics
        assert not result.error_code, result

    def produce(self, name: str, *values: bytes, partition: int = 0) -> int:
        """Append one batch; return its base offset."""
        records = [Record(key=b"k", value=each, timestamp=START_MS) for each in values]
        data = PartitionProduceData(index=partition, records=memoryview(build_batch(records)))
        request = ProduceRequest(
            acks=1, topic_data=(TopicProduceData(name=name, partition_data=(data,)),)
        )
        answer = self.ask(request, ProduceResponse, 12)
        (result,) = answer.responses[0].partition_responses
        assert not result.error_code, result
        return result.base_offset

    def _broker(self, authorizer: Authorizer, paths: Iterable[PurePath]) -> Broker:
        static = self.static
        settings = static.settings.storage()
        image = _read(self.store)
        load_acls(authorizer, image)
        tools = DirectoryTools(
            node_id=static.node_id,
            cluster_id=CLUSTER_ID,
            disk=self.disk,
            files=OpenFiles(self.disk, 64),
            executor=self.executor,
            rng=self.rng,
            settings_for=lambda name: partitions.settings_of(name),
        )
        directories = LogManager(list(paths), tools, settings)
        partitions = ReplicaManager(image, static, directories, self.clock)
        directories.open(self.clock.now_ms())
        controller = DeferredEventQueue(self.store, image, self._changed)
        timer = Timer()
        controller_access = StandaloneAccess(static, controller, self.rng)
        producer_ids = ProducerIdManager(controller_access.allocate_producer_ids)
        coordinators = new_coordinators(
            static,
            clock=self.clock,
            rng=self.rng,
            executor=self.executor,
            timer=timer,
            partitions=partitions,
            producer_ids=producer_ids,
            image=lambda: controller.image,
        )
        return Broker(
            static=static,
            clock=self.clock,
            rng=self.rng,
            executor=self.executor,
            validation_executor=self.executor,
            controller_access=controller_access,
            directories=directories,
            partitions=partitions,
            ranges=FileRangeReader(
                _AllCold(), self.executor, read_buffered, limits=ColdReadLimits(total_bytes=1 << 20)
            ),
            sessions=FetchSessionCache(100, self.rng),
            timer=timer,
            authorizer=authorizer,
            metadata=MetadataResponses(),
            producer_ids=producer_ids,
            groups=coordinators.groups,
            transactions=coordinators.transactions,
            add_partitions_to_txn_manager=coordinators.add_partitions_to_txn_manager,
            markers=coordinators.markers,
            call_soon=self._soon_append,
        )

    def _soon_append(self, action: Callable[[], None]) -> None:
        self._soon.append(action)

    def _changed(self, image: ClusterImage, changes: Iterable[MetadataChange]) -> None:
        apply_acl_changes(self.broker.authorizer, list(changes))
        self.broker.deleted_topics.changed(changes)
        self.broker.partitions.changed(image, list(changes))
        self.broker.groups.changed(image, list(changes))
        self.broker.transactions.changed(image)
        if any(isinstance(change, FeatureFinalized) for change in changes):
            self.dispatch.announce(image)
        if self.throttling.changed(changes):
            self.broker.quotas = self.throttling.in_force

    def _join(self) -> None:
        node_id = self.static.node_id
        endpoint = BrokerEndpoint(listener=LISTENER, host="broker.test", port=9092)
        registration = Registration(node_id=node_id, rack=None, endpoints=(endpoint,))
        self.store.register(registration, then=_ignore, on_error=_raise)
        self.store.become_controller(node_id, then=_ignore, on_error=_raise)
        image = _read(self.store)
        self.broker.controller.take_over(image)
        self.broker.partitions.changed(image, ())
        self.broker.groups.changed(image, ())
        self.broker.transactions.changed(image)


class _Switch:
    """An executor that the test may replace."""

    def __init__(self) -> None:
        self.behind: Executor = InlineExecutor()

    def submit(
        self,
        job: Callable[[], T],
        *,
        then: Callable[[T], None],
        on_error: Callable[[StorageError], None],
    ) -> None:
        self.behind.submit(job, then=then, on_error=on_error)


class _AllCold:
    """Sends every read through the executor, since a fake disk cannot `sendfile`."""

    def resident_pages(self, file: File, position: int, length: int) -> int:  # noqa: ARG002
        return 0


def _read(store: StandaloneStore) -> ClusterImage:
    found: list[ClusterImage] = []
    store.read(then=found.append, on_error=_raise)
    return found[0]


def _ignore(_: object) -> None:
    """The store always agrees here."""


def _overwrite(frame: bytearray) -> None:
    frame[:] = bytes(len(frame))


def _raise(error: HeadwaterError) -> None:
    raise error


def _content(part: object) -> bytes:
    assert isinstance(part, bytes | bytearray | memoryview), "a fake disk has no ranges to send"
    return bytes(part)
