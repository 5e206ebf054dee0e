"""Produce of many partitions or many bytes: append in steps.

Other connections are served between the steps, but no further request of this one until the
response is complete, as in Kafka. So the batches of one connection stay in order, and the request
stays valid in the connection's receive buffer (see `headwater.network.request_service`).

A partition may be deleted or get another leader between two steps; it is looked up in the step that
appends its batch. Unverified transactional batches are verified `_VERIFIED_PARTITIONS` at a time,
one after the other: the coordinator rejects concurrent requests of one transaction.

Note: if the connection closes between two steps, the remaining batches are not appended. The
producer gets no response and cannot tell the difference from a request that was lost on its way.
"""

from collections.abc import Generator, Iterator, Mapping
from functools import partial
from typing import Final

from headwater.broker.handlers.data.leader_hints import PRODUCE_SINCE, hint_producer
from headwater.broker.handlers.data.produce import (
    is_transactional,
    partitions_of,
    put_batch,
    put_missing,
)
from headwater.broker.handlers.data.produce_response import NO_OFFSET, PendingProduceResponse
from headwater.broker.handlers.data.transactional_produce import TransactionalProduce
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.broker.requests.request_handler import error_response_of
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import InvalidProducerIdMapping, ProtocolError
from headwater.protocol.messages.produce import (
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headwater.protocol.stepwise_codec import read_in_steps, write_in_steps
from headwater.replication.partition import Partition

WHOLE_ELEMENTS: Final = 200
"""A Produce with more topics and partitions together is processed in steps."""

WHOLE_BYTES: Final = 4_194_304
"""So is a larger Produce of several partitions."""

STEP_PARTITIONS: Final = 32
"""Partitions per step: less than a millisecond of appends."""

_STEP_BYTES: Final = 1_048_576
_STEP_RESPONSES: Final = 64
_STEP_CHECKS: Final = 256
_VERIFIED_PARTITIONS: Final = 256

_NOT_HERE: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER

_Run = Generator[TransactionalProduce | None, None, None]
"""Steps of a request; a step that yields its transaction must be followed by a verification."""


def has_one_partition(request: ProduceRequest) -> bool:
    topics = request.topic_data
    return len(topics) == 1 and len(topics[0].partition_data) == 1


def read_and_produce(broker: Broker, call: Call, body: memoryview, limit: int) -> Iterator[None]:
    """Decode and process a Produce request in steps."""
    request = yield from read_in_steps(ProduceRequest, call.version, body, limit)
    yield from produce_in_steps(broker, call, request)


def produce_in_steps(broker: Broker, call: Call, request: ProduceRequest) -> Iterator[None]:
    """Process a Produce request in steps; the last one, or a later callback, answers."""
    return _until_verification(call, _run(broker, call, request))


def _until_verification(call: Call, run: _Run) -> Iterator[None]:
    for transaction in run:
        if transaction is not None:
            transaction.when_verified(partial(_continue, call, run))
            return
        yield


def _continue(call: Call, run: _Run) -> None:
    # If the connection is closed, the last reference to `run` is dropped here, which ends it.
    if not call.is_disconnected:
        call.run_steps(_until_verification(call, run))


def _run(broker: Broker, call: Call, request: ProduceRequest) -> _Run:
    try:
        yield from _LargeProduce(broker, call, request).steps()
    except ProtocolError:
        raise
    except Exception as error:
        if call.is_answered:
            raise
        call.answer(error_response_of(call, request, error))


class _LargeProduce:
    """One request."""

    def __init__(self, broker: Broker, call: Call, request: ProduceRequest) -> None:
        self._broker = broker
        self._call = call
        self._request = request
        self._results = _LargeProduceResponse(broker, request, call)

    def steps(self) -> _Run:
        results = self._results
        is_appended = False
        try:
            error_of_request = yield from self._check()
            if error_of_request is None:
                yield from self._append()
            else:
                yield from self._reject(error_of_request)
            is_appended = True
            is_complete = results.finish_appends()
        finally:
            if not is_appended:
                results.abandon()
        if is_complete:
            yield from results.answer_in_steps()

    def _batches(self) -> Iterator[tuple[TopicProduceData, PartitionProduceData]]:
        for topic in self._request.topic_data:
            for data in topic.partition_data:
                yield topic, data

    def _check(self) -> Generator[None, None, ApiError | None]:
        """Return the error of the whole request, before anything is appended (PV-8)."""
        transaction = self._results.transaction
        for number, (_, data) in enumerate(self._batches(), 1):
            records = data.records
            if records is not None and is_transactional(records):
                if transaction is None:
                    return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
                try:
                    transaction.check_producer(records)
                except InvalidProducerIdMapping as error:
                    return ApiError(error.code, str(error))
            if number % _STEP_CHECKS == 0:
                yield
        return None

    def _append(self) -> _Run:
        broker, call, results = self._broker, self._call, self._results
        transaction = results.transaction
        now_ms = broker.clock.now_ms()
        partition_count = size_bytes = 0
        for topic in self._request.topic_data:
            results.begin_topic(topic)
            # A topic without partitions counts too.
            partition_count += 1
            found: Mapping[int, Partition] | None = None
            error: ErrorCode | None = None
            for data in topic.partition_data:
                if partition_count >= STEP_PARTITIONS or size_bytes >= _STEP_BYTES:
                    yield from self._end_step(transaction)
                    partition_count = size_bytes = 0
                    now_ms = broker.clock.now_ms()
                    # The topic may have changed; an error of the topic stays.
                    if error is None:
                        found = None
                if found is None:
                    found, error = partitions_of(broker, topic, call)
                hosted = found.get(data.index)
                if hosted is None:
                    put_missing(broker, topic, data.index, error, results, call)
                else:
                    put_batch(broker, hosted, data, results, now_ms)
                    size_bytes += len(data.records or b"")
                partition_count += 1
            if partition_count >= STEP_PARTITIONS:
                yield from self._end_step(transaction)
                partition_count = size_bytes = 0
                now_ms = broker.clock.now_ms()
        if transaction is not None:
            transaction.verify()

    def _end_step(self, transaction: TransactionalProduce | None) -> _Run:
        if transaction is None or transaction.unverified_count < _VERIFIED_PARTITIONS:
            yield None
            return
        transaction.verify()
        yield transaction if transaction.is_pending else None

    def _reject(self, error_of_request: ApiError) -> Iterator[None]:
        """Fail all partitions with the error of the request."""
        results, request = self._results, self._request
        if request.acks == 0:
            raise ProtocolError(f"Produce with acks=0 failed: {error_of_request.code.name}")
        self._call.record_error(error_of_request.code)
        number = 0
        for topic in request.topic_data:
            results.begin_topic(topic)
            for data in topic.partition_data:
                results.add_result(
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=error_of_request.code,
                        base_offset=NO_OFFSET,
                        error_message=error_of_request.reason,
                    )
                )
                number += 1
                if number % _STEP_CHECKS == 0:
                    yield


class _LargeProduceResponse(PendingProduceResponse):
    """The partition results of one large request, which come in several steps.

    The timeout starts when all batches are appended, as in Kafka.
    """

    __slots__ = ()

    def finish_appends(self) -> bool:
        """All batches have been appended: return whether all results are there."""
        if not self._missing:
            return True
        self._is_late = True
        if self._waits:
            self._start_timer()
        return False

    def abandon(self) -> None:
        """The connection was closed between two steps, or a step failed: wait for nothing."""
        self._is_late = True
        waits, self._waits = self._waits, {}
        for wait in waits:
            wait.hosted.remove_delayed_produce(wait)

    def answer_in_steps(self) -> Iterator[None]:
        call = self._call
        if self.acks == 0:
            self._finish_silently()
            return
        responses: list[TopicProduceResponse] = []
        endpoints: dict[int, NodeEndpoint] = {}
        may_hint = self._has_error and call.version >= PRODUCE_SINCE
        number = 0
        for topic, answers in self._topics:
            final: list[PartitionProduceResponse] = []
            for start in range(0, len(answers), _STEP_RESPONSES):
                some = self._final(answers[start : start + _STEP_RESPONSES])
                if may_hint and any(each.error_code is _NOT_HERE for each in some):
                    part = _topic_response(topic, some)
                    hinted = hint_producer(self._broker, call, ProduceResponse(responses=(part,)))
                    some = hinted.responses[0].partition_responses
                    endpoints.update({each.node_id: each for each in hinted.node_endpoints})
                final += some
                number += len(some)
                if number >= _STEP_RESPONSES:
                    number = 0
                    yield
            responses.append(_topic_response(topic, tuple(final)))
            number += 1
        response = ProduceResponse(
            responses=tuple(responses), node_endpoints=tuple(endpoints.values())
        )
        body = yield from write_in_steps(call.complete(response), call.version)
        call.answer_body(body)

    def _start_timer(self) -> None:
        if self._is_late:
            super()._start_timer()

    def _end_wait(self) -> None:
        if not self.is_done:
            super()._end_wait()

    def _answer_late(self) -> None:
        if not self._call.is_disconnected and not self._call.is_answered:
            self._call.run_steps(self.answer_in_steps())


def _topic_response(
    topic: TopicProduceData, answers: tuple[PartitionProduceResponse, ...]
) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=answers
    )
