"""All components of the transactions simulator, and their faults."""

from collections.abc import Callable
from functools import partial

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, ProducerId, TopicPartition
from headwater.coordinator.runtime.coordinator_effects import MarkersAnswered, SendMarkers
from headwater.coordinator.transaction.transaction_marker_delivery import (
    MarkerResponses,
    NoLeader,
    address,
    failed,
    outcomes_of,
    request_of,
)
from headwater.coordinator.transaction.transaction_metadata import TransactionMetadata
from headwater.coordinator.transaction.transaction_settings import TransactionSettings
from headwater.coordinator.transaction.transaction_states import TransactionState
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headwater.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from headwater.protocol.older_versions import Message
from tests.simulation.worlds.transaction_checks import Knowledge
from tests.simulation.worlds.transaction_coordinator import Ask, SimCoordinator, encoded
from tests.simulation.worlds.transaction_network import CALM, World, send
from tests.simulation.worlds.transaction_partition import Batch, Marker, SimPartition
from tests.simulation.worlds.transaction_producer import (
    Answer,
    Attempt,
    Life,
    Pause,
    Send,
    SimProducer,
    code_of_addition,
)

_TIMEOUTS_MS = (2_000, 6_000)
_CALM_MS = 60_000
_STEP_MS = 500
_BUSY_MS = 3_000
_BUSY = 0.1


class TransactionLives:
    """One coordinator, a few partitions on two leaders, and producers with their zombies."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        rng = self.world.rng
        self.version = rng.choice((1, 2))
        settings = TransactionSettings(
            max_timeout_ms=900_000,
            expiration_ms=604_800_000,
            offsets_partition_count=50,
            server_version=2 if self.version == 2 else rng.choice((0, 2)),
        )
        self.coordinator = SimCoordinator(self.world, settings, self._send_markers)
        names = [TopicPartition("t", number) for number in range(rng.randint(2, 5))]
        self.partitions = {
            name: SimPartition(name, NodeId(name.partition % 2), self._verify) for name in names
        }
        self.ids = [f"tx-{number}" for number in range(rng.randint(1, 4))]
        self.attempts: list[Attempt] = []
        self._producers = 0
        self._alive: dict[str, int] = dict.fromkeys(self.ids, 0)
        self._is_calm = False

    def run(self, lasting_ms: int) -> None:
        if self.world.happens(0.3):
            self._use_up_epochs()
        self.coordinator.start()
        for transactional_id in self.ids:
            self._start_producer(transactional_id)
        end_ms = self.world.now_ms + lasting_ms
        while self.world.now_ms < end_ms:
            self.world.run(self.world.now_ms + _STEP_MS)
            self._mishap()
        self._calm_down()

    def knowledge(self) -> Knowledge:
        return Knowledge(
            attempts=self.attempts,
            partitions=list(self.partitions.values()),
            log=self.coordinator.log,
            states=self.coordinator.states,
            coordinator_lives=self.coordinator.life,
        )

    def _use_up_epochs(self) -> None:
        """Start where a producer id has few epochs left."""
        for number, transactional_id in enumerate(self.ids):
            known = TransactionMetadata(
                transactional_id=transactional_id,
                producer_id=ProducerId(number),
                producer_epoch=self.world.rng.randint(32_740, 32_766),
                timeout_ms=5_000,
                state=TransactionState.EMPTY,
                last_update_ms=self.world.now_ms,
            )
            self.coordinator.log.append(encoded(known.record()))

    def _mishap(self) -> None:
        world, rng = self.world, self.world.rng
        # It crashes most often at critical moments.
        chance = 0.3 if self.coordinator.has_uncommitted else 0.03
        if self.coordinator.is_up and world.happens(chance):
            self.coordinator.crash()
            world.after(rng.randint(0, 2_000), self.coordinator.start)
        if world.happens(0.05):
            partition = rng.choice(list(self.partitions.values()))
            partition.is_led = False
            world.say(f"{partition.name} has no leader")
            world.after(rng.randint(0, 3_000), lambda: _lead(partition))
        if world.happens(0.06):
            self._start_producer(rng.choice(self.ids))
        if world.happens(0.005):
            partition = rng.choice(list(self.partitions.values()))
            partition.is_deleted = True
            world.say(f"{partition.name} is deleted")

    def _calm_down(self) -> None:
        """No new transactions, no faults; what is open has to end by itself."""
        self._is_calm = True
        self.world.faults = CALM
        self.coordinator.append_failures = 0
        for partition in self.partitions.values():
            partition.is_led = True
        self.world.run(self.world.now_ms + _CALM_MS)
        if not self.coordinator.is_up:
            self.coordinator.start()
            self.world.run(self.world.now_ms + _CALM_MS)

    def _start_producer(self, transactional_id: str) -> None:
        """A new process. A live one with the same id does not know of it."""
        if self._is_calm:
            return
        self._producers += 1
        self._alive[transactional_id] += 1
        number, rng = self._producers, self.world.rng
        producer = SimProducer(
            self.world,
            transactional_id,
            self.version,
            tuple(self.partitions),
            self._begin_attempt,
            rng.randint(*_TIMEOUTS_MS),
        )
        self.world.say(f"producer {number} begins as {transactional_id}")
        dies_ms = self.world.now_ms + (rng.randint(100, 8_000) if rng.random() < 0.3 else 10**9)
        self._go_on(producer, producer.live(), None, dies_ms)

    def _go_on(self, producer: SimProducer, life: Life, answer: Answer, dies_ms: int) -> None:
        """One more step of a producer, if it lives; its successor starts when it is gone."""
        if self._is_calm:
            return
        if self.world.now_ms >= dies_ms:
            self.world.say(f"a producer of {producer.transactional_id} dies")
            self._succeed(producer)
            return
        try:
            action = life.send(answer)
        except StopIteration:
            self._succeed(producer)
            return

        def then(answer: Answer) -> None:
            self._go_on(producer, life, answer, dies_ms)

        match action:
            case Pause():
                self.world.after(action.for_ms, lambda: then(None))
            case Ask():
                self._ask(action, then, may_be_late=producer.is_newer)
            case Send():
                self._produce(action, then, may_be_late=producer.is_newer)

    def _succeed(self, producer: SimProducer) -> None:
        """The process is started again, unless another one does the work."""
        self._alive[producer.transactional_id] -= 1
        if self._alive[producer.transactional_id]:
            return
        delay_ms = self.world.rng.randint(0, 1_500)
        self.world.after(delay_ms, lambda: self._start_producer(producer.transactional_id))

    def _begin_attempt(self, transactional_id: str) -> Attempt:
        self.attempts.append(Attempt(len(self.attempts), transactional_id))
        return self.attempts[-1]

    def _ask(self, ask: Ask, done: Callable[[Message | None], None], *, may_be_late: bool) -> None:
        send(self.world, self.coordinator.serve, ask, done, may_be_late=may_be_late)

    def _produce(self, action: Send, done: Callable[[Answer], None], *, may_be_late: bool) -> None:
        partition = self.partitions[action.partition]

        def serve(batch: Batch, answer: Callable[[ErrorCode], None]) -> None:
            partition.produce(batch, answer, self.world.now_ms)

        send(self.world, serve, action.batch, done, may_be_late=may_be_late)

    def _verify(
        self, batch: Batch, partition: TopicPartition, done: Callable[[ErrorCode], None]
    ) -> None:
        """A leader verifies a first batch."""
        topic = AddPartitionsToTxnTopic(name=partition.topic, partitions=(partition.partition,))
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=batch.transactional_id,
            producer_id=batch.producer_id,
            producer_epoch=batch.epoch,
            verify_only=batch.question.is_verify_only,
            topics=(topic,),
        )

        # The leader may be busy when the response arrives, and the transaction over when it looks.
        busy_ms = self.world.rng.randint(0, _BUSY_MS) if self.world.happens(_BUSY) else 0

        def answered(answer: Message | None) -> None:
            code = code_of_addition(answer) or _silence(answer)
            self.world.after(busy_ms, lambda: done(code))

        ask = Ask(AddPartitionsToTxnRequest(transactions=(transaction,)), 5)
        self._ask(ask, answered, may_be_late=self.version == 2)

    def _send_markers(
        self, sending: SendMarkers, answered: Callable[[MarkersAnswered], None]
    ) -> None:
        addressed = address([sending], self._leader_of, now_ms=self.world.now_ms)
        for event in addressed.answered:
            self.world.after(0, partial(answered, event))
        for parts in addressed.by_leader.values():
            self._send_to_leader(parts, answered)

    def _send_to_leader(
        self, parts: list[SendMarkers], answered: Callable[[MarkersAnswered], None]
    ) -> None:
        def done(response: WriteTxnMarkersResponse | None) -> None:
            now_ms = self.world.now_ms
            if response is None:
                events = failed(parts, now_ms=now_ms)
            else:
                events = outcomes_of(parts, response, now_ms=now_ms)
            for event in events:
                answered(event)

        send(self.world, self._write_markers, parts, done, may_be_late=self.version == 2)

    def _write_markers(
        self, parts: list[SendMarkers], answer: Callable[[WriteTxnMarkersResponse], None]
    ) -> None:
        request = request_of(parts)
        answers = MarkerResponses(request)
        for place, name in answers.missing():
            sent = request.markers[place]
            marker = Marker(
                client_version=parts[place].client_version,
                producer_id=sent.producer_id,
                epoch=sent.producer_epoch,
                coordinator_epoch=sent.coordinator_epoch,
                is_commit=sent.transaction_result,
            )
            code = self.partitions[name].write_marker(marker)
            self.world.say(f"marker {marker} for {name}: {code.name}")
            answers.add(place, name, code)
        answer(answers.response())

    def _leader_of(self, name: TopicPartition) -> NodeId | NoLeader:
        partition = self.partitions[name]
        if partition.is_deleted:
            return NoLeader.DELETED
        return partition.leader if partition.is_led else NoLeader.UNKNOWN_FOR_NOW


def _lead(partition: SimPartition) -> None:
    partition.is_led = True


def _silence(answer: Message | None) -> ErrorCode:
    return ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode.NONE
