"""Producer ids of a broker: the current block, and early requests for the next one."""

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
        self, *, then: Callable[[AllocateProducerIdsResponse], None], on_error: Failed
    ) -> None:
        self.asked.append((then, on_error))

    def answer(self) -> None:
        then, _ = self.asked.pop()
        start, self._next = self._next, self._next + BLOCK
        then(AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK))

    def fail(self) -> None:
        _, on_error = self.asked.pop()
        on_error(ControllerFenced("gone"))


def test_requests_before_the_first_block_share_it() -> None:
    controller = Controller()
    block = ProducerIdManager(controller.allocate)
    taken: list[int] = []
    for _ in range(3):
        block.generate(taken.append)
    assert (taken, len(controller.asked)) == ([], 1)
    controller.answer()
    assert taken == [0, 1, 2]


def test_requests_beyond_a_block_wait_for_the_next() -> None:
    controller = Controller()
    block = ProducerIdManager(controller.allocate)
    taken: list[int] = []
    for _ in range(BLOCK + 1):
        block.generate(taken.append)
    controller.answer()
    assert len(taken) == BLOCK
    controller.answer()
    assert taken == list(range(BLOCK + 1))


def test_next_block_is_requested_while_some_ids_are_left() -> None:
    controller = Controller()
    block = ProducerIdManager(controller.allocate)
    block.prepare()
    controller.answer()
    taken: list[int] = []
    for _ in range(BLOCK - LOW):
        block.generate(taken.append)
    assert controller.asked == []
    block.generate(taken.append)
    assert len(controller.asked) == 1
    # The controller is unavailable, and ids are still allocated.
    controller.fail()
    for _ in range(LOW - 1):
        block.generate(taken.append)
    assert taken == list(range(BLOCK))


def test_failed_allocation_fails_waiting_requests_and_can_be_retried() -> None:
    controller = Controller()
    block = ProducerIdManager(controller.allocate)
    taken: list[int] = []
    block.generate(taken.append)
    controller.fail()
    assert taken == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    block.generate(taken.append)
    controller.answer()
    assert taken[1:] == [0]
