"""TxnOffsetCommit: commit a group's offsets with a transaction (TX-11, TX-12).

The partition of `__consumer_offsets` must be in the transaction like any other partition that it
writes to, so the first commit is verified, or adds the partition, before the group's shard gets it
(TX-13).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from headwater.broker.coordinators.pending_verifications import VerifiedTransaction
from headwater.broker.handlers.groups.group_requests import is_authorized_for_group, topic_error
from headwater.broker.handlers.transactions.transaction_requests import (
    is_authorized_for_transaction,
)
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_SEQUENCE, ProducerId
from headwater.coordinator.group.group_events import TopicsDeleted
from headwater.coordinator.group.offset_commit import txn_commit_error_response
from headwater.coordinator.runtime.coordinator_context import CoordinatorContext
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.coordinator.runtime.pending_responses import Outcome
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from headwater.replication.partition import Partition
from headwater.replication.transaction_verification import (
    VerificationGuard,
    VerificationRequest,
    commit_code,
    commit_verification_request,
)
from headwater.replication.transactional_append import UNGUARDED
from headwater.security.authorization.authorizer import Operation

_LOADING_SINCE: Final = 2
"""Older clients may crash on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""

Failed = tuple[TxnOffsetCommitResponseTopic, ...]


def handle(
    broker: Broker, request: TxnOffsetCommitRequest, call: Call
) -> TxnOffsetCommitResponse | None:
    code = _request_error(broker, request, call)
    if code is not None:
        call.record_error(code)
        return txn_commit_error_response(request, code)
    accepted, errors = _split(broker, request, call)
    if not accepted:
        return TxnOffsetCommitResponse(topics=errors)
    accepted_request = replace(request, topics=accepted)

    def respond(outcome: Outcome) -> None:
        if isinstance(outcome, ErrorCode):
            call.record_error(outcome)
            outcome = txn_commit_error_response(
                accepted_request, _error_for_version(outcome, call.version)
            )
        assert isinstance(outcome, TxnOffsetCommitResponse)
        call.answer(replace(outcome, topics=(*errors, *outcome.topics)))

    shard = broker.groups.shard_of(request.group_id)
    if isinstance(shard, ErrorCode):
        respond(shard)
    else:
        _commit(broker, shard, accepted_request, call, respond)
    return None


def error_response(request: TxnOffsetCommitRequest, error: ApiError) -> TxnOffsetCommitResponse:
    return txn_commit_error_response(request, error.code)


def _commit(
    broker: Broker,
    shard: CoordinatorContext[TopicsDeleted],
    request: TxnOffsetCommitRequest,
    call: Call,
    respond: Callable[[Outcome], None],
) -> None:
    """Pass the offsets to the shard once its partition is verified."""

    def ask(ticket: VerificationGuard | None) -> None:
        shard.handle_request(
            request,
            version=call.version,
            client_id=call.client_id,
            client_host=f"/{call.host}",
            answer=respond,
            ticket=ticket,
        )

    hosted = broker.partitions.find(shard.topic, shard.number)
    assert hosted is not None, "a shard is on the broker that leads its partition"
    verification_request = commit_verification_request(call.version)
    producer = TransactionalProducer(ProducerId(request.producer_id), request.producer_epoch)
    if _is_open(hosted, producer):
        ask(None)
        return
    if not broker.add_partitions_to_txn_manager.needs_coordinator(verification_request):
        ask(UNGUARDED)
        return
    transaction = VerifiedTransaction(
        transactional_id=request.transactional_id,
        producer=producer,
        verification_request=verification_request,
    )
    commit = _UnverifiedCommit(verification_request, ask, respond)
    broker.add_partitions_to_txn_manager.pending.verify(transaction, ((hosted, commit),))


@dataclass(frozen=True, slots=True)
class _UnverifiedCommit:
    """A commit that waits for verification (`pending_verifications.UnverifiedBatch`)."""

    verification_request: VerificationRequest
    commit: Callable[[VerificationGuard | None], None]
    respond: Callable[[Outcome], None]
    sequence: int = NO_SEQUENCE

    def verified(self, ticket: VerificationGuard) -> None:
        self.commit(ticket)

    def failed(self, code: ErrorCode) -> None:
        self.respond(commit_code(code, self.verification_request))


def _is_open(hosted: Partition, producer: TransactionalProducer) -> bool:
    producers = hosted.open_log().producers
    return producers.has_open_transaction(producer.producer_id, producer.epoch)


def _request_error(broker: Broker, request: TxnOffsetCommitRequest, call: Call) -> ErrorCode | None:
    if not is_authorized_for_transaction(broker, call, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not is_authorized_for_group(broker, call, Operation.READ, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if request.producer_id < 0 or request.producer_epoch < 0:
        # The coordinator would answer the same, but verification may be disabled.
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return None


def _split(
    broker: Broker, request: TxnOffsetCommitRequest, call: Call
) -> tuple[tuple[TxnOffsetCommitRequestTopic, ...], Failed]:
    """Split the topics into those for the shard and the results of rejected ones.

    Unknown topics and partitions are rejected.
    """
    accepted: list[TxnOffsetCommitRequestTopic] = []
    errors: list[TxnOffsetCommitResponseTopic] = []

    def fail_part(topic: TxnOffsetCommitRequestTopic, code: ErrorCode) -> None:
        call.record_error(code)
        part = replace(request, topics=(topic,))
        errors.extend(txn_commit_error_response(part, code).topics)

    for topic in request.topics:
        code = topic_error(broker, call, topic.name)
        if code is not None:
            fail_part(topic, code)
            continue
        count = len(broker.image.topics[topic.name].partitions)
        known = tuple(each for each in topic.partitions if 0 <= each.partition_index < count)
        unknown = tuple(each for each in topic.partitions if each not in known)
        if unknown:
            part = replace(topic, partitions=unknown)
            fail_part(part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if known:
            accepted.append(replace(topic, partitions=known))
    return tuple(accepted), tuple(errors)


def _error_for_version(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
