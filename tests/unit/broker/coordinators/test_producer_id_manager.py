"""Producer ids of one broker: a block in hand, and the next one before it is used up."""

from collections.abc import Callable

from headwater.broker.coordinators.producer_id_manager import LOW, ProducerIdManager
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ControllerFenced
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse

BLOCK = 1_000


class Controller:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Callable[[AllocateProducerIdsResponse], None], Failed]] = []
        self._next = 0

    def allocate(
        self, *, then: Callable[[AllocateProducerIdsResponse], None], otherwise: Failed
    ) -> None:
        self.asked.append((then, otherwise))

    def answer(self) -> None:
        then, _ = self.asked.pop()
        start, self._next = self._next, self._next + BLOCK
        then(AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK))

    def fail(self) -> None:
        _, otherwise = self.asked.pop()
        otherwise(ControllerFenced("gone"))


def test_requests_that_come_before_a_block_share_it() -> None:
    controller = Controller()
    block = ProducerIdManager(controller.allocate)
    taken: list[int] = []
    for _ in range(3):
        block.take(taken.append)
    assert (taken, len(controller.asked)) == ([], 1)
    controller.answer()
    assert taken == [0, 1, 2]


def test_more_requests_than_a_block_has_wait_for_the_next() -> None:
    controller = Controller()
    block = ProducerIdManager(controller.allocate)
    taken: list[int] = []
    for _ in range(BLOCK + 1):
        block.take(taken.append)
    controller.answer()
    assert len(taken) == BLOCK
    controller.answer()
    assert taken == list(range(BLOCK + 1))


def test_the_next_block_is_asked_for_while_some_ids_are_left() -> None:
    controller = Controller()
    block = ProducerIdManager(controller.allocate)
    block.prepare()
    controller.answer()
    taken: list[int] = []
    for _ in range(BLOCK - LOW):
        block.take(taken.append)
    assert controller.asked == []
    block.take(taken.append)
    assert len(controller.asked) == 1
    # The controller is away, and ids go on being handed out.
    controller.fail()
    for _ in range(LOW - 1):
        block.take(taken.append)
    assert taken == list(range(BLOCK))


def test_whoever_waits_for_a_block_that_does_not_come_is_told_so_and_may_ask_again() -> None:
    controller = Controller()
    block = ProducerIdManager(controller.allocate)
    taken: list[int] = []
    block.take(taken.append)
    controller.fail()
    assert taken == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    block.take(taken.append)
    controller.answer()
    assert taken[1:] == [0]
