"""Decode request frames and dispatch them to handlers (KafkaApis).

A malformed request, or one of an unsupported API or version, raises ProtocolError, which closes the
connection. So does a metadata request that arrives before this broker has metadata.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, cast

from headwater.broker.handlers.data.large_produce import (
    WHOLE_BYTES,
    WHOLE_ELEMENTS,
    has_one_partition,
    produce_in_steps,
    read_and_produce,
)
from headwater.broker.handlers.data.produce import handle_at_once
from headwater.broker.node.broker import Broker
from headwater.broker.node.log_levels import is_log_level_request
from headwater.broker.requests.api_routes import (
    CONTROLLER_APIS,
    INTER_BROKER_APIS,
    METADATA_APIS,
    PIPELINED_APIS,
    QUORUM_ADMIN_APIS,
    SERVED_APIS,
    route_of,
)
from headwater.broker.requests.api_versions import api_versions
from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_requests import handle_or_forward
from headwater.broker.requests.internal_call import INTERNAL_LISTENER
from headwater.broker.requests.quota_managers import QuotaManagers
from headwater.broker.requests.request_counters import RequestCounters
from headwater.broker.requests.request_handler import answer
from headwater.broker.requests.request_limits import UNTRUSTED_ELEMENTS_MAX, elements_max
from headwater.broker.requests.request_slices import answer_in_steps, whole_bytes
from headwater.broker.requests.throttled_call import ThrottledCall
from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ConnectionLost, ProtocolError, TooManyElements
from headwater.common.principal import BROKER_PRINCIPAL
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.features import SUPPORTED, Levels
from headwater.network.request_service import ResponseSlot, ServedConnection
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, read_request, request_class
from headwater.protocol.headers import read_request_header
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.produce import ProduceRequest
from headwater.protocol.older_versions import Message
from headwater.protocol.stepwise_codec import read_in_steps
from headwater.protocol.versioned_codec import UNLIMITED
from headwater.records.kernel import read_single_produce
from headwater.records.kernel.single_produce import SingleProduce
from headwater.security.authorization.authorizer import CLUSTER, Operation
from headwater.security.quotas.rate_quota import QuotaClient

if TYPE_CHECKING:
    from headwater.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

_log = logging.getLogger(__name__)

LARGEST_OTHER_BYTES: Final = 16_777_216
"""Requests other than Produce are decoded field by field in Python, while other requests wait."""


# Attribute access on an enum costs ten times as much as a module global.
_PRODUCE: Final = ApiKey.PRODUCE
_API_VERSIONS: Final = ApiKey.API_VERSIONS
_BETWEEN_BROKERS: Final = frozenset(INTER_BROKER_APIS)
_LOGIN: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
# QU-6. The Fetch handler distinguishes followers from consumers.
_BY_BROKERS: Final = frozenset({*INTER_BROKER_APIS, ApiKey.WRITE_TXN_MARKERS})

_ELEMENT_BYTES: Final = 8
_SOFTWARE_SINCE: Final = 3
_SOFTWARE_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


class Dispatch:
    """`headwater.network.request_service.Service` for all connections of a broker."""

    def __init__(
        self,
        broker: Broker,
        *,
        brokers_listener: str | None = None,
        cluster_apis: Sequence[ApiKey] = INTER_BROKER_APIS,
        features: Mapping[str, Levels] = SUPPORTED,
    ) -> None:
        """`brokers_listener` is the inter-broker listener; None for a standalone broker.

        `cluster_apis` are the APIs that only brokers of a cluster have.
        """
        self._broker = broker
        self._brokers_listener = brokers_listener
        self._features = features
        self._cluster_apis = () if brokers_listener is None else tuple(cluster_apis)
        self._unstable = unstable = broker.settings.unstable_api_versions_enable
        self.announce(broker.image)
        served = (*SERVED_APIS, *self._cluster_apis)
        self._counters = {key: RequestCounters(APIS[key].newest) for key in served}
        self._produced = self._counters[_PRODUCE]
        self._elements_max = elements_max(broker.settings, served)
        self._whole_produce_elements = min(WHOLE_ELEMENTS, self._elements_max[_PRODUCE])
        self._newest = {key: APIS[key].newest_served(unstable=unstable) for key in served}

    def announce(self, image: ClusterImage) -> None:
        """Rebuild the ApiVersions responses after a change of features."""
        self._api_versions = api_versions(
            image,
            unstable=self._unstable,
            cluster_apis=self._cluster_apis,
            features=self._features,
        )

    @property
    def counters(self) -> dict[ApiKey, RequestCounters]:
        return self._counters

    def serve(self, slot: ResponseSlot, frame: memoryview) -> None:
        started_ns = perf_counter_ns()
        quotas = self._broker.quotas
        throttled = (
            None if quotas is None else self._throttled_call(quotas, slot, frame, started_ns)
        )
        if throttled is None:
            produce = read_single_produce(frame)
            if produce is not None and self._answer_at_once(slot, frame, produce, started_ns):
                return
        header = read_request_header(frame)
        api = header.api
        key = api.key
        counters = self._counters.get(key)
        if counters is None:
            raise ProtocolError(f"{api.name} is not supported by this broker")
        call = throttled or Call(header, slot, counters, started_ns)
        if key is _API_VERSIONS:
            self._answer_api_versions(call, frame)
            return
        # `read_request_header` has rejected versions below the oldest.
        if header.version > self._newest[key]:
            raise ProtocolError(
                f"{api.name} version {header.version} is not supported by this broker"
            )
        if key is not _PRODUCE and len(frame) > LARGEST_OTHER_BYTES:
            raise ProtocolError(
                f"{api.name} request of {len(frame)} bytes exceeds {LARGEST_OTHER_BYTES}"
            )
        if key in _BETWEEN_BROKERS and call.listener not in (
            self._brokers_listener,
            INTERNAL_LISTENER,
        ):
            raise ProtocolError(
                f"{api.name} on {call.listener}, which is not the inter-broker listener"
            )
        if key in METADATA_APIS and not self._broker.controller_access.has_metadata:
            # librdkafka takes UNKNOWN_TOPIC_OR_PARTITION as final and drops its queued messages.
            raise ConnectionLost(f"{api.name} before this broker has received metadata")
        if key is _PRODUCE:
            self._serve_produce(call, frame)
            if throttled is not None:
                throttled.waits()
            return
        limit = self._elements_max[key]
        if key in _BY_BROKERS or len(frame) > limit:
            limit = self._limit_of(key, call)
        if len(frame) > whole_bytes(key):
            # Inter-broker requests must not queue behind large requests of clients.
            size_bytes = 0 if limit == UNLIMITED else len(frame)
            call.run_steps(self._answer_in_steps(call, bytes(frame), limit), size_bytes)
            return
        request = read_request(key, header.version, frame[header.body_position :], limit)
        if self._brokers_listener is not None and _is_for_controller(key, request):
            handle_or_forward(self._broker, call, request, frame)
            if not call.is_answered:
                call.hold()
            if throttled is not None:
                throttled.waits()
            return
        response = answer(self._broker, call, request)
        if response is not None:
            call.answer(response)
        elif key not in PIPELINED_APIS:
            call.hold()
        if throttled is not None:
            throttled.waits()

    def _serve_produce(self, call: Call, frame: memoryview) -> None:
        """Serve a Produce, in steps if it has many partitions or bytes.

        The number of elements is only known after decoding, whatever the size.
        """
        header = call.header
        body = frame[header.body_position :]
        try:
            request = read(ProduceRequest, header.version, body, self._whole_produce_elements)
        except TooManyElements:
            limit = self._limit_of(_PRODUCE, call)
            # The batches stay in the receive buffer; the other bytes of an element are about these.
            size_bytes = 0 if limit == UNLIMITED else min(len(frame), limit * _ELEMENT_BYTES)
            call.run_steps(read_and_produce(self._broker, call, body, limit), size_bytes)
            return
        if len(frame) > WHOLE_BYTES and not has_one_partition(request):
            call.run_steps(produce_in_steps(self._broker, call, request))
            return
        response = answer(self._broker, call, request)
        if response is not None:
            call.answer(response)

    def _answer_in_steps(self, call: Call, frame: bytes, limit: int) -> Iterator[None]:
        """Decode and serve a large request in steps, from a copy of its frame."""
        header = call.header
        body = memoryview(frame)[header.body_position :]
        shape = request_class(header.api.key)
        request = yield from read_in_steps(shape, header.version, body, limit)
        if self._brokers_listener is not None and _is_for_controller(header.api.key, request):
            handle_or_forward(self._broker, call, request, memoryview(frame))
        else:
            yield from answer_in_steps(self._broker, call, request)

    def handle_api_versions(self, slot: ResponseSlot, frame: memoryview) -> None:
        """Answer ApiVersions on a connection that is not authenticated yet.

        No quota applies: all unauthenticated clients would share one, and any of them could exhaust
        it.
        """
        header = read_request_header(frame)
        counters = self._counters[_API_VERSIONS]
        self._answer_api_versions(Call(header, slot, counters, perf_counter_ns()), frame)

    def failed(self, connection: ServedConnection, error: Exception) -> None:
        _log.error(
            "Closed connection after an unexpected error: client=%s",
            connection.address,
            exc_info=error,
        )

    def closed(self, connection: ServedConnection) -> None:
        _log.debug("Closed connection: client=%s", connection.address)

    def _limit_of(self, key: ApiKey, call: Call) -> int:
        """Limit the array elements of a request that may come from another broker.

        Brokers may name every partition; other clients get the limit of the API, or a small one for
        inter-broker APIs.
        """
        for_brokers = key in _BY_BROKERS
        if for_brokers or call.listener in (self._brokers_listener, INTERNAL_LISTENER):
            authorizer = self._broker.authorizer
            if authorizer.allows(call.requester, Operation.CLUSTER_ACTION, CLUSTER):
                return UNLIMITED
        limit = self._elements_max[key]
        return min(limit, UNTRUSTED_ELEMENTS_MAX) if for_brokers else limit

    def _throttled_call(
        self, quotas: QuotaManagers, slot: ResponseSlot, frame: memoryview, started_ns: int
    ) -> ThrottledCall | None:
        """Return a throttled call if the client has a quota.

        Inter-broker requests are exempt, but only from clients with ClusterAction on the cluster.
        """
        header = read_request_header(frame)
        key, requester = header.api.key, slot.connection.requester
        counters = self._counters.get(key)
        if counters is None or key in _LOGIN or requester.principal == BROKER_PRINCIPAL:
            return None
        who = QuotaClient.of(requester.principal, header.client_id)
        if not quotas.is_limited(who):
            return None
        if key in _BY_BROKERS and self._broker.authorizer.allows(
            requester, Operation.CLUSTER_ACTION, CLUSTER
        ):
            return None
        return ThrottledCall(
            header,
            slot,
            counters,
            started_ns,
            throttling=quotas,
            quota_client=who,
            size_bytes=len(frame),
        )

    def _answer_at_once(
        self, slot: ResponseSlot, frame: memoryview, produce: SingleProduce, started_ns: int
    ) -> bool:
        """Serve a Produce of one partition on the fast path; False if it does not apply."""
        try:
            written = handle_at_once(self._broker, slot.connection.requester, produce)
        except Exception:  # noqa: BLE001, as in `answer`
            # The batch may be in the log already, so the regular path could append it twice.
            header = read_request_header(frame)
            call = Call(header, slot, self._produced, started_ns)
            request = read_request(_PRODUCE, header.version, frame[header.body_position :])
            _log.exception("Request failed: %s request=%r", call, request)
            api_error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            call.record_error(api_error.code)
            call.answer(route_of(_PRODUCE).error_response(request, api_error))
            return True
        if written is None:
            return False
        slot.respond((written,))
        self._produced.answered(produce.version, started_ns)
        return True

    def _answer_api_versions(self, call: Call, frame: memoryview) -> None:
        header = call.header
        if header.version <= header.api.newest:
            request = read(ApiVersionsRequest, header.version, frame[header.body_position :])
            if header.version >= _SOFTWARE_SINCE and not _names_software(request):
                call.record_error(ErrorCode.INVALID_REQUEST)
                call.answer(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
                return
        call.answer(self._api_versions.answer(header.version))


def _is_for_controller(key: ApiKey, request: Message) -> bool:
    """Whether the controller serves this request: metadata changes except log levels."""
    if key is ApiKey.INCREMENTAL_ALTER_CONFIGS:
        return not is_log_level_request(cast("IncrementalAlterConfigsRequest", request))
    return key in CONTROLLER_APIS or key in QUORUM_ADMIN_APIS


def _names_software(request: ApiVersionsRequest) -> bool:
    names = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE_NAME.fullmatch(name) for name in names)
