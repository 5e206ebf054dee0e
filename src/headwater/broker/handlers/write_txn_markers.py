"""WriteTxnMarkers: a coordinator, or a tool, ends transactions in partitions that are led here.

What a reader would get wrong: this is for brokers, and yet it is served to clients that may alter
the cluster. It is how a tool gets rid of a transaction that hangs (KIP-664).
"""

from functools import partial

from headwater.broker.broker import Broker
from headwater.broker.call import Call
from headwater.broker.marker_writing import Marker
from headwater.cluster.decision import Refusal
from headwater.coordinator.effects import TransactionalProducer
from headwater.coordinator.transactions.marker_delivery import MarkerAnswers
from headwater.model.errors import ErrorCode
from headwater.model.ids import ProducerId, TopicPartition
from headwater.security.authorization import CLUSTER, Operation
from headwater.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle(
    broker: Broker, request: WriteTxnMarkersRequest, call: Call
) -> WriteTxnMarkersResponse | None:
    may = broker.could(call, Operation.ALTER, CLUSTER)
    if not may and not broker.may(call, Operation.CLUSTER_ACTION, CLUSTER):
        call.note_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    answers = MarkerAnswers(request)
    owed = answers.missing()
    if not owed:
        return answers.response()
    writing = _Writing(answers, len(owed), call)
    for place, partition in owed:
        asked, written = request.markers[place], partial(writing.written, place, partition)
        if asked.producer_id < 0 or asked.producer_epoch < 0:
            written(ErrorCode.INVALID_REQUEST)
        else:
            broker.markers.write(_marker(asked), partition, written)
    return None


def refuse(request: WriteTxnMarkersRequest, refusal: Refusal) -> WriteTxnMarkersResponse:
    return _refused(request, refusal.code)


class _Writing:
    """One request whose markers are being written."""

    __slots__ = ("_answers", "_call", "_missing")

    def __init__(self, answers: MarkerAnswers, missing: int, call: Call) -> None:
        self._answers = answers
        self._missing = missing
        self._call = call

    def written(self, place: int, partition: TopicPartition, code: ErrorCode) -> None:
        if code:
            self._call.note_error(code)
        self._answers.note(place, partition, code)
        self._missing -= 1
        if not self._missing:
            self._call.answer(self._answers.response())


def _marker(asked: WritableTxnMarker) -> Marker:
    """Tools do not tell the version of the transaction, and count as old clients."""
    return Marker(
        producer=TransactionalProducer(ProducerId(asked.producer_id), asked.producer_epoch),
        coordinator_epoch=asked.coordinator_epoch,
        client_version=asked.client_version,
        is_commit=asked.transaction_result,
    )


def _refused(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    answers = MarkerAnswers(request)
    for place, partition in answers.missing():
        answers.note(place, partition, code)
    return answers.response()
