"""What the handlers of group APIs have in common: rights, the way to a shard, and back.

A request about one group goes to its shard. One about many is split into one for each group, since
each may have a shard of its own, and the answers are put together in the order of the request.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.coordinator.hosted_shard import Outcome
from headwater.model.errors import ErrorCode
from headwater.security.authorization import Operation, Resource, ResourceKind
from headwater.wire.lifting import Message

T = TypeVar("T")


def may_group(broker: Broker, call: Call, operation: Operation, group_id: str) -> bool:
    return broker.may(call, operation, Resource(ResourceKind.GROUP, group_id))


def ask_member(
    broker: Broker,
    call: Call,
    request: Message,
    group_id: str,
    refused: Callable[[ErrorCode], Message],
) -> Message | None:
    """Pass on what a member of a group asks, if it may read with that group (AC-4)."""
    if not may_group(broker, call, Operation.READ, group_id):
        call.note_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    broker.groups.ask(group_id, request, call, answering(call, refused))
    return None


def topic_error(broker: Broker, call: Call, topic: str) -> ErrorCode | None:
    """Why offsets of a topic are not for this caller to set, or for anybody."""
    if not broker.may_topic(call, Operation.READ, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic not in broker.image.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


def answering(call: Call, refused: Callable[[ErrorCode], Message]) -> Callable[[Outcome], None]:
    """Answers a call with a response, or with what an error makes of it."""

    def answer(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.note_error(outcome)
            outcome = refused(outcome)
        call.answer(outcome)

    return answer


class Gathering(Generic[T]):
    """Answers that come one by one and leave together."""

    def __init__(self, count: int, done: Callable[[Sequence[T]], None]) -> None:
        self._parts: list[T | None] = [None] * count
        self._missing = count
        self._done = done

    def put(self, index: int, part: T) -> None:
        assert self._parts[index] is None, "answered twice"
        self._parts[index] = part
        self._missing -= 1
        if not self._missing:
            self._done([each for each in self._parts if each is not None])
