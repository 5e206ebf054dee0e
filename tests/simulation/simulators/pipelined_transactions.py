"""Back-to-back transactions of pipelining producers on a cluster of the shipped code.

Producers behave as Kafka's Java producer does with transaction version 2: several Produce requests
are in flight on each connection, partitions are added by their leaders, every EndTxn raises the
epoch, and the next transaction begins as soon as EndTxn is answered, usually before the markers of
the last one have been written. Offsets are committed in the same transactions. Retriable errors and
lost connections are retried with the same sequence.

No broker fails, so no transaction may fail: a response that the Java producer does not retry ends
the run. Of every three seeds one has a calm network, one delays messages and one loses connections
as well. Late copies of batches are sent when their transaction has ended: none may be written.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.ports.inter_broker_client import Purpose
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from headwater.protocol.older_versions import Message
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.fakes.fake_network import Reply
from tests.simulation.fakes.virtual_time import CALM, Weather
from tests.simulation.labs.cluster_lab import topic
from tests.simulation.labs.cluster_node_lab import ClusterNodeLab
from tests.simulation.worlds.cluster_acknowledgements import check
from tests.simulation.worlds.cluster_clients import TOPIC
from tests.simulation.worlds.cluster_final_checks import committed_offsets, seen_committed

DEFAULT_TRANSACTIONS: Final = 12
_PRODUCERS: Final = 2
_PARTITIONS: Final = 6
_IN_FLIGHT: Final = 5
_TRANSACTION_KEY: Final = 1
_GROUP_KEY: Final = 0
_FIRST_CLIENT: Final = 1_000
_TIMEOUT_MS: Final = 3_000
_BACKOFF_MS: Final = 100
_REST_MS: Final = 1_000
_MOST_RESTS: Final = 300
_WEATHERS: Final = (CALM, Weather(delay=0.05), Weather(delay=0.03, loss=0.005))
_SETTINGS: Final = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "request.timeout.ms": "1000",
    "controller.socket.timeout.ms": "1000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "100",
    "replica.lag.time.max.ms": "1500",
    "replica.socket.timeout.ms": "1000",
}

_RETRIED_BATCHES: Final = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
_RETRIED_BY_COORDINATOR: Final = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None when every check held."""

    trace: list[str]
    commits: int
    failure: str | None


@dataclass(slots=True, eq=False)
class Batch:
    """One record of one partition. `epoch` and `sequence` stay the same in a retry."""

    value: bytes
    sequence: int
    content: bytes
    is_in_flight: bool = False
    is_retried: bool = False


@dataclass(slots=True)
class Attempt:
    """One transaction."""

    number: int
    is_commit: bool
    offset: int | None
    is_ended: bool = False
    values: dict[int, list[bytes]] = field(default_factory=dict)
    """By partition, in order."""


class World:
    """A cluster, its producers, and what they have written."""

    def __init__(self, seed: int, transactions: int) -> None:
        self.lab = ClusterNodeLab(3, seed=seed, texts=_SETTINGS)
        self.time = self.lab.time
        self.trace: list[str] = []
        self._create()
        for name in range(_PRODUCERS):
            self._find(_GROUP_KEY, f"g{name}")
            self._find(_TRANSACTION_KEY, f"x{name}")
        self.time.weather = _WEATHERS[seed % len(_WEATHERS)]
        self.producers = [Producer(self, number, transactions) for number in range(_PRODUCERS)]

    def run(self) -> None:
        for _ in range(_MOST_RESTS):
            self.lab.run(_REST_MS)
            if all(each.is_done for each in self.producers):
                break
        for each in self.producers:
            check(each.is_done, f"{each.name} does not get on: {each.status}")
        self.time.weather = CALM
        self.lab.run(3 * _TIMEOUT_MS)
        self._check()

    def say(self, text: str) -> None:
        self.trace.append(f"{self.time.now_ms - 1_000_000:7} {text}")

    def _create(self) -> None:
        response = self.lab.nodes[0].ask(
            CreateTopicsRequest(topics=(topic(TOPIC, _PARTITIONS, 3),), timeout_ms=10_000),
            CreateTopicsResponse,
        )
        assert response.topics[0].error_code is ErrorCode.NONE, response

    def _find(self, key_type: int, key: str) -> None:
        """Have the internal topics created."""
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        self.lab.nodes[0].ask(request, FindCoordinatorResponse)

    def _check(self) -> None:
        """Every committed record is visible once and in order, and no other is."""
        for number in range(_PARTITIONS):
            leader = self.lab.nodes[self.lab.store.image.topics[TOPIC].partitions[number].leader]
            found = seen_committed(self.lab, TopicPartition(TOPIC, number), leader)
            for producer in self.producers:
                wanted = [
                    value
                    for attempt in producer.attempts
                    if attempt.is_commit
                    for value in attempt.values.get(number, ())
                ]
                prefix = f"{producer.name}.".encode()
                seen = [value for value in found.values() if value.startswith(prefix)]
                check(seen == wanted, f"{TOPIC}-{number}: {seen} and not {wanted}")
            check(b"late" not in found.values(), f"{TOPIC}-{number} has a late batch")
        groups = {producer.group: producer for producer in self.producers}
        offsets = committed_offsets(self.lab, [(group, 0) for group in groups])
        for group, producer in groups.items():
            committed = [each.offset for each in producer.attempts if each.is_commit]
            kept = [offset for offset in committed if offset is not None]
            wanted_offset = kept[-1] if kept else -1
            check(
                offsets.get((group, 0)) == wanted_offset,
                f"{group} has {offsets.get((group, 0))} and not {wanted_offset}",
            )


class Producer:
    """A transactional producer that pipelines, like Kafka's Java producer."""

    def __init__(self, world: World, number: int, transactions: int) -> None:
        self.name = f"x{number}"
        self.group = f"g{number}"
        self.attempts: list[Attempt] = []
        self.is_done = False
        self.status = "starts"
        self._world = world
        self._time = world.time
        self._rng = world.time.rand
        self._left = transactions
        self._ways = world.lab.network.join(NodeId(_FIRST_CLIENT + number), _deaf)
        self._producer_id, self._epoch = -1, -1
        self._coordinators: dict[int, NodeId] = {}
        self._in_flight: dict[NodeId, int] = {}
        self._queues: dict[int, deque[Batch]] = {}
        # Batches of the last transactions, to be sent once more when these have ended.
        self._old: list[tuple[int, bytes]] = []
        self._pending_offset: int | None = None
        self._is_offset_under_way = False
        self._is_ending = False
        self._time.after(1, self._initialise)

    # Requests to coordinators, one at a time.

    def _initialise(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=600_000)
        self._ask_coordinator(_TRANSACTION_KEY, self.name, request, self._initialised)

    def _initialised(self, response: Message) -> None:
        assert isinstance(response, InitProducerIdResponse)
        if self._must_retry(response.error_code, _TRANSACTION_KEY, self._initialise):
            return
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        self._begin()

    def _begin(self) -> None:
        if not self._left:
            self.is_done = True
            return
        self._left -= 1
        rng = self._rng
        attempt = Attempt(
            number=len(self.attempts),
            is_commit=rng.random() < 0.8,
            offset=len(self.attempts) if rng.random() < 0.6 else None,
        )
        self.attempts.append(attempt)
        self._say("begins")
        self._queues = {}
        numbers = rng.sample(range(_PARTITIONS), rng.randint(1, _PARTITIONS))
        for number in range(rng.randint(len(numbers), 3 * len(numbers))):
            self._put(attempt, numbers[number % len(numbers)], number)
        self._pending_offset = attempt.offset
        self._is_offset_under_way = self._is_ending = False
        if attempt.offset is not None and rng.random() < 0.7:
            self._commit_offset()
        self._go_on()

    def _put(self, attempt: Attempt, partition: int, number: int) -> None:
        value = f"{self.name}.{attempt.number}.{number}".encode()
        values = attempt.values.setdefault(partition, [])
        sequence = len(values)
        values.append(value)
        batch = Batch(value, sequence, self._batch(value, sequence))
        self._queues.setdefault(partition, deque()).append(batch)

    def _batch(self, value: bytes, sequence: int) -> bytes:
        return build_batch(
            [Record(key=None, value=value, timestamp=1_000_000)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def _commit_offset(self) -> None:
        offset = self._pending_offset
        assert offset is not None
        self._is_offset_under_way = True
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=(TxnOffsetCommitRequestTopic(name=TOPIC, partitions=(place,)),),
        )
        self._ask_coordinator(_GROUP_KEY, self.group, request, self._offset_committed)

    def _offset_committed(self, response: Message) -> None:
        assert isinstance(response, TxnOffsetCommitResponse)
        ((answer,),) = (each.partitions for each in response.topics)
        if self._must_retry(answer.error_code, _GROUP_KEY, self._commit_offset):
            return
        self._pending_offset = None
        self._go_on()

    def _end(self) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=self.attempts[-1].is_commit,
        )
        self._ask_coordinator(_TRANSACTION_KEY, self.name, request, self._ended)

    def _ended(self, response: Message) -> None:
        assert isinstance(response, EndTxnResponse)
        if self._must_retry(response.error_code, _TRANSACTION_KEY, self._end):
            return
        self.attempts[-1].is_ended = True
        self._say("ended")
        self._haunt(self.attempts[-1])
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        self._begin()

    def _ask_coordinator(
        self, key_type: int, key: str, request: Message, then: Callable[[Message], None]
    ) -> None:
        def again(_: HeadwaterError) -> None:
            self._coordinators.pop(key_type, None)
            self._time.after(
                _BACKOFF_MS, partial(self._ask_coordinator, key_type, key, request, then)
            )

        def found(response: Message) -> None:
            assert isinstance(response, FindCoordinatorResponse)
            (answer,) = response.coordinators
            if answer.error_code:
                self._time.after(
                    _BACKOFF_MS, partial(self._ask_coordinator, key_type, key, request, then)
                )
                return
            self._coordinators[key_type] = NodeId(answer.node_id)
            self._ask(NodeId(answer.node_id), request, then, again)

        known = self._coordinators.get(key_type)
        if known is not None:
            self._ask(known, request, then, again)
            return
        lookup = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        self._ask(NodeId(0), lookup, found, again)

    def _must_retry(self, code: ErrorCode, key_type: int, again: Callable[[], None]) -> bool:
        if not code:
            return False
        self._say(f"is told {code.name} by a coordinator")
        check(code in _RETRIED_BY_COORDINATOR, f"{self.name}: a transaction fails with {code.name}")
        if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
            self._coordinators.pop(key_type, None)
        self._time.after(_BACKOFF_MS, again)
        return True

    # Batches.

    def _send(self) -> None:
        """Fill the connections; like in the Java producer, a retrying partition sends one batch."""
        ready: dict[NodeId, list[tuple[int, Batch]]] = {}
        for partition, queue in self._queues.items():
            leader = self._leader_of(partition)
            retries = any(batch.is_retried for batch in queue)
            for batch in list(queue)[:1] if retries else queue:
                if not batch.is_in_flight:
                    ready.setdefault(leader, []).append((partition, batch))
        for leader, waiting in ready.items():
            batches = waiting
            while batches and self._in_flight.get(leader, 0) < _IN_FLIGHT:
                # Some of the partitions, the first waiting batch of each.
                first = dict(reversed(batches))
                chosen = list(first)
                while len(chosen) > 1 and self._rng.random() < 0.6:
                    chosen.pop(self._rng.randrange(len(chosen)))
                taken = {partition: first[partition] for partition in chosen}
                batches = [each for each in batches if taken.get(each[0]) is not each[1]]
                self._produce(leader, taken)

    def _produce(self, leader: NodeId, batches: dict[int, Batch]) -> None:
        for batch in batches.values():
            batch.is_in_flight = True
        self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
        contents = {number: batch.content for number, batch in batches.items()}
        self._ask(
            leader,
            self._request(contents),
            partial(self._written, leader, batches),
            partial(self._lost, leader, batches),
        )

    def _request(self, contents: dict[int, bytes]) -> ProduceRequest:
        data = tuple(
            PartitionProduceData(index=number, records=memoryview(bytearray(content)))
            for number, content in contents.items()
        )
        topic_id = self._world.lab.store.image.topics[TOPIC].topic_id
        return ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=(TopicProduceData(topic_id=topic_id, partition_data=data),),
        )

    def _written(self, leader: NodeId, batches: dict[int, Batch], response: Message) -> None:
        assert isinstance(response, ProduceResponse)
        self._in_flight[leader] -= 1
        for answer in response.responses[0].partition_responses:
            self._judge(answer.index, batches[answer.index], answer.error_code)
        self._go_on()

    def _judge(self, partition: int, batch: Batch, code: ErrorCode) -> None:
        queue = self._queues[partition]
        batch.is_in_flight = False
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            queue.remove(batch)
            self._old.append((partition, batch.content))
            return
        self._say(f"is told {code.name} about {batch.value.decode()} of {partition}")
        # Batches behind a retried one are out of order (KIP-360).
        is_behind = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue[0] is not batch
        check(
            is_behind or code in _RETRIED_BATCHES,
            f"{self.name}: a transaction fails with {code.name} for {batch.value!r}",
        )
        batch.is_retried = True

    def _lost(self, leader: NodeId, batches: dict[int, Batch], error: HeadwaterError) -> None:
        self._say(f"loses its connection to {leader}: {error}")
        self._in_flight[leader] -= 1
        for batch in batches.values():
            batch.is_in_flight, batch.is_retried = False, True
        self._go_on(_BACKOFF_MS)

    def _go_on(self, delay_ms: int = 0) -> None:
        """Continue this transaction, soon."""
        turn = partial(self._turn, self.attempts[-1])
        self._time.after(delay_ms + self._rng.randrange(3), turn)

    def _turn(self, attempt: Attempt) -> None:
        if attempt is not self.attempts[-1] or self._is_ending:
            return
        if any(self._queues.values()):
            self._send()
        elif self._pending_offset is None:
            self._is_ending = True
            self._end()
        elif not self._is_offset_under_way:
            self._commit_offset()

    def _haunt(self, attempt: Attempt) -> None:
        """Send a batch of an ended transaction late, and ignore the response.

        Either a copy of one that was written, or the first one for a partition that no marker was
        written to, which would open a transaction that never ends (KIP-890).
        """
        late, self._old = self._old, []
        chance = self._rng.random()
        untouched = [number for number in range(_PARTITIONS) if number not in attempt.values]
        if chance < 0.2:
            partition, content = self._rng.choice(late)
        elif chance < 0.6 and untouched:
            partition = self._rng.choice(untouched)
            content = self._batch(b"late", 0)
        else:
            return
        self._ways.send_request(
            self._leader_of(partition),
            self._request({partition: content}),
            purpose=Purpose.TRANSACTION,
            timeout_ms=_TIMEOUT_MS,
            then=_ignore,
            on_error=_ignore,
        )

    def _ask(
        self,
        node_id: NodeId,
        request: Message,
        then: Callable[[Message], None],
        on_error: Callable[[HeadwaterError], None],
    ) -> None:
        self.status = f"waits for {type(request).__name__}"
        is_produce = isinstance(request, ProduceRequest)
        self._ways.send_request(
            node_id,
            request,
            purpose=Purpose.TO_CONTROLLER if is_produce else Purpose.CONTROL,
            timeout_ms=_TIMEOUT_MS,
            then=then,
            on_error=on_error,
        )

    def _leader_of(self, partition: int) -> NodeId:
        return self._world.lab.store.image.topics[TOPIC].partitions[partition].leader

    def _say(self, text: str) -> None:
        number = len(self.attempts) - 1
        self._world.say(f"{self.name} (epoch {self._epoch}, transaction {number}) {text}")


def run(seed: int, *, transactions: int = DEFAULT_TRANSACTIONS) -> Outcome:
    """Run one seed and report how it ended."""
    world = World(seed, transactions)
    failure: str | None = None
    try:
        world.run()
    except Exception:  # noqa: BLE001, whatever the code under test raises is the finding
        failure = traceback.format_exc()
    commits = sum(
        attempt.is_commit and attempt.is_ended
        for producer in world.producers
        for attempt in producer.attempts
    )
    return Outcome(trace=world.trace, commits=commits, failure=failure)


def _deaf(_: NodeId, __: Message, ___: Reply) -> None:
    """Clients serve no requests."""


def _ignore(_: object) -> None:
    """The response does not matter."""
