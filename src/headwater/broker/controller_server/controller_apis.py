"""Serve the requests of the controller listener (Kafka: ControllerApis).

Requests between replicas go to the replica of the metadata log. All others have a handler, most of
them the one that also serves them in a ZooKeeper cluster; on a node that does not lead the quorum
they fail with NOT_CONTROLLER, upon which brokers and clients look for the leader.
"""

import logging
from time import perf_counter_ns
from typing import Final

from headwater.broker.controller_server.controller_services import ControllerServices
from headwater.broker.requests.api_routes import (
    CONTROLLER_APIS,
    PIPELINED_APIS,
    QUORUM_ADMIN_APIS,
)
from headwater.broker.requests.call import Call
from headwater.broker.requests.request_counters import RequestCounters
from headwater.broker.requests.request_handler import answer
from headwater.broker.requests.request_slices import answer_in_steps, whole_bytes
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ProtocolError
from headwater.metadata_store.raft.metadata_version import (
    KRAFT_VERSION,
    SUPPORTED_FEATURES,
)
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
from headwater.raft.voter_set import node_of
from headwater.security.authorization.authorizer import CLUSTER, Operation

_log = logging.getLogger(__name__)

REPLICA_APIS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.UPDATE_RAFT_VOTER,
    }
)
HANDLED_APIS: Final = frozenset(
    {
        *CONTROLLER_APIS,
        *QUORUM_ADMIN_APIS,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.ENVELOPE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
    }
)
CONTROLLER_LISTENER_APIS: Final = (
    *sorted(REPLICA_APIS | HANDLED_APIS),
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_CLUSTER,
)

_LARGEST_REQUEST_BYTES: Final = 16_777_216
_CONTROLLERS: Final = 2


class ControllerApis:
    """`headwater.network.request_service.Service` of a controller."""

    def __init__(
        self,
        services: ControllerServices,
        client: KafkaRaftClient,
        *,
        cluster_id: str,
        listener_name: str,
    ) -> None:
        self._services = services
        self._client = client
        self._cluster_id = cluster_id
        self._listener_name = listener_name
        self._api_versions: tuple[object, ApiVersionsResponses] | None = None
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
            call.answer(self._current_api_versions().answer(header.version))
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
        elif key in REPLICA_APIS:
            self._serve_replica(call, request)
        elif len(frame) > whole_bytes(key):
            call.run_steps(answer_in_steps(self._services, call, request), len(frame))
        else:
            response = answer(self._services, call, request)
            if response is not None:
                call.answer(response)
            elif key not in PIPELINED_APIS:
                call.hold()

    def handle_api_versions(self, slot: ResponseSlot, frame: memoryview) -> None:
        """Answer ApiVersions on a connection that is not authenticated yet."""
        self.serve(slot, frame)

    def failed(self, connection: ServedConnection, error: Exception) -> None:
        _log.error(
            "Closed connection after an unexpected error: client=%s",
            connection.address,
            exc_info=error,
        )

    def closed(self, connection: ServedConnection) -> None:
        _log.debug("Closed connection: client=%s", connection.address)

    def _serve_replica(self, call: Call, request: Message) -> None:
        if not self._services.is_authorized(call, Operation.CLUSTER_ACTION, CLUSTER):
            raise ProtocolError(f"{call} is not authorized for CLUSTER_ACTION")

        def respond(response: Message) -> None:
            if not call.is_disconnected:
                call.answer(response)

        self._services.receive(request, respond)

    def _current_api_versions(self) -> ApiVersionsResponses:
        """Return the responses, which are built again after a change of features."""
        loader = self._services.loader
        features = {**loader.image.features, KRAFT_VERSION: self._client.kraft_version}
        if self._api_versions is None or self._api_versions[0] != features:
            found = [
                Feature(
                    name=each.name,
                    lowest=each.lowest,
                    highest=each.highest,
                    finalized=features.get(each.name, 0),
                )
                for each in SUPPORTED_FEATURES
            ]
            # Larger than before, since the change of a feature is a record.
            epoch = max(0, loader.end.offset - 1)
            responses = api_versions_responses(
                CONTROLLER_LISTENER_APIS, found, finalized_epoch=epoch
            )
            self._api_versions = (features, responses)
        return self._api_versions[1]

    def _describe_cluster(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """The controllers (KIP-919): voters, and others that are registered."""
        if request.endpoint_type != _CONTROLLERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="this is a controller endpoint, not a broker endpoint",
            )
        leader_id = self._client.leader_and_epoch.leader_id
        nodes: dict[int, DescribeClusterBroker] = {
            controller.node_id: DescribeClusterBroker(
                broker_id=controller.node_id, host=endpoint.host, port=endpoint.port
            )
            for controller in self._services.image.controllers.values()
            if controller.endpoints
            for endpoint in controller.endpoints[:1]
        }
        for voter in self._client.voters.voters:
            node = node_of(voter.key.id, voter.endpoints, self._listener_name)
            if node is not None:
                nodes[node.id] = DescribeClusterBroker(
                    broker_id=node.id, host=node.host, port=node.port
                )
        return DescribeClusterResponse(
            endpoint_type=_CONTROLLERS,
            cluster_id=self._cluster_id,
            controller_id=-1 if leader_id is None else leader_id,
            brokers=tuple(nodes[each] for each in sorted(nodes)),
        )
