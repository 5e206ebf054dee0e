"""Transactions on whole brokers that are killed and restarted, from one seed.

Producers of both transaction versions write, commit, abort, give up and return as zombies, while
jobs of the broker's threads are held back and the broker is killed at any moment.

Note: a killed broker keeps what it has written, as the page cache does; power cuts are simulated by
the storage simulator. At the end, a transaction must be visible as a whole or not at all: as a
whole if its producer was told that it committed, not at all if it was told that it aborted, and
either if there was no response.
"""

import random
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.metadata.changes import ConfigsReplaced
from headwater.metadata.cluster_image import ConfigResource
from headwater.metadata.internal_topics import TRANSACTION_STATE
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headwater.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from headwater.protocol.older_versions import Message
from headwater.records.batch_header import read_header
from headwater.records.control_batches import read_control
from headwater.records.record_reader import read_records
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.labs.broker_lab import BrokerLab, Peer, R, Sent
from tests.simulation.labs.transaction_client import (
    ABORTABLE,
    GROUPS,
    NEW,
    OLD,
    TIMEOUT_MS,
    TRANSACTIONS,
    LabProducer,
    codes,
    end_offset,
    find,
    stable_offset,
)

TOPIC: Final = "t"
GROUP: Final = "g"
PARTITIONS: Final = 3
_SETTINGS: Final = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}
DEFAULT_STEPS: Final = 300
_AGAIN: Final = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None if every check held."""

    trace: list[str]
    commits: int
    failure: str | None


def run(seed: int, *, steps: int = DEFAULT_STEPS) -> Outcome:
    """Run one seed."""
    world = World(seed)
    failure: str | None = None
    try:
        world.run(steps)
        world.check()
    except Exception:  # noqa: BLE001, whatever the code under test raises is the finding
        failure = traceback.format_exc()
    commits = sum(attempt.is_committed is True for attempt in world.attempts)
    return Outcome(trace=world.trace, commits=commits, failure=failure)


@dataclass(slots=True)
class Attempt:
    """One transaction, as its producer knows it."""

    number: int
    acknowledged: list[tuple[int, bytes]] = field(default_factory=list)
    """Partition and value of what was certainly written."""
    sent: list[Sent] = field(default_factory=list)
    is_committed: bool | None = None
    """Whether it was committed, as far as the coordinator has answered."""
    is_ended: bool = False
    """Whether its end was requested, with any outcome."""
    wants_commit: bool = False


@dataclass(slots=True)
class Life:
    """One producer: its next step depends on its last ones."""

    producer: LabProducer
    is_new: bool
    attempt: Attempt | None = None
    sequences: dict[int, int] = field(default_factory=dict)
    added: dict[int, None] = field(default_factory=dict)
    is_ready: bool = False


class _PatientLab(BrokerLab):
    """Requests wait while the threads work."""

    held: HeldExecutor

    def ask(
        self,
        request: Message,
        shape: type[R],
        version: int | None = None,
        peer: Peer | None = None,
    ) -> R:
        sent = self.send(request, version, peer)
        while not sent.is_answered and self.held.step():
            pass
        return sent.answer(shape)


def _started(executor: HeldExecutor, disk: LossyDisk | None = None) -> _PatientLab:
    lab = _PatientLab(_SETTINGS, executor=executor, disk=disk)
    lab.held = executor
    return lab


class World:
    """A broker, its producers, and all responses they got.

    Of every three seeds, one lets the coordinator's log wait for its disk, so that much may happen
    between request and response, and one the log of the topic, and so its markers.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.trace: list[str] = []
        self.executor = HeldExecutor(self.rng)
        self.lab = _started(self.executor)
        self.lab.create(TOPIC, PARTITIONS)
        find(self.lab, GROUP, GROUPS)
        find(self.lab, "any", TRANSACTIONS)
        slow = (None, TRANSACTION_STATE, TOPIC)[seed % 3]
        if slow is not None:
            resource = ConfigResource(ResourceType.TOPIC, slow)
            self.lab.change(ConfigsReplaced(resource, {"flush.messages": "2"}))
        self.attempts: list[Attempt] = []
        # Producers that committed an offset, their own number, in log order.
        self.offsets: list[Attempt] = []
        self.lives = [self._life(number) for number in range(3)]
        self.zombies: list[Life] = []
        self.deaths = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._step()
        self._settle()

    def _step(self) -> None:
        rng = self.rng.random()
        if rng < 0.35:
            self.executor.step()
        elif rng < 0.40:
            self.lab.pass_time(self.rng.choice((1, 20, 100)))
        elif rng < 0.41:
            self._kill()
        elif rng < 0.42:
            self.lab.pass_time(TIMEOUT_MS)
        elif rng < 0.46 and self.zombies:
            self._haunt(self.rng.choice(self.zombies))
        else:
            self._live(self.rng.choice(self.lives))

    # Producers.

    def _live(self, life: Life) -> None:
        if not life.is_ready:
            self._begin(life)
        elif life.attempt is None:
            life.attempt = Attempt(len(self.attempts))
            self.attempts.append(life.attempt)
        else:
            self._go_on(life, life.attempt)

    def _go_on(self, life: Life, attempt: Attempt) -> None:
        rng = self.rng.random()
        if rng < 0.6:
            self._send(life, attempt)
        elif rng < 0.7:
            self._commit_offset(life, attempt)
        elif rng < 0.95:
            self._end(life, attempt, committed=self.rng.random() < 0.7)
        else:
            self._succeed(life)

    def _begin(self, life: Life) -> None:
        code = life.producer.begin()
        self._say(life, f"begins: {code.name}")
        if code is ErrorCode.NONE:
            life.is_ready = True
            life.sequences, life.added, life.attempt = {}, {}, None
        else:
            assert code in (*_AGAIN, ErrorCode.NOT_COORDINATOR), code

    def _send(self, life: Life, attempt: Attempt) -> None:
        partition = self.rng.randrange(PARTITIONS)
        producer, version = life.producer, NEW
        if not life.is_new:
            version = self.rng.choice((OLD, ABORTABLE))
            if partition not in life.added:
                if producer.add(TOPIC, partition) != [ErrorCode.NONE]:
                    return
                life.added[partition] = None
        sequence = life.sequences.get(partition, 0)
        value = b"%d.%d" % (attempt.number, len(attempt.sent))
        self._say(life, f"sends {value.decode()} to {partition}, sequence {sequence}")
        sent = producer.send(TOPIC, sequence, version, value=value, partitions=(partition,))
        attempt.sent.append(sent)
        # Held back for a while: a producer has many batches in flight.
        while not sent.is_answered and self.rng.random() < 0.9:
            if not self.executor.step():
                self.lab.pass_time(20)
        if sent.is_answered and codes(sent) == [ErrorCode.NONE]:
            attempt.acknowledged.append((partition, value))
            life.sequences[partition] = sequence + 1
        else:
            # It is unknown whether it is written, so the transaction cannot be committed.
            self._end(life, attempt, committed=False)
            if not life.is_new:
                # Nor is the next sequence known, so a client requests another epoch (KIP-360).
                life.is_ready = False

    def _commit_offset(self, life: Life, attempt: Attempt) -> None:
        if not life.is_new:
            return
        self._say(life, f"commits offset {attempt.number}")
        sent = life.producer.commit_offset(GROUP, TOPIC, attempt.number)
        while not sent.is_answered and self.executor.step():
            pass
        if not sent.is_answered:
            self._end(life, attempt, committed=False)
            return
        (topic,) = sent.answer(TxnOffsetCommitResponse).topics
        if topic.partitions[0].error_code is ErrorCode.NONE:
            self.offsets.append(attempt)
        else:
            self._end(life, attempt, committed=False)

    def _end(self, life: Life, attempt: Attempt, *, committed: bool) -> None:
        producer = life.producer
        attempt.is_ended, attempt.wants_commit = True, committed
        self._say(life, f"{'commits' if committed else 'aborts'} {attempt.number}")
        request = EndTxnRequest(
            transactional_id=producer.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=committed,
        )
        version = 5 if life.is_new else 4
        sent = self.lab.send(request, version)
        while not sent.is_answered and self.executor.step():
            pass
        life.attempt = None
        if not sent.is_answered:
            self._retire(life)
            return
        answer = sent.answer(EndTxnResponse)
        if answer.error_code is ErrorCode.NONE:
            attempt.is_committed = committed
            life.added = {}
            if life.is_new:
                producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch
                life.sequences = {}
            return
        if answer.error_code is ErrorCode.INVALID_TXN_STATE and not attempt.acknowledged:
            # Nothing was written, so there was nothing to end.
            attempt.is_committed = False
        self._retire(life)

    def _succeed(self, life: Life) -> None:
        """Another one takes over; this one does not know yet."""
        self._retire(life)

    def _retire(self, life: Life) -> None:
        self._say(life, "goes, and leaves a zombie")
        old = life.producer
        ghost = LabProducer(self.lab, old.name, old.producer_id, old.epoch)
        self.zombies.append(Life(ghost, life.is_new, sequences=dict(life.sequences)))
        del self.zombies[:-4]
        life.is_ready, life.attempt = False, None

    def _haunt(self, zombie: Life) -> None:
        """A late batch whose response is ignored."""
        partition = self.rng.randrange(PARTITIONS)
        sequence = zombie.sequences.get(partition, 0)
        version = NEW if zombie.is_new else OLD
        zombie.producer.lab = self.lab
        zombie.producer.send(TOPIC, sequence, version, value=b"zombie", partitions=(partition,))

    def _say(self, life: Life, text: str) -> None:
        now_ms = self.lab.clock.steady_ms()
        self.trace.append(f"{now_ms:8} {life.producer.name} (epoch {life.producer.epoch}) {text}")

    # The broker.

    def _kill(self) -> None:
        self.deaths += 1
        self.trace.append("the broker is killed")
        self.executor = HeldExecutor(self.rng)
        now_ms = self.lab.clock.steady_ms()
        self.lab = _started(self.executor, self.lab.disk.process_crash())
        self.lab.clock.move(now_ms)
        for life in self.lives:
            life.producer.lab = self.lab
        self._load()

    def _load(self) -> None:
        self.lab.broker.groups.load_some(1_000)
        self.lab.broker.transactions.load_some(1_000)

    def _settle(self) -> None:
        """Every open transaction times out."""
        for _ in range(4):
            self._load()
            self.executor.finish()
            self.lab.pass_time(TIMEOUT_MS)
            self.executor.finish()
        for life in self.lives:
            assert life.producer.state not in ("Ongoing", "PrepareCommit", "PrepareAbort")

    def _life(self, number: int) -> Life:
        return Life(LabProducer(self.lab, f"id-{number}"), is_new=number != 1)

    # Final checks.

    def check(self) -> None:
        for partition in range(PARTITIONS):
            assert stable_offset(self.lab, TOPIC, partition) == end_offset(
                self.lab, TOPIC, partition
            ), "a transaction hangs"
        seen = [
            (partition, value)
            for partition in range(PARTITIONS)
            for value in self._committed(partition)
        ]
        assert len(seen) == len(set(seen)), "something is there twice"
        for attempt in self.attempts:
            self._check(attempt, [each for each in seen if _attempt_of(each[1]) == attempt.number])
        assert all(_attempt_of(value) is not None for _, value in seen), (
            "a record of a zombie is visible"
        )
        self._check_offset()

    def _check_offset(self) -> None:
        """The last committed one counts (TX-12)."""
        may_be = {-1}
        for attempt in self.offsets:
            if attempt.is_committed is True:
                may_be = {attempt.number}
            elif attempt.is_committed is None and attempt.is_ended and attempt.wants_commit:
                may_be.add(attempt.number)
        asked = OffsetFetchRequestGroup(
            group_id=GROUP,
            topics=(OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,)),),
        )
        request = OffsetFetchRequest(groups=(asked,), require_stable=True)
        answer = self.lab.ask(request, OffsetFetchResponse, 9)
        (found,) = answer.groups[0].topics[0].partitions
        assert found.error_code is ErrorCode.NONE, "offsets hang"
        assert found.committed_offset in may_be, f"{found.committed_offset}, not {may_be}"

    def _check(self, attempt: Attempt, visible: list[tuple[int, bytes]]) -> None:
        wanted = sorted(attempt.acknowledged)
        if attempt.is_committed is True:
            assert sorted(visible) == wanted, f"{attempt.number} is not whole"
        elif attempt.is_committed is False or not (attempt.is_ended and attempt.wants_commit):
            assert not visible, f"{attempt.number} was never committed"
        else:
            assert sorted(visible) in ([], wanted), f"{attempt.number} is seen in part"

    def _committed(self, partition: int) -> Iterator[bytes]:
        """What a read_committed consumer reads (TX-16)."""
        place = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 24)
        request = FetchRequest(
            max_bytes=1 << 24,
            min_bytes=0,
            isolation_level=1,
            topics=(FetchTopic(topic=TOPIC, partitions=(place,)),),
        )
        sent = self.lab.send(request, 12)
        self.executor.finish()
        return _visible(sent.answer(FetchResponse).responses[0].partitions[0])


def _visible(found: PartitionData) -> Iterator[bytes]:
    aborted = sorted(
        (each.first_offset, each.producer_id) for each in found.aborted_transactions or ()
    )
    content = found.records
    assert isinstance(content, memoryview)
    hidden: dict[int, None] = {}
    position = 0
    while position < len(content):
        header = read_header(content, position)
        while aborted and aborted[0][0] <= header.last_offset:
            hidden[aborted.pop(0)[1]] = None
        if header.is_control:
            control = read_control(content, header, position)
            if control is not None and control.is_abort:
                hidden.pop(header.producer_id, None)
        elif header.producer_id not in hidden:
            yield from (each.value or b"" for each in read_records(content, header, position))
        position += header.size_bytes


def _attempt_of(value: bytes) -> int | None:
    first = value.partition(b".")[0]
    return int(first) if first.isdigit() else None
