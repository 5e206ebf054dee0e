"""Voters and observers of a quorum on cruel disks, a cruel network and wrong clocks.

The shell of a replica is serial, as shipped code demands: it carries out effects one by one, a sync
takes its time, and events wait meanwhile. A crash may come between any two effects.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.common.ids import TopicId
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
    HandleCommit,
    HandleLeaderChange,
    HandleLoadSnapshot,
    Poll,
    RequestReceived,
    ResponseReceived,
    SendRequest,
    SendResponse,
    WriteElectionState,
)
from headwater.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID, OffsetAndEpoch
from headwater.raft.snapshots import build_snapshot
from headwater.raft.voter_set import Endpoint, Node, ReplicaKey, VoterNode, VoterSet
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import read_header
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from tests.simulation.fakes.lossy_raft_log import Batch, LossyRaftLog
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
    client: KafkaRaftClient | None = None
    life: int = 0
    digest: bytes = GENESIS
    applied_end: int = 0
    applied_epoch: int = 0
    announced: HandleLeaderChange | None = None
    _queue: deque[Event] = field(default_factory=deque)
    _effects: deque[Effect] = field(default_factory=deque)
    _is_syncing: bool = False
    # The epoch that it leads, while it carries out the effects of a leader's decision.
    _leader_epoch: int | None = None
    _calls: dict[int, Answer] = field(default_factory=dict)
    _next_call_id: int = 0
    _next_poll_ms: int = 0
    _registered: dict[tuple[int, int], None] = field(default_factory=dict)

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, directory_id(self.node_id, self.generation))

    @property
    def is_up(self) -> bool:
        return self.client is not None

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
        self.client = client
        stored = None if self.quorum_state is None else decode_election_state(self.quorum_state)
        effects = client.initialize(stored, self.now_ms())
        self._leader_epoch = self._led_epoch()
        self._run(effects)

    def crash(self) -> None:
        self.life += 1
        self.client = None
        self._queue.clear()
        self._effects.clear()
        self._calls.clear()
        self._registered.clear()
        self._is_syncing = False
        self._next_poll_ms = 0
        self.log.crash(self.world.time.rand.randrange)

    def wipe(self) -> None:
        """A new disk: another directory id, and nothing on it."""
        assert not self.is_up
        self.world.lost_disks.append((self.key, self.log))
        self.generation += 1
        self.log = LossyRaftLog(slice_bytes=self.log.slice_bytes)
        self.quorum_state = None

    def _on_truncate(self, offset: int) -> None:
        if self.client is not None:
            self.world.checks.truncated(self.key, offset, self.client.high_watermark)

    # Events and effects

    def receive(self, message: Message, answer: Answer) -> None:
        if isinstance(message, ApiVersionsRequest):
            feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            answer(ApiVersionsResponse(supported_features=(feature,)))
            return
        self._next_call_id += 1
        self._calls[self._next_call_id] = answer
        self.handle(
            RequestReceived(call_id=self._next_call_id, message=message, now_ms=self.now_ms())
        )

    def handle(self, event: Event) -> None:
        self._queue.append(event)
        self._work()

    def append(self, value: bytes) -> OffsetAndEpoch | None:
        """Append a record if this replica leads and is not busy."""
        client = self.client
        if client is None or not client.is_leader or self._is_syncing or self._effects:
            return None
        batch = build_batch([Record(value=value, timestamp=self.now_ms())])
        epoch = client.leader_and_epoch.epoch
        self._leader_epoch = epoch
        appended = client.append(epoch, bytearray(batch), self.now_ms())
        self._run(appended.effects)
        if appended.info is None:
            return None
        return OffsetAndEpoch(appended.info.last_offset + 1, epoch)

    def _work(self) -> None:
        while self.client is not None and not self._is_syncing:
            if self._effects:
                self._carry_out(self._effects.popleft())
            elif self._queue:
                event = self._queue.popleft()
                # A leader may commit and resign in one decision.
                before = self._led_epoch()
                self._effects.extend(self.client.decide(event))
                self._leader_epoch = self._led_epoch() if before is None else before
                self.world.decisions += 1
            else:
                self._schedule_poll()
                return

    def _led_epoch(self) -> int | None:
        client = self.client
        if client is None or not client.is_leader:
            return None
        return client.leader_and_epoch.epoch

    def _run(self, effects: list[Effect]) -> None:
        self._effects.extend(effects)
        self._work()

    def _schedule_poll(self) -> None:
        assert self.client is not None
        due_ms = self.client.next_poll_ms(self.now_ms())
        wait_ms = max(1, int((due_ms - self.now_ms()) / self.clock_rate) + 1)
        at_ms = self.world.time.now_ms + wait_ms
        if self.world.time.now_ms < self._next_poll_ms <= at_ms:
            return
        self._next_poll_ms = at_ms
        life = self.life

        def poll() -> None:
            if self.life == life and self.client is not None and self._next_poll_ms <= at_ms:
                self._next_poll_ms = 0
                self.handle(Poll(self.now_ms()))

        self.world.time.after(wait_ms, poll)

    def _carry_out(self, effect: Effect) -> None:
        world = self.world
        match effect:
            case WriteElectionState(election):
                self._sync(lambda: self._store(election))
            case FlushLog():
                self._register_batches()
                self._sync(self.log.flush)
            case SendRequest():
                world.send_request(self, effect)
            case SendResponse(call_id, message):
                self._register_batches()
                answer = self._calls.pop(call_id, None)
                if answer is not None:
                    answer(message)
            case HandleCommit(start, end):
                self._apply(start, end)
            case HandleLoadSnapshot(snapshot_id):
                self._load(snapshot_id)
            case HandleLeaderChange():
                self.announced = effect
        world.maybe_strike(self, effect)

    def _sync(self, done: Callable[[], None]) -> None:
        """Most syncs are quick; a few make the replica miss its timeouts."""
        rand = self.world.time.rand
        wait_ms = rand.randint(0, 3)
        if self.world.time.happens(self.world.slow_sync):
            wait_ms = rand.randint(100, 4_000)
        if wait_ms == 0:
            done()
            return
        self._is_syncing = True
        life = self.life

        def finish() -> None:
            if self.life == life:
                done()
                self._is_syncing = False
                self._work()

        self.world.time.after(wait_ms, finish)

    def _store(self, election: ElectionState) -> None:
        client = self.client
        assert client is not None
        self.quorum_state = encode_election_state(
            election, kraft_version=client.kraft_version, voter_ids=client.voters.ids
        )
        if election.leader_id == self.node_id and client.is_leader:
            self.world.checks.leader(self.key, election.epoch, self.log)
            self.world.say(f"{self.key.id} leads epoch {election.epoch}")

    # What the checks see

    def _register_batches(self) -> None:
        previous = self.log.image.start_epoch
        for each in self.log.image.batches:
            identity = (each.epoch, each.base_offset)
            if identity not in self._registered:
                self._registered[identity] = None
                self.world.checks.appended(self.key, each, previous)
            previous = each.epoch

    def _apply(self, start: int, end: int) -> None:
        client = self.client
        assert client is not None
        checks = self.world.checks
        assert start == self.applied_end, (start, self.applied_end)
        for each in self.log.image.batches:
            if start <= each.base_offset < end:
                self.digest = checks.applied(
                    self.key, self.digest, each, leader_epoch=self._leader_epoch
                )
                self.applied_end, self.applied_epoch = each.next_offset, each.epoch
        assert self.applied_end == end, (self.applied_end, end)
        if self._leader_epoch is not None:
            at = OffsetAndEpoch(self.applied_end, self.applied_epoch)
            disks = [(each.key, each.log) for each in self.world.nodes.values()]
            checks.durable_on_majority(self.key, at, client.voters, disks + self.world.lost_disks)

    def _load(self, snapshot_id: OffsetAndEpoch) -> None:
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

    def take_snapshot(self) -> bool:
        """Write the applied state as a snapshot, as the controller does."""
        client = self.client
        if client is None or self._effects or self._is_syncing or self.applied_end == 0:
            return False
        snapshot_id = OffsetAndEpoch(self.applied_end, self.applied_epoch)
        if snapshot_id in self.log.snapshots:
            return False
        latest = self.log.latest_snapshot_id
        if latest is not None and latest.offset >= snapshot_id.offset:
            return False
        batch = build_batch([Record(value=self.digest, timestamp=0)])
        self.log.snapshots[snapshot_id] = build_snapshot(
            snapshot_id,
            batches=[batch],
            last_contained_log_timestamp=0,
            kraft_version=client.kraft_version_at(snapshot_id.offset - 1),
            voters=client.voters_at(snapshot_id.offset - 1),
        )
        return True

    def clean_log(self) -> bool:
        if self.client is None or self._effects or self._is_syncing:
            return False
        return self.client.clean_log()


@dataclass(slots=True)
class QuorumWorld:
    """All replicas, the network between them, and the checks over them."""

    seed: int
    kraft_version: int
    voter_count: int
    observer_count: int
    broker_count: int
    config: QuorumConfig = field(default_factory=QuorumConfig)
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
    decisions: int = 0
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.time = VirtualTime(random.Random(self.seed))
        count = self.voter_count + self.observer_count + self.broker_count
        initial = range(self.voter_count)
        self.bootstrap_ids = tuple(range(self.voter_count + self.observer_count))
        for node_id in range(count):
            node = QuorumNode(
                world=self,
                node_id=node_id,
                is_broker=node_id >= self.voter_count + self.observer_count,
            )
            node.log.slice_bytes = self.time.rand.choice((100, 500, 1 << 20))
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
            self.nodes[node_id].log.snapshots[BOOTSTRAP_SNAPSHOT_ID] = content

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

    def send_request(self, source: QuorumNode, effect: SendRequest) -> None:
        life = source.life
        target = self.nodes[int(effect.destination.host.removeprefix("node-"))]

        def answered(message: Message | None) -> None:
            if source.life == life and source.client is not None:
                source.handle(
                    ResponseReceived(
                        correlation_id=effect.correlation_id,
                        message=message,
                        now_ms=source.now_ms(),
                    )
                )

        def respond(message: Message | None) -> None:
            self.deliver(target.node_id, source.node_id, message, answered)

        self.deliver(
            source.node_id,
            target.node_id,
            effect.message,
            lambda message: self._arrive(target, message, respond),
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
