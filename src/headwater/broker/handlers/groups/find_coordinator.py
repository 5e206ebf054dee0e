"""FindCoordinator: the broker that coordinates a group or a transactional id.

It is the leader of the key's partition of an internal topic, which is created with the first
request. Kafka answers COORDINATOR_NOT_AVAILABLE meanwhile; here the response waits for the topic.

If the topic cannot be created, because fewer brokers are alive than it needs replicas, or if the
partition has no leader, the response is COORDINATOR_NOT_AVAILABLE. Clients retry without end, so
the reason is in the error message and, at most every 30 s, in the log.
"""

import logging
from typing import Final

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.controller.topic_creation import Results
from headwater.coordinator.runtime.partition_for_key import partition_for
from headwater.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headwater.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.security.authorization.authorizer import Operation, Resource, ResourceKind

_GROUP: Final = 0
_TRANSACTION: Final = 1

_TOPICS: Final = {_GROUP: CONSUMER_OFFSETS, _TRANSACTION: TRANSACTION_STATE}
_RESOURCES: Final = {
    _GROUP: (ResourceKind.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION: (
        ResourceKind.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}
_FACTORS: Final = {
    CONSUMER_OFFSETS: "offsets.topic.replication.factor",
    TRANSACTION_STATE: "transaction.state.log.replication.factor",
}
_CREATED: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
_MANY_SINCE: Final = 4
_NO_NODE: Final = -1

_log = logging.getLogger(__name__)


def handle(
    broker: Broker, request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse | None:
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        reason = f"unknown coordinator key type {request.key_type}"
        return error_response(request, ApiError(ErrorCode.INVALID_REQUEST, reason))
    kind, _ = _RESOURCES[request.key_type]
    is_wanted = any(
        broker.is_allowed(call, Operation.DESCRIBE, Resource(kind, key))
        for key in request.coordinator_keys
    )
    if topic in broker.image.topics or not is_wanted:
        return _found(broker, request, call)

    def created(results: Results) -> None:
        # Another broker may have created it meanwhile.
        errors = [each for each in results if each.error_code not in _CREATED]
        if not errors:
            call.answer(_found(broker, request, call))
            return
        reason = errors[0].error_message or errors[0].error_code.name
        if errors[0].error_code is ErrorCode.INVALID_REPLICATION_FACTOR:
            reason += f" ({_FACTORS[topic]})"
        fail_all(reason)

    def failed(error: HeadwaterError) -> None:
        call.record_error(error.code)
        fail_all(str(error))

    def fail_all(why: str) -> None:
        reason = f"{topic} cannot be created: {why}"
        _warn(broker, topic, reason)
        call.answer(error_response(request, ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)))

    broker.controller_access.create_topics((topic,), then=created, on_error=failed)
    return None


def error_response(request: FindCoordinatorRequest, error: ApiError) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=tuple(
            _error_result(key, error.code, error.reason) for key in request.coordinator_keys
        )
    )


def _found(broker: Broker, request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=tuple(
            _coordinator(broker, request.key_type, key, call) for key in request.coordinator_keys
        )
    )


def _coordinator(broker: Broker, key_type: int, key: str, call: Call) -> Coordinator:
    kind, unauthorized = _RESOURCES[key_type]
    if not broker.is_authorized(call, Operation.DESCRIBE, Resource(kind, key)):
        return _error_result(key, unauthorized, _message(unauthorized, call))
    image = broker.image
    topic = image.topics.get(_TOPICS[key_type])
    reason = f"{_TOPICS[key_type]} is not known to this broker yet"
    if topic is not None:
        index = partition_for(key, len(topic.partitions))
        partition = topic.partitions[index]
        leader = partition.leader
        found = image.brokers.get(leader)
        endpoint = found.endpoint(call.listener) if found else None
        if endpoint is not None:
            return Coordinator(
                key=key,
                node_id=leader,
                host=endpoint.host,
                port=endpoint.port,
                error_message=_message(ErrorCode.NONE, call),
            )
        replicas = ",".join(map(str, partition.replicas))
        reason = f"partition {index} of {topic.name} has no leader (replicas {replicas})"
        _warn(broker, topic.name, reason)
    return _error_result(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)


def _warn(broker: Broker, topic: str, reason: str) -> None:
    if broker.coordinator_warnings.is_due(topic, broker.clock.steady_ms()):
        _log.warning("Coordinator not available: topic=%s reason=%s", topic, reason)


def _message(code: ErrorCode, call: Call) -> str:
    """Return a message for versions with a single key, even without an error.

    Kafka 4.1 does so too.
    """
    return code.name if call.version < _MANY_SINCE else ""


def _error_result(key: str, code: ErrorCode, reason: str | None) -> Coordinator:
    return Coordinator(
        key=key, node_id=_NO_NODE, port=_NO_NODE, error_code=code, error_message=reason
    )
