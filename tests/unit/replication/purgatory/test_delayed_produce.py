"""Delayed produces: MIN-2."""

from headwater.common.error_codes import ErrorCode
from headwater.replication.purgatory.delayed_produce import DelayedProducePurgatory


class Writer:
    def __init__(self, waits: DelayedProducePurgatory, offset: int) -> None:
        self.codes: list[ErrorCode] = []
        waits.add(self, offset)

    def committed(self, code: ErrorCode) -> None:
        self.codes.append(code)


def test_entries_up_to_the_high_watermark_complete() -> None:
    waits = DelayedProducePurgatory()
    one, two, three = Writer(waits, 3), Writer(waits, 5), Writer(waits, 9)
    waits.check_and_complete(5, ErrorCode.NONE)
    assert (one.codes, two.codes, three.codes) == ([ErrorCode.NONE], [ErrorCode.NONE], [])
    waits.check_and_complete(9, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert three.codes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert len(waits) == 0


def test_a_duplicate_batch_does_not_wait_for_earlier_entries() -> None:
    waits = DelayedProducePurgatory()
    late, repeated, latest = Writer(waits, 9), Writer(waits, 3), Writer(waits, 12)
    waits.check_and_complete(4, ErrorCode.NONE)
    assert (late.codes, repeated.codes, latest.codes) == ([], [ErrorCode.NONE], [])
    waits.check_and_complete(9, ErrorCode.NONE)
    assert (late.codes, latest.codes) == ([ErrorCode.NONE], [])


def test_an_entry_that_left_is_not_completed() -> None:
    waits = DelayedProducePurgatory()
    one, two = Writer(waits, 1), Writer(waits, 2)
    waits.remove(one)
    waits.remove(one)
    waits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (one.codes, two.codes) == ([], [ErrorCode.NOT_LEADER_OR_FOLLOWER])


def test_a_completed_entry_may_wait_again_at_once() -> None:
    waits = DelayedProducePurgatory()

    class Again(Writer):
        def committed(self, code: ErrorCode) -> None:
            super().committed(code)
            waits.add(self, 100)

    again = Again(waits, 1)
    waits.check_and_complete(1, ErrorCode.NONE)
    waits.check_and_complete(50, ErrorCode.NONE)
    assert (again.codes, len(waits)) == ([ErrorCode.NONE], 1)
