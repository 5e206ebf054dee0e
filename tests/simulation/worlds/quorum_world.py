"""Voters and observers of a quorum on cruel disks, a cruel network and wrong clocks.

The shipped driver carries out effects one by one; a sync takes its time, and events wait meanwhile.
A crash may come between any two effects.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import StorageError
from headwater.common.ids import TopicId
from headwater.metadata_store.raft.raft_driver import RaftDriver, Responded, Synced
from headwater.protocol import codec
from headwater.protocol.api_table import APIS
from headwater.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from headwater.protocol.messages.vote import VoteResponse
from headwater.protocol.older_versions import Message
from headwater.raft.election_state import (
    ElectionState,
    LeaderAndEpoch,
    decode_election_state,
    encode_election_state,
)
from headwater.raft.kafka_raft_client import KafkaRaftClient
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.raft_core import RaftIdentity
from headwater.raft.raft_events import (
    Effect,
    Event,
    FlushLog,
    SendResponse,
)
from headwater.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch
from headwater.raft.snapshots import build_snapshot
from headwater.raft.voter_set import Endpoint, Node, ReplicaKey, VoterNode, VoterSet
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import read_header
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from tests.simulation.fakes.filed_raft_log import FiledRaftLog
from tests.simulation.fakes.lossy_raft_log import UNKNOWN_EPOCH, Batch, LossyRaftLog
from tests.simulation.fakes.seeded_random import SeededRandom
from tests.simulation.fakes.virtual_time import VirtualTime
from tests.simulation.worlds.quorum_checks import GENESIS, QuorumChecks

CLUSTER_ID = "simulated-quorum"
LISTENER = "CONTROLLER"

Answer = Callable[[Message | None], None]


def directory_id(node_id: int, generation: int) -> TopicId:
    return TopicId(bytes([node_id + 1, generation]) + bytes(14))


def endpoints_of(node_id: int, port: int) -> tuple[Endpoint, ...]:
    return (Endpoint(LISTENER, f"node-{node_id}", port),)


def address_of(node_id: int) -> Node:
    return Node(node_id, f"node-{node_id}", 9093)


class SimulatedDriver(RaftDriver):
    """The shipped driver, with a look at every effect and a crash after some of them."""

    def __init__(self, node: QuorumNode, client: KafkaRaftClient) -> None:
        super().__init__(client, io=node, listener=node, failed=node.disk_failed)
        self.node = node

    def _initialize(self, stored: ElectionState | None) -> None:
        super()._initialize(stored)
        self.node.leader_epoch = self.node.led_epoch()

    def _decide(self, event: Event) -> None:
        # A leader may commit and resign in one decision.
        before = self.node.led_epoch()
        super()._decide(event)
        self.node.leader_epoch = self.node.led_epoch() if before is None else before
        self.node.world.decisions += 1

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, FlushLog | SendResponse):
            self.node.register_batches()
        super()._carry_out(effect)
        self.node.world.maybe_strike(self.node, effect)


@dataclass(slots=True, kw_only=True)
class QuorumNode:
    """One replica: its disk outlives its process."""

    world: QuorumWorld
    node_id: int
    is_broker: bool
    generation: int = 0
    port: int = 9093
    log: LossyRaftLog = field(default_factory=LossyRaftLog)
    quorum_state: bytes | None = None
    clock_rate: float = 1.0
    driver: SimulatedDriver | None = None
    life: int = 0
    digest: bytes = GENESIS
    applied_end: int = 0
    applied_epoch: int = 0
    announced: LeaderAndEpoch | None = None
    # The epoch that it leads, while it carries out the effects of a leader's decision.
    leader_epoch: int | None = None
    _next_poll_ms: int = 0
    _registered: dict[tuple[int, int], None] = field(default_factory=dict)

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, directory_id(self.node_id, self.generation))

    @property
    def is_up(self) -> bool:
        return self.driver is not None

    @property
    def client(self) -> KafkaRaftClient | None:
        return None if self.driver is None else self.driver.client

    def now_ms(self) -> int:
        return int(self.world.time.now_ms * self.clock_rate)

    # Life

    def start(self) -> None:
        world = self.world
        identity = RaftIdentity(
            key=self.key,
            cluster_id=CLUSTER_ID,
            listener_name=LISTENER,
            endpoints=endpoints_of(self.node_id, self.port),
            followers_always_flush=not self.is_broker,
            static_voters=world.static_voters,
            bootstrap_servers=tuple(address_of(each) for each in world.bootstrap_ids),
        )
        self.log.on_truncate = self._on_truncate
        self.digest, self.applied_end, self.applied_epoch = GENESIS, 0, 0
        self.announced = None
        client = KafkaRaftClient(
            identity, config=world.config, log=self.log, random=SeededRandom(world.time.rand)
        )
        self.driver = SimulatedDriver(self, client)
        self.prepare(self.driver)
        self.driver.start(self._stored_election())

    def prepare(self, driver: RaftDriver) -> None:
        """Create what runs on the log, before the replica starts."""

    def crash(self) -> None:
        self.life += 1
        assert self.driver is not None
        self.driver.close()
        self.driver = None
        self._registered.clear()
        self._next_poll_ms = 0
        self.log.crash(self.world.time.rand.randrange)

    def disk_failed(self, error: StorageError) -> None:
        raise AssertionError(f"the disk of {self.key} does not fail here: {error}")

    def wipe(self) -> None:
        """A new disk: another directory id, and nothing on it."""
        assert not self.is_up
        self.world.lost_disks.append((self.key, self.log))
        self.generation += 1
        self.log = self.world.new_log(self.log.slice_bytes)
        self.quorum_state = None

    def _on_truncate(self, offset: int) -> None:
        if self.client is not None:
            self.world.checks.truncated(self.key, offset, self.client.high_watermark)

    # Events

    def receive(self, message: Message, answer: Answer) -> None:
        if isinstance(message, ApiVersionsRequest):
            assert message.client_software_name, "Kafka refuses a client without a name"
            feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            answer(ApiVersionsResponse(supported_features=(feature,)))
            return
        assert self.driver is not None
        self.driver.receive(message, answer)

    def append(self, value: bytes) -> OffsetAndEpoch | None:
        """Append a record if this replica leads and is not busy."""
        driver, client = self.driver, self.client
        if driver is None or client is None or not client.is_leader or not driver.is_idle:
            return None
        batch = build_batch([Record(value=value, timestamp=self.now_ms())])
        epoch = client.leader_and_epoch.epoch
        self.leader_epoch = epoch
        outcomes: list[OffsetAndEpoch | None] = []

        def appended(error: ErrorCode, last_offset: int) -> None:
            is_done = error is ErrorCode.NONE
            outcomes.append(OffsetAndEpoch(last_offset + 1, epoch) if is_done else None)

        driver.append(epoch, bytearray(batch), 1, appended)
        return outcomes[0]

    def led_epoch(self) -> int | None:
        client = self.client
        if client is None or not client.is_leader:
            return None
        return client.leader_and_epoch.epoch

    # `RaftIo`

    def poll_at(self, due_ms: int) -> None:
        wait_ms = max(1, int((due_ms - self.now_ms()) / self.clock_rate) + 1)
        at_ms = self.world.time.now_ms + wait_ms
        if self.world.time.now_ms < self._next_poll_ms <= at_ms:
            return
        self._next_poll_ms = at_ms
        life = self.life

        def poll() -> None:
            if self.life == life and self.driver is not None and self._next_poll_ms <= at_ms:
                self._next_poll_ms = 0
                self.driver.poll()

        self.world.time.after(wait_ms, poll)

    def flush(self, then: Synced) -> None:
        self._sync(self.log.flush, then)

    def write_election_state(
        self,
        election: ElectionState,
        *,
        kraft_version: int,
        voter_ids: tuple[int, ...],
        then: Synced,
    ) -> None:
        def store() -> None:
            self._store(election, kraft_version, voter_ids)

        self._sync(store, then)

    def send_request(self, node: Node, message: Message, then: Responded) -> None:
        self.world.send_request(self, node, message, then)

    def _sync(self, sync: Callable[[], None], then: Synced) -> None:
        """Most syncs are quick; a few make the replica miss its timeouts."""
        rand = self.world.time.rand
        wait_ms = rand.randint(0, 3)
        if self.world.time.happens(self.world.slow_sync):
            wait_ms = rand.randint(100, 4_000)
        if wait_ms == 0:
            sync()
            then(None)
            return
        life = self.life

        def finish() -> None:
            if self.life == life:
                sync()
                then(None)

        self.world.time.after(wait_ms, finish)

    def _stored_election(self) -> ElectionState | None:
        if isinstance(self.log, FiledRaftLog):
            return self.log.read_election_state()
        return None if self.quorum_state is None else decode_election_state(self.quorum_state)

    def _store(
        self, election: ElectionState, kraft_version: int, voter_ids: tuple[int, ...]
    ) -> None:
        client = self.client
        assert client is not None
        if isinstance(self.log, FiledRaftLog):
            self.log.write_election_state(
                election, kraft_version=kraft_version, voter_ids=voter_ids
            )
        self.quorum_state = encode_election_state(
            election, kraft_version=kraft_version, voter_ids=voter_ids
        )
        if election.leader_id == self.node_id and client.is_leader:
            self.world.checks.leader(self.key, election.epoch, self.log)
            self.world.say(f"{self.key.id} leads epoch {election.epoch}")

    # `RaftListener`

    def handle_commit(self, start_offset: int, end_offset: int) -> None:
        client = self.client
        assert client is not None
        checks = self.world.checks
        assert start_offset == self.applied_end, (start_offset, self.applied_end)
        for each in self.log.image.batches:
            if start_offset <= each.base_offset < end_offset:
                self.digest = checks.applied(
                    self.key, self.digest, each, leader_epoch=self.leader_epoch
                )
                self.applied_end, self.applied_epoch = each.next_offset, each.epoch
        assert self.applied_end == end_offset, (self.applied_end, end_offset)
        if self.leader_epoch is not None:
            at = OffsetAndEpoch(self.applied_end, self.applied_epoch)
            disks = [(each.key, each.log) for each in self.world.nodes.values()]
            checks.durable_on_majority(self.key, at, client.voters, disks + self.world.lost_disks)

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        content = self.log.snapshots[snapshot_id]
        self.applied_end, self.applied_epoch = snapshot_id
        if snapshot_id == BOOTSTRAP_SNAPSHOT_ID:
            self.digest = GENESIS
            return
        position = 0
        while position < len(content):
            header = read_header(content, position)
            if not header.is_control:
                (record,) = read_records(content, header, position)
                assert record.value is not None
                self.digest = record.value
            position += header.size_bytes
        self.world.checks.snapshot_loaded(self.key, snapshot_id, self.digest)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.announced = leader

    # What the checks see

    def register_batches(self) -> None:
        previous = self.log.image.start_epoch
        for each in self.log.image.batches:
            identity = (each.epoch, each.base_offset)
            if identity not in self._registered and previous != UNKNOWN_EPOCH:
                self._registered[identity] = None
                self.world.checks.appended(self.key, each, previous)
            previous = each.epoch

    def take_snapshot(self) -> bool:
        """Write the applied state as a snapshot, as the controller does."""
        driver, client = self.driver, self.client
        if driver is None or client is None or not driver.is_idle or self.applied_end == 0:
            return False
        snapshot_id = OffsetAndEpoch(self.applied_end, self.applied_epoch)
        if snapshot_id in self.log.snapshots:
            return False
        latest = self.log.latest_snapshot_id
        if latest is not None and latest.offset >= snapshot_id.offset:
            return False
        batch = build_batch([Record(value=self.digest, timestamp=0)])
        content = build_snapshot(
            snapshot_id,
            batches=[batch],
            last_contained_log_timestamp=0,
            kraft_version=client.kraft_version_at(snapshot_id.offset - 1),
            voters=client.voters_at(snapshot_id.offset - 1),
        )
        self.log.store_snapshot(snapshot_id, content)
        return True

    def clean_log(self) -> bool:
        if self.driver is None or not self.driver.is_idle:
            return False
        return self.driver.client.clean_log()


@dataclass(slots=True)
class QuorumWorld:
    """All replicas, the network between them, and the checks over them."""

    seed: int
    kraft_version: int
    voter_count: int
    observer_count: int
    broker_count: int
    config: QuorumConfig = field(default_factory=QuorumConfig)
    node_class: type[QuorumNode] = QuorumNode
    time: VirtualTime = field(init=False)
    checks: QuorumChecks = field(default_factory=QuorumChecks)
    nodes: dict[int, QuorumNode] = field(default_factory=dict)
    static_voters: VoterSet = field(default_factory=VoterSet)
    bootstrap_ids: tuple[int, ...] = ()
    # Their records were acknowledged in good faith.
    lost_disks: list[tuple[ReplicaKey, LossyRaftLog]] = field(default_factory=list)
    cut: dict[tuple[int, int], None] = field(default_factory=dict)
    repeat: float = 0.0
    slow_sync: float = 0.0
    crash_after_effect: float = 0.0
    crash_after_vote: float = 0.0
    encodes: bool = False
    # Replicas have the shipped log on a lossy disk instead of one in memory.
    has_files: bool = False
    decisions: int = 0
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.time = VirtualTime(random.Random(self.seed))
        count = self.voter_count + self.observer_count + self.broker_count
        initial = range(self.voter_count)
        self.bootstrap_ids = tuple(range(self.voter_count + self.observer_count))
        for node_id in range(count):
            node = self.node_class(
                world=self,
                node_id=node_id,
                is_broker=node_id >= self.voter_count + self.observer_count,
            )
            slice_bytes = self.time.rand.choice((100, 500, 1 << 20))
            node.log = self.new_log(slice_bytes)
            self.nodes[node_id] = node
        if self.kraft_version == 0:
            self.static_voters = VoterSet.of(
                VoterNode(key=ReplicaKey(each), endpoints=endpoints_of(each, 9093))
                for each in initial
            )
        else:
            self._format(
                VoterSet.of(
                    VoterNode(key=self.nodes[each].key, endpoints=endpoints_of(each, 9093))
                    for each in initial
                )
            )

    def _format(self, voters: VoterSet) -> None:
        """Write the bootstrap checkpoint of `kafka-storage format --initial-controllers`."""
        content = build_snapshot(
            BOOTSTRAP_SNAPSHOT_ID,
            batches=[],
            last_contained_log_timestamp=0,
            kraft_version=1,
            voters=voters,
        )
        for node_id in voters.ids:
            self.nodes[node_id].log.store_snapshot(BOOTSTRAP_SNAPSHOT_ID, content)

    def new_log(self, slice_bytes: int) -> LossyRaftLog:
        if not self.has_files:
            return LossyRaftLog(slice_bytes=slice_bytes)
        rand = random.Random(self.time.rand.random())
        return FiledRaftLog(
            slice_bytes=slice_bytes, rand=rand, segment_bytes=rand.choice((300, 1_000, 1 << 20))
        )

    def say(self, text: str) -> None:
        self.trace.append(f"{self.time.now_ms - 1_000_000:8} {text}")

    def maybe_strike(self, node: QuorumNode, effect: Effect) -> None:
        """Crash a replica right after an effect, votes above all, and restart it soon."""
        chance = self.crash_after_effect
        if isinstance(effect, SendResponse) and isinstance(effect.message, VoteResponse):
            chance = self.crash_after_vote
        if not self.time.happens(chance) or not node.is_up:
            return
        life = node.life + 1

        def restart() -> None:
            if node.life == life and not node.is_up:
                node.start()

        def strike() -> None:
            if node.life + 1 == life and node.is_up:
                node.crash()
                self.say(f"{node.node_id} crashes after {type(effect).__name__}")
                self.time.after(self.time.rand.randint(1, 300), restart)

        self.time.after(0, strike)

    def is_cut(self, source: int, target: int) -> bool:
        return (source, target) in self.cut

    def send_request(
        self, source: QuorumNode, node: Node, message: Message, then: Responded
    ) -> None:
        life = source.life
        target = self.nodes[int(node.host.removeprefix("node-"))]

        def answered(response: Message | None) -> None:
            if source.life == life:
                then(response)

        def respond(response: Message | None) -> None:
            self.deliver(target.node_id, source.node_id, response, answered)

        self.deliver(
            source.node_id,
            target.node_id,
            message,
            lambda arrived: self._arrive(target, arrived, respond),
        )

    def _arrive(self, target: QuorumNode, message: Message | None, respond: Answer) -> None:
        assert message is not None
        if target.is_up:
            target.receive(message, respond)
        elif self.time.rand.random() < 0.5:
            # The machine is up and refuses the connection.
            respond(None)

    def deliver(self, source: int, target: int, message: Message | None, arrive: Answer) -> None:
        """One way through the network."""
        if message is not None and self.encodes:
            message = _reencoded(message)

        def arrived() -> None:
            if not self.is_cut(source, target):
                arrive(message)

        copies = 2 if self.time.happens(self.repeat) else 1
        for _ in range(copies):
            self.time.travel(arrived)

    def call(self, target: QuorumNode, message: Message, answer: Answer) -> None:
        """A tool sends a request; its connection is never cut."""
        if target.is_up:
            self.time.travel(lambda: target.receive(message, answer) if target.is_up else None)


def _reencoded(message: Message) -> Message:
    """The message as its bytes say it, in the newest version."""
    version = APIS[message.api].newest
    body = b"".join(bytes(part) for part in codec.write(message, version))  # type: ignore[arg-type]
    return codec.read(type(message), version, memoryview(body))


__all__ = ["Batch", "QuorumNode", "QuorumWorld", "address_of", "endpoints_of"]
