"""WriteTxnMarkers: append COMMIT or ABORT markers to partitions led here.

Note: although it is an inter-broker API, it is also served to clients with Alter on the cluster:
tools use it to abort hanging transactions (KIP-664).
"""

from functools import partial

from headwater.broker.coordinators.transaction_marker_writer import Marker
from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId, TopicPartition
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.coordinator.transaction.transaction_marker_delivery import MarkerResponses
from headwater.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headwater.security.authorization.authorizer import CLUSTER, Operation


def handle(
    broker: Broker, request: WriteTxnMarkersRequest, call: Call
) -> WriteTxnMarkersResponse | None:
    is_authorized = broker.is_allowed(call, Operation.ALTER, CLUSTER)
    if not is_authorized and not broker.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
        call.record_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return _error_result(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    answers = MarkerResponses(request)
    pending = answers.missing()
    if not pending:
        return answers.response()
    writing = _Writing(answers, len(pending), call)
    for place, partition in pending:
        marker, written = request.markers[place], partial(writing.written, place, partition)
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            written(ErrorCode.INVALID_REQUEST)
        else:
            broker.markers.write(_marker(marker), partition, written)
    return None


def error_response(request: WriteTxnMarkersRequest, error: ApiError) -> WriteTxnMarkersResponse:
    return _error_result(request, error.code)


class _Writing:
    """One request whose markers are being written."""

    __slots__ = ("_answers", "_call", "_missing")

    def __init__(self, answers: MarkerResponses, missing: int, call: Call) -> None:
        self._answers = answers
        self._missing = missing
        self._call = call

    def written(self, place: int, partition: TopicPartition, code: ErrorCode) -> None:
        if code:
            self._call.record_error(code)
        self._answers.add(place, partition, code)
        self._missing -= 1
        if not self._missing:
            self._call.answer(self._answers.response())


def _marker(marker: WritableTxnMarker) -> Marker:
    """Convert a marker. Tools send no transaction version and count as old clients."""
    return Marker(
        producer=TransactionalProducer(ProducerId(marker.producer_id), marker.producer_epoch),
        coordinator_epoch=marker.coordinator_epoch,
        client_version=marker.client_version,
        is_commit=marker.transaction_result,
    )


def _error_result(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    answers = MarkerResponses(request)
    for place, partition in answers.missing():
        answers.add(place, partition, code)
    return answers.response()
