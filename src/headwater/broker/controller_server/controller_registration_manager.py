"""Register this node with the active controller (KIP-919).

Each start is a new incarnation. The node registers until the metadata log has its registration, at
the active controller of the moment.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from headwater.broker.controller_server.controller_services import ControllerServices
from headwater.common.ids import TopicId
from headwater.common.security_protocol import SecurityProtocol
from headwater.metadata.cluster_image import BrokerEndpoint
from headwater.metadata_store.raft.metadata_version import METADATA_VERSION, SUPPORTED_FEATURES
from headwater.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)
from headwater.protocol.older_versions import Message
from headwater.raft.kafka_raft_client import KafkaRaftClient
from headwater.raft.voter_set import Node, node_of

_log = logging.getLogger(__name__)

SUPPORTED_SINCE: Final = 15
"""The metadata.version from which on controllers register (3.7-IV0)."""

_PROTOCOLS: Final = tuple(SecurityProtocol)
_RETRY_MS: Final = 1_000

SendRequest = Callable[[Node, Message, Callable[[Message | None], None]], None]


class ControllerRegistrationManager:
    """The registration of one process."""

    def __init__(
        self,
        services: ControllerServices,
        client: KafkaRaftClient,
        *,
        incarnation_id: TopicId,
        endpoints: Sequence[BrokerEndpoint],
        listener_name: str,
        send_request: SendRequest,
    ) -> None:
        self._services = services
        self._client = client
        self._listener_name = listener_name
        self._send_request = send_request
        self._request = ControllerRegistrationRequest(
            controller_id=services.node_id,
            incarnation_id=incarnation_id,
            listeners=tuple(
                Listener(
                    name=each.listener,
                    host=each.host,
                    port=each.port,
                    security_protocol=_PROTOCOLS.index(SecurityProtocol(each.security_protocol)),
                )
                for each in endpoints
            ),
            features=tuple(
                Feature(
                    name=each.name,
                    min_supported_version=each.lowest,
                    max_supported_version=each.highest,
                )
                for each in SUPPORTED_FEATURES
            ),
        )
        self._next_ms = 0

    @property
    def is_registered(self) -> bool:
        registered = self._services.image.controllers.get(self._services.node_id)
        return registered is not None and (
            registered.incarnation_id == self._request.incarnation_id
        )

    def maybe_register(self, now_ms: int) -> None:
        """Register if that is due; called ten times a second."""
        level = self._services.image.features.get(METADATA_VERSION, 0)
        if now_ms < self._next_ms or self.is_registered or level < SUPPORTED_SINCE:
            return
        self._next_ms = now_ms + _RETRY_MS
        active = self._services.quorum_controller
        if active is not None:
            active.register_controller(self._request, then=_ignore, on_error=_ignore)
            return
        leader_id = self._client.leader_and_epoch.leader_id
        for voter in self._client.voters.voters:
            node = node_of(voter.key.id, voter.endpoints, self._listener_name)
            if voter.key.id == leader_id and node is not None:
                self._send_request(node, self._request, self._answered)

    def _answered(self, response: Message | None) -> None:
        if isinstance(response, ControllerRegistrationResponse) and response.error_code:
            _log.info("Registration was refused, retrying: error=%s", response.error_code.name)


def _ignore(_: object) -> None:
    """The log says whether it succeeded."""
