"""Serve the requests of the controller listener (Kafka: ControllerApis)."""

import logging
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from headwater.broker.requests.call import Call
from headwater.broker.requests.request_counters import RequestCounters
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError
from headwater.network.request_service import ResponseSlot, ServedConnection
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.api_versions_response import (
    ApiVersionsResponses,
    Feature,
    api_versions_responses,
)
from headwater.protocol.codec import read_request
from headwater.protocol.headers import read_request_header
from headwater.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headwater.protocol.older_versions import Message
from headwater.raft.kafka_raft_client import KafkaRaftClient
from headwater.raft.raft_core import MAX_KRAFT_VERSION
from headwater.raft.voter_set import node_of

_log = logging.getLogger(__name__)

QUORUM_APIS: Final = (
    ApiKey.FETCH,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
)
CONTROLLER_LISTENER_APIS: Final = (*QUORUM_APIS, ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER)
KRAFT_VERSION: Final = "kraft.version"

_LARGEST_REQUEST_BYTES: Final = 16_777_216
_CONTROLLERS: Final = 2

Answer = Callable[[Message], None]


class ControllerApis:
    """`headwater.network.request_service.Service` of a controller."""

    def __init__(
        self,
        client: KafkaRaftClient,
        receive: Callable[[Message, Answer], None],
        *,
        cluster_id: str,
        listener_name: str,
    ) -> None:
        self._client = client
        self._receive = receive
        self._cluster_id = cluster_id
        self._listener_name = listener_name
        self.counters = {key: RequestCounters(APIS[key].newest) for key in CONTROLLER_LISTENER_APIS}

    def serve(self, slot: ResponseSlot, frame: memoryview) -> None:
        started_ns = perf_counter_ns()
        header = read_request_header(frame)
        key = header.api.key
        counters = self.counters.get(key)
        if counters is None:
            raise ProtocolError(f"{header.api.name} is not supported by this controller")
        call = Call(header, slot, counters, started_ns)
        if key is ApiKey.API_VERSIONS:
            call.answer(self._api_versions().answer(header.version))
            return
        if header.version > header.api.newest_served(unstable=False):
            raise ProtocolError(f"{header.api.name} version {header.version} is not supported")
        if len(frame) > _LARGEST_REQUEST_BYTES:
            raise ProtocolError(f"{header.api.name} request of {len(frame)} bytes is too large")
        # The request may wait for a sync, and outlive the receive buffer.
        body = memoryview(bytes(frame[header.body_position :]))
        request = read_request(key, header.version, body)
        if isinstance(request, DescribeClusterRequest):
            call.answer(self._describe_cluster(request))
            return

        def answer(response: Message) -> None:
            if not call.is_disconnected:
                call.answer(response)

        self._receive(request, answer)

    def failed(self, connection: ServedConnection, error: Exception) -> None:
        _log.error(
            "Closed connection after an unexpected error: client=%s",
            connection.address,
            exc_info=error,
        )

    def closed(self, connection: ServedConnection) -> None:
        _log.debug("Closed connection: client=%s", connection.address)

    def _api_versions(self) -> ApiVersionsResponses:
        finalized = self._client.kraft_version
        feature = Feature(
            name=KRAFT_VERSION, lowest=0, highest=MAX_KRAFT_VERSION, finalized=finalized
        )
        return api_versions_responses(
            CONTROLLER_LISTENER_APIS, (feature,), finalized_epoch=max(0, finalized)
        )

    def _describe_cluster(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """The controllers: KIP-919. Voters stand for registered controllers."""
        if request.endpoint_type != _CONTROLLERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="this is a controller endpoint, not a broker endpoint",
            )
        leader_id = self._client.leader_and_epoch.leader_id
        nodes = (
            node_of(voter.key.id, voter.endpoints, self._listener_name)
            for voter in self._client.voters.voters
        )
        return DescribeClusterResponse(
            endpoint_type=_CONTROLLERS,
            cluster_id=self._cluster_id,
            controller_id=-1 if leader_id is None else leader_id,
            brokers=tuple(
                DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port)
                for node in nodes
                if node is not None
            ),
        )
