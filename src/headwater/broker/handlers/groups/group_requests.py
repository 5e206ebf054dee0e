"""Shared parts of the group APIs: authorization and coordinator requests.

A request about one group goes to its coordinator shard. A request about many groups is split into
one per shard, and the responses are joined in the order of the request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.protocol.older_versions import Message
from headwater.security.authorization.authorizer import (
    Operation,
    Resource,
    ResourceKind,
    operations_allowed,
)

T = TypeVar("T")


def is_authorized_for_group(
    broker: Broker, call: Call, operation: Operation, group_id: str
) -> bool:
    return broker.is_authorized(call, operation, Resource(ResourceKind.GROUP, group_id))


def operations_on_group(broker: Broker, call: Call, group_id: str) -> int:
    """Return the bit field of authorized operations (AC-6)."""
    resource = Resource(ResourceKind.GROUP, group_id)
    return operations_allowed(broker.authorizer, call.requester, resource)


def handle_member_request(
    broker: Broker,
    call: Call,
    request: Message,
    group_id: str,
    error_result: Callable[[ErrorCode], Message],
) -> Message | None:
    """Pass a member's request to the coordinator, if it has Read on the group (AC-4)."""
    if not is_authorized_for_group(broker, call, Operation.READ, group_id):
        call.record_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return error_result(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    sees = partial(broker.is_allowed_for_topic, call, Operation.DESCRIBE)
    broker.groups.handle_request(
        group_id, request, call, response_callback(call, error_result), sees
    )
    return None


def topic_error(broker: Broker, call: Call, topic: str) -> ErrorCode | None:
    """Return the error for committing offsets of a topic, if any."""
    if not broker.is_authorized_for_topic(call, Operation.READ, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic not in broker.image.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


def response_callback(
    call: Call, error_result: Callable[[ErrorCode], Message]
) -> Callable[[Outcome], None]:
    """Return a callback that answers with a response, or one for an error code.

    `error_result` builds the response for an error code.
    """

    def answer(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.record_error(outcome)
            outcome = error_result(outcome)
        call.answer(outcome)

    return answer


def serves_consumer_groups(broker: Broker) -> bool:
    """Whether the consumer protocol is in `group.coordinator.rebalance.protocols`."""
    return "consumer" in broker.settings.group_coordinator_rebalance_protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class EachGroup(Generic[T]):
    """How a request about many groups is split by shard, and its responses joined."""

    operation: Operation
    shard_request: Callable[[tuple[str, ...]], Message]
    # One per group, in their order.
    results: Callable[[Message], Sequence[T]]
    error_result: Callable[[str, ErrorCode], T]
    respond: Callable[[Sequence[T]], Message]


def handle_each_group(
    broker: Broker, call: Call, group_ids: Sequence[str], each: EachGroup[T]
) -> Message | None:
    """Send a request to every group's shard; each group succeeds or fails by itself."""
    if not group_ids:
        return each.respond(())
    gathering = GatheredResponses[T](
        len(group_ids), lambda results: call.answer(each.respond(results))
    )

    def fail(index: int, group_id: str, code: ErrorCode) -> None:
        call.record_error(code)
        gathering.put(index, each.error_result(group_id, code))

    def gather(indexes: Sequence[int], outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            for index in indexes:
                fail(index, group_ids[index], outcome)
        else:
            for index, result in zip(indexes, each.results(outcome), strict=True):
                gathering.put(index, result)

    by_shard: dict[int | None, list[int]] = {}
    for index, group_id in enumerate(group_ids):
        if is_authorized_for_group(broker, call, each.operation, group_id):
            by_shard.setdefault(broker.groups.number_of(group_id), []).append(index)
        else:
            fail(index, group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for indexes in by_shard.values():
        shard_request = each.shard_request(tuple([group_ids[index] for index in indexes]))
        broker.groups.handle_request(
            group_ids[indexes[0]], shard_request, call, partial(gather, indexes)
        )
    return None


class GatheredResponses(Generic[T]):
    """Collects responses that arrive one by one and passes them on together."""

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
