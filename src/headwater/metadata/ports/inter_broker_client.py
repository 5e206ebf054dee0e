"""Port: send requests to other brokers.

`broker` implements it with connections, the simulator with a network that loses and delays messages
and breaks connections.

Note: a broker can send requests to itself in the same way; the controller treats its own broker
like every other.

Requests of one purpose to one broker arrive in order, over one connection. Each ends in exactly one
of its two callbacks, on the event loop, never before `send_request` has returned. After `on_error`
it is unknown whether the request was processed. The caller decides about retries; while a broker is
unreachable, requests fail quickly.

A response is valid within the callback only: its records are views of the connection's buffer.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from headwater.common.ids import NodeId
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.older_versions import Message

OnResponse = Callable[[Message], None]


class Purpose(Enum):
    """What a connection is for; requests of different purposes do not block others."""

    # From the controller to brokers: UpdateMetadata, LeaderAndIsr, StopReplica.
    CONTROL = "control"
    # From a follower to its leader: Fetch, ListOffsets.
    REPLICATION = "replication"
    # From a broker to the controller: AlterPartition, AllocateProducerIds, ControlledShutdown,
    # forwarded client requests.
    TO_CONTROLLER = "to-controller"
    # Between transaction coordinators and partition leaders.
    TRANSACTION = "transaction"
    # From a group coordinator to partition leaders: ListOffsets for lag metrics.
    GROUP_LAG = "group-lag"


class InterBrokerClient(Protocol):
    """Sends requests to brokers by node id."""

    def send_request(
        self,
        node_id: NodeId,
        request: Message,
        *,
        purpose: Purpose,
        timeout_ms: int,
        then: OnResponse,
        on_error: Failed,
    ) -> None:
        """Send a request. Fails with `ConnectionLost` or `RequestTimedOut`."""

    def drop(self, node_id: NodeId, purpose: Purpose) -> None:
        """Close a connection and fail its requests; `send_request` opens another one."""
